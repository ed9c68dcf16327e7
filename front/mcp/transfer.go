package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recalld/coordinator"
	"recalld/front/guard"
	"recalld/memory"
)

const (
	exportText = `Write an agent's memories, episodes and profiles to a new JSONL file in a folder that the operator opened for this (recalld mcp --files FOLDER). Nothing is overwritten.`
	importText = `Store the lines of such a file for one agent, whoever's they were. What is there already is skipped, so importing twice changes nothing.`
	mergeText  = `Store everything of one agent for another one too (copy), or instead (move). What the target has already is skipped; locked records are copied and stay.`
)

type exportAnswer struct {
	OK       bool   `json:"ok"`
	Path     string `json:"path"`
	Memories int    `json:"memories"`
	Episodes int    `json:"episodes"`
	Profiles int    `json:"profiles"`
}

type importAnswer struct {
	OK              bool     `json:"ok"`
	DryRun          bool     `json:"dry_run"`
	Memories        int64    `json:"imported_memories"`
	SkippedMemories int64    `json:"skipped_memories"`
	Episodes        int64    `json:"imported_episodes"`
	SkippedEpisodes int64    `json:"skipped_episodes"`
	ProfileUpdated  bool     `json:"profile_updated"`
	Rejected        int      `json:"rejected"`
	BadLines        []string `json:"bad_lines,omitempty"`
}

type mergeAnswer struct {
	OK              bool     `json:"ok"`
	DryRun          bool     `json:"dry_run"`
	Source          string   `json:"source_agent_id"`
	Target          string   `json:"target_agent_id"`
	Strategy        string   `json:"strategy"`
	Mode            string   `json:"mode"`
	Memories        int64    `json:"merged_memories"`
	SkippedMemories int64    `json:"skipped_memories"`
	Episodes        int64    `json:"merged_episodes"`
	SkippedEpisodes int64    `json:"skipped_episodes"`
	ProfileCopied   bool     `json:"profile_copied"`
	SkippedProfile  bool     `json:"skipped_profile"`
	Rejected        []string `json:"rejected,omitempty"`
	Moved           int64    `json:"moved,omitempty"`
	Locked          []string `json:"locked,omitempty"`
}

func transferTools() []tool {
	return []tool{{
		name: "export_memories", text: exportText, effect: appends,
		required: []string{"output_path"},
		properties: []property{
			text("output_path", "A new file in that folder."),
			text("project_id", "As in recall; profiles are in a whole export alone."),
			text("channel", "As in recall."),
		},
		answer: answers[exportAnswer],
		call:   (*server).export,
	}, {
		name: "import_memories", text: importText, effect: adds, whole: true,
		required: []string{"input_path", "target_agent_id"},
		properties: []property{
			text("input_path", "A file in that folder."),
			text("target_agent_id", "Whose memory they become."),
			boolean("dry_run", "Read and count, store nothing."),
		},
		answer: answers[importAnswer],
		call:   (*server).importFile,
	}, {
		name: "merge_memories", text: mergeText, effect: destroys, whole: true,
		required: []string{"source_agent_id", "target_agent_id"},
		properties: []property{
			text("source_agent_id", ""),
			text("target_agent_id", ""),
			choice("strategy", "", "skip"),
			choice("mode", "", "copy", "move"),
			boolean("dry_run", "Count what would be offered, change nothing."),
		},
		answer: answers[mergeAnswer],
		call:   (*server).merge,
	}}
}

func (s *server) export(ctx context.Context, a *arguments) (_ *sdk.CallToolResult, err error) {
	request := coordinator.ExportRequest{Agent: s.agent(a), Project: a.optionalText("project_id"), Channel: a.optionalText("channel")}
	path := a.requiredText("output_path", "", "name a new file")
	a.names["path"] = "output_path"
	if err := a.end(); err != nil {
		return nil, err
	}
	if err := guard.Allowed(ctx, s.service, "Export", request.Agent); err != nil {
		return nil, err
	}
	file, err := s.files.Create(path)
	if err != nil {
		return nil, err
	}
	answer := exportAnswer{OK: true, Path: path}
	out := bufio.NewWriter(file)
	err = s.service.Export(ctx, request, func(line json.RawMessage) error {
		var kind struct{ Type string }
		if err := json.Unmarshal(line, &kind); err != nil {
			return err
		}
		switch kind.Type {
		case "episode":
			answer.Episodes++
		case "profile":
			answer.Profiles++
		default:
			answer.Memories++
		}
		if _, err := out.Write(line); err != nil {
			return err
		}
		return out.WriteByte('\n')
	})
	if err == nil {
		err = errors.Join(out.Flush(), file.Sync())
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, errors.Join(err, s.files.Remove(path))
	}
	return result(answer, false), nil
}

func (s *server) importFile(ctx context.Context, a *arguments) (*sdk.CallToolResult, error) {
	path := a.requiredText("input_path", "", "name a file")
	agent := s.agentIn(a, "target_agent_id")
	dryRun := a.flag("dry_run")
	a.names["path"], a.names["agent"] = "input_path", "target_agent_id"
	if err := a.end(); err != nil {
		return nil, err
	}
	// A file's lines are told of, also where nothing is stored.
	if err := guard.Allowed(ctx, s.service, "Store", agent); err != nil {
		return nil, err
	}
	file, err := s.files.Open(path)
	if err != nil {
		return nil, err
	}
	// It was read; that it does not close changes nothing.
	defer file.Close()
	r, err := coordinator.Import(ctx, s.service, file, agent, dryRun)
	if err != nil {
		return nil, err
	}
	return result(importAnswer{
		OK: true, DryRun: dryRun, Memories: r.Stored.Memories, SkippedMemories: r.Skipped.Memories, Episodes: r.Stored.Episodes,
		SkippedEpisodes: r.Skipped.Episodes, ProfileUpdated: r.Stored.Profiles > 0, Rejected: r.Rejected, BadLines: r.Bad,
	}, false), nil
}

func (s *server) merge(ctx context.Context, a *arguments) (*sdk.CallToolResult, error) {
	request := coordinator.MergeRequest{
		Source: s.agentIn(a, "source_agent_id"), Target: s.agentIn(a, "target_agent_id"), Mode: a.text("mode", ""), DryRun: a.flag("dry_run"),
	}
	if strategy := a.text("strategy", "skip"); strategy != "skip" {
		a.refuse(&memory.FieldError{Field: "strategy", Problem: memory.Shape(strategy) + " is unknown", Limit: "skip", Next: "leave it out"})
	}
	a.names["source"], a.names["target"] = "source_agent_id", "target_agent_id"
	if err := a.end(); err != nil {
		return nil, err
	}
	r, err := s.service.Merge(ctx, request)
	if err != nil {
		return nil, err
	}
	answer := mergeAnswer{
		OK: true, DryRun: request.DryRun, Source: request.Source, Target: request.Target, Strategy: "skip", Mode: "copy",
		Memories: r.Merged.Memories, SkippedMemories: r.Skipped.Memories, Episodes: r.Merged.Episodes, SkippedEpisodes: r.Skipped.Episodes,
		ProfileCopied: r.Merged.Profiles > 0, SkippedProfile: r.Skipped.Profiles > 0, Rejected: r.Rejected, Moved: r.Moved, Locked: r.Locked,
	}
	if request.Mode != "" {
		answer.Mode = request.Mode
	}
	return result(answer, false), nil
}
