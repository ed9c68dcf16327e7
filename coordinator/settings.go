package coordinator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"recalld/coordinator/arm"
	"recalld/coordinator/fusion"
	"recalld/embed"
	"recalld/memory"
)

// setting is one entry of the registry: how a value is read into a [Policy], and
// what a user is told about it.
type setting struct {
	name, initial, limits, doc string
	restart                    bool // takes effect at the next start
	set                        func(p *Policy, value string) (problem string)
}

// registry lists every setting, those of a group together, in the order in which
// users are shown them. It is the only place that knows names, defaults and
// ranges.
func registry() []setting {
	all := []setting{
		integer("recall.depth", 100, 10, 1_000, "candidates that each arm hands to fusion; never taken from the number of rows asked for", func(p *Policy) *int { return &p.Depth }),
		armList("recall.arms", "vector,lexical", "arms of a recall that names none", func(p *Policy) *[]string { return &p.Arms }),
		toggle("recall.approximate", false, "let the scanner's int8 codes alone decide about vectors in every recall; answers say so, and `recalld index status --approximate-recall 100` measures what that costs", func(p *Policy) *bool { return &p.Approximate }),
		choice("fusion.mode", "rsf", []string{"rsf", "rrf"}, "how arms become one score: rsf adds scaled scores, rrf adds reciprocal ranks", func(p *Policy, v string) { p.Fusion = fusion.Mode(v) }),
		number("fusion.rrf_k", 60, 1, 1_000, "constant of rrf", func(p *Policy) *float64 { return &p.RRFK }),
		number("fusion.weight.vector", 1, 0, 100, "factor on the share of the vector arm, which `recalld calibrate` measures beside the lexical arms", func(p *Policy) *float64 { return &p.WeightVec }),
		number("fusion.weight.lexical", 1, 0, 100, "factor on the share of each lexical arm", func(p *Policy) *float64 { return &p.WeightLex }),
		number("fusion.weight.fts", 1, 0, 100, "share of each FTS arm", func(p *Policy) *float64 { return &p.WeightFTS }),
		number("fusion.evidence", 1, 0, 10, "what the best row's words must say for the lexical arms to keep their share beside the vector arm, as a factor on what is enough; below it their weight falls in proportion; 0 is off", func(p *Policy) *float64 { return &p.Evidence }),
		number("vector.threshold", .3, -1, 1, "lowest cosine that the vector arm admits, for agents without a calibrated one", func(p *Policy) *float64 { return &p.VectorMin }),
		number("vector.threshold_factor", .5, 0, 1, "factor on that cosine when arms are fused", func(p *Policy) *float64 { return &p.VectorPart }),
		integer("vector.cache_mib", 256, 0, 65_536, "memory for record vectors and block codes, in MiB; 0 reads them from the file at every recall", func(p *Policy) *int { return &p.VectorCacheMiB }),
		toggle("gate.fused", true, "use calibrated thresholds for fused scores", func(p *Policy) *bool { return &p.GateFused }),
		toggle("gate.relative", false, "gate fused scores by the size of the scope when no threshold was calibrated, as the reference does", func(p *Policy) *bool { return &p.GateRelative }),
		toggle("gate.autocut", true, "cut below the largest gap of confidence or cosine scores", func(p *Policy) *bool { return &p.Autocut }),
		number("gate.autocut_ratio", .15, 0, 1, "gap that cuts, as a share of the top score", func(p *Policy) *float64 { return &p.AutocutRatio }),
		toggle("confidence.enabled", false, "report a confidence per row and gate by it; it never changes the order", func(p *Policy) *bool { return &p.ConfidenceOn }),
		toggle("confidence.count_recalls", true, "count which memories are recalled, which raises their floor of decay", func(p *Policy) *bool { return &p.CountRecalls }),
		number("confidence.cosine_floor", .20, -1, 1, "cosine that counts as 0", func(p *Policy) *float64 { return &p.Confidence.CosineFloor }),
		number("confidence.cosine_ceil", .75, -1, 1, "cosine that counts as 1; above the floor", func(p *Policy) *float64 { return &p.Confidence.CosineCeil }),
		number("confidence.decay_rate", .005, 0, 10, "decay per hour of age", func(p *Policy) *float64 { return &p.Confidence.DecayRate }),
		number("confidence.reference_hours", 168, 1, 1e6, "span of time up to which the decay is not slowed", func(p *Policy) *float64 { return &p.Confidence.ReferenceHours }),
		number("confidence.min_range_hours", 24, 1, 1e6, "shortest span of time of a scope", func(p *Policy) *float64 { return &p.Confidence.MinRangeHours }),
		number("confidence.decay_floor", .3, 0, 1, "what age leaves at least", func(p *Policy) *float64 { return &p.Confidence.DecayFloor }),
		number("confidence.decay_ceil", .5, 0, 1, "highest floor that frequent recall reaches", func(p *Policy) *float64 { return &p.Confidence.DecayCeil }),
		number("confidence.recall_boost", .02, 0, 1, "how recalls raise the floor", func(p *Policy) *float64 { return &p.Confidence.RecallBoost }),
		number("confidence.boost_decay_rate", .002, 0, 10, "decay of that raise per hour since the last recall", func(p *Policy) *float64 { return &p.Confidence.BoostDecay }),
		number("confidence.resolved_factor", .3, 0, 1, "factor on resolved episodes", func(p *Policy) *float64 { return &p.Confidence.ResolvedFactor }),
		number("confidence.recent_factor", .7, 0, 1, "factor on rows recalled just now", func(p *Policy) *float64 { return &p.Confidence.RecentFactor }),
		number("confidence.recent_minutes", 5, 0, 1e6, "how long just now lasts", func(p *Policy) *float64 { return &p.Confidence.RecentMinutes }),
		number("prior.superseded", .75, .01, 1, "factor on memories that a newer version follows; 1 is off", func(p *Policy) *float64 { return &p.SupersededPrior }),
		toggle("prior.episode", false, "weigh down memories that are older than the newest episode", func(p *Policy) *bool { return &p.EpisodePrior }),
		number("prior.episode_rate", .01, 0, 10, "decay per hour before that episode", func(p *Policy) *float64 { return &p.EpisodeRate }),
		number("prior.episode_floor", .5, .01, 1, "lowest factor of that decay", func(p *Policy) *float64 { return &p.EpisodeFloor }),
		integer("answer.preview_chars", 500, 0, memory.CeilingMaxContent, "code points of a row in a recall; 0 gives whole rows", func(p *Policy) *int { return &p.PreviewChars }),
		integer("answer.full_budget", 200_000, 1_000, 10_000_000, "code points of an answer with full content", func(p *Policy) *int { return &p.FullBudget }),
		integer("answer.contents_budget", 40_000, 1_000, 10_000_000, "code points of one get_contents", func(p *Policy) *int { return &p.ContentsBudget }),
		integer("content.max_chars", memory.DefaultMaxContent, 1, memory.CeilingMaxContent, "code points of one record; longer ones are refused", func(p *Policy) *int { return &p.MaxContent }),
		toggle("blocks.build", true, "build blocks of records that are longer than a sentence or two, so that recalls can find a part of one", func(p *Policy) *bool { return &p.BlockBuild }),
		toggle("blocks.retrieve", true, "let recalls add rows that only a part of their text matches; needs blocks.build", func(p *Policy) *bool { return &p.BlockRetrieve }),
		integer("blocks.reserved", 3, 0, maxReserved, "rows that blocks may add beyond the number asked for; 0 is off", func(p *Policy) *int { return &p.BlockReserved }),
		integer("blocks.parent_cap", 64, 0, 1_000_000, "first blocks of a record that are searched; 0 searches all", func(p *Policy) *int { return &p.BlockParentCap }),
		integer("blocks.scan_cap", 0, 0, 100_000_000, "blocks that one recall compares, oldest records first; 0 compares all through the scanner, and 250000 without it", func(p *Policy) *int { return &p.BlockScanCap }),
		integer("profile.rows", 3, 0, 20, "profile rows in an answer, newest first", func(p *Policy) *int { return &p.ProfileRows }),
		integer("profile.min_pool", 50, 0, 1_000_000, "records in scope from which profile rows are given", func(p *Policy) *int { return &p.ProfilePool }),
		fromStart(choice("scanner", ScannerAuto, []string{ScannerAuto, ScannerOff}, "auto: a server has vectors and blocks compared by a process of its own, over derived files; off: by itself, out of the data file; the answers are the same", func(p *Policy, v string) { p.Scanner = v })),
		fromStart(toggle("scanner.lean", false, "keep no vectors in derived files; the nearest blocks and records are then ordered from the data file", func(p *Policy) *bool { return &p.ScannerLean })),
		fromStart(toggle("scanner.mlock", false, "lock the scanner's codes in memory, as far as the system's limit allows it", func(p *Policy) *bool { return &p.ScannerLock })),
		toggle("degraded_advisory", true, "tell agents when the embedding model is missing", func(p *Policy) *bool { return &p.DegradedAdvisory }),
	}
	all = append(all, embedding("embedding", "static", "the model that new vectors are made with", func(p *Policy) *embed.Config { return &p.Embedding })...)
	return append(all, embedding("previous", "none", "the model being replaced, queried until every record has a vector of the new one", func(p *Policy) *embed.Config { return &p.Previous })...)
}

// embedding is the group of settings that opens one model.
func embedding(group, backend, doc string, of func(*Policy) *embed.Config) []setting {
	entries := []setting{
		choice(group+".backend", backend, embed.Backends(), "kind of model: "+doc, func(p *Policy, v string) { of(p).Backend = v }),
		text(group+".url", "", 2_000, "base URL of its server; openai and embed", func(p *Policy) *string { return &of(p).URL }),
		text(group+".name", "", 200, "its name as the server knows it", func(p *Policy) *string { return &of(p).Name }),
		text(group+".key_env", "", 200, "environment variable that holds the server's key", func(p *Policy) *string { return &of(p).KeyEnv }),
		integer(group+".dims", 0, 0, embed.MaxDims, "dimensions it must have; 0 takes what it says", func(p *Policy) *int { return &of(p).Dims }),
		text(group+".prompts.query", "", memory.MaxProfile, "written before a query", func(p *Policy) *string { return &of(p).Prompts.Query }),
		text(group+".prompts.document", "", memory.MaxProfile, "written before a stored text", func(p *Policy) *string { return &of(p).Prompts.Document }),
		text(group+".input_types.query", "", 200, "sent as input_type with a query, for servers that write the prompt themselves; openai", func(p *Policy) *string { return &of(p).InputTypes.Query }),
		text(group+".input_types.document", "", 200, "sent as input_type with a stored text; openai", func(p *Policy) *string { return &of(p).InputTypes.Document }),
		integer(group+".window_tokens", 0, 0, 1<<20, "tokens that it reads of one text; 0 is unknown", func(p *Policy) *int { return &of(p).WindowTokens }),
		integer(group+".batch_size", embed.DefaultBatchSize, 1, embed.OpenAIBatchLimit, "texts per request", func(p *Policy) *int { return &of(p).BatchSize }),
		milliseconds(group+".timeout_ms", embed.DefaultTimeout, 10*time.Minute, "how long one request may take", func(p *Policy) *time.Duration { return &of(p).Timeout }),
	}
	for i := range entries {
		entries[i] = fromStart(entries[i])
	}
	return entries
}

// fromStart is a setting that takes effect at the next start.
func fromStart(s setting) setting {
	s.restart = true
	return s
}

func integer(name string, initial, lo, hi int, doc string, of func(*Policy) *int) setting {
	return setting{name: name, initial: strconv.Itoa(initial), limits: fmt.Sprintf("%d to %d", lo, hi), doc: doc,
		set: func(p *Policy, v string) string {
			n, problem := parseInteger(v, lo, hi)
			if problem == "" {
				*of(p) = n
			}
			return problem
		}}
}

func milliseconds(name string, initial, most time.Duration, doc string, of func(*Policy) *time.Duration) setting {
	hi := int(most.Milliseconds())
	return setting{name: name, initial: strconv.FormatInt(initial.Milliseconds(), 10), limits: fmt.Sprintf("1 to %d milliseconds", hi), doc: doc,
		set: func(p *Policy, v string) string {
			n, problem := parseInteger(v, 1, hi)
			if problem == "" {
				*of(p) = time.Duration(n) * time.Millisecond
			}
			return problem
		}}
}

func parseInteger(v string, lo, hi int) (n int, problem string) {
	n, err := strconv.Atoi(v)
	switch {
	case err != nil:
		return 0, memory.Shape(v) + " is not a whole number"
	case n < lo || n > hi:
		return 0, v + " is out of range"
	}
	return n, ""
}

func number(name string, initial, lo, hi float64, doc string, of func(*Policy) *float64) setting {
	show := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	return setting{name: name, initial: show(initial), limits: show(lo) + " to " + show(hi), doc: doc,
		set: func(p *Policy, v string) string {
			x, err := strconv.ParseFloat(v, 64)
			switch {
			case err != nil || math.IsNaN(x):
				return memory.Shape(v) + " is not a number"
			case x < lo || x > hi:
				return v + " is out of range"
			}
			*of(p) = x
			return ""
		}}
}

func toggle(name string, initial bool, doc string, of func(*Policy) *bool) setting {
	return setting{name: name, initial: strconv.FormatBool(initial), limits: "true or false", doc: doc,
		set: func(p *Policy, v string) string {
			switch v {
			case "true", "false":
				*of(p) = v == "true"
				return ""
			}
			return memory.Shape(v) + " is neither true nor false"
		}}
}

func choice(name, initial string, words []string, doc string, put func(*Policy, string)) setting {
	return setting{name: name, initial: initial, limits: strings.Join(words, ", "), doc: doc,
		set: func(p *Policy, v string) string {
			for _, w := range words {
				if v == w {
					put(p, v)
					return ""
				}
			}
			return memory.Shape(v) + " is not one of the words"
		}}
}

func text(name, initial string, limit int, doc string, of func(*Policy) *string) setting {
	return setting{name: name, initial: initial, limits: fmt.Sprintf("at most %d code points", limit), doc: doc,
		set: func(p *Policy, v string) string {
			var refused *memory.FieldError
			if errors.As(memory.CheckText(name, v, limit), &refused) {
				return refused.Problem
			}
			*of(p) = v
			return ""
		}}
}

func armList(name, initial, doc string, of func(*Policy) *[]string) setting {
	return setting{name: name, initial: initial, limits: "a list of " + strings.Join(arm.Names(), ", ") + " with commas between", doc: doc,
		set: func(p *Policy, v string) string {
			names := strings.Split(v, ",")
			if _, unknown, ok := arm.Expand(names); !ok {
				return memory.Shape(unknown) + " is not an arm"
			}
			*of(p) = names
			return ""
		}}
}

// policyOf reads stored values and overrides, which win, over the defaults.
// Names that are not in the registry are refused with [*memory.FieldError];
// stored ones of a newer version are left alone.
func policyOf(stored, overrides map[string]string) (Policy, error) {
	var p Policy
	known := make(map[string]bool)
	for _, s := range registry() {
		known[s.name] = true
		value := s.initial
		if v, ok := stored[s.name]; ok {
			value = v
		}
		if v, ok := overrides[s.name]; ok {
			value = v
		}
		if problem := s.set(&p, value); problem != "" {
			return Policy{}, s.refuse(problem)
		}
	}
	for name := range overrides {
		if !known[name] {
			return Policy{}, unknownSetting(name)
		}
	}
	return p, p.check()
}

// check refuses values that are fine alone and wrong together.
func (p Policy) check() error {
	if p.Confidence.CosineFloor >= p.Confidence.CosineCeil {
		return &memory.FieldError{Field: "confidence.cosine_floor", Problem: "is not below confidence.cosine_ceil", Limit: "floor < ceil", Next: "set the other one first"}
	}
	if p.Confidence.DecayFloor > p.Confidence.DecayCeil {
		return &memory.FieldError{Field: "confidence.decay_floor", Problem: "is above confidence.decay_ceil", Limit: "floor ≤ ceil", Next: "set the other one first"}
	}
	if p.BlockRetrieve && !p.BlockBuild {
		return &memory.FieldError{Field: "blocks.retrieve", Problem: "is true while blocks.build is false", Limit: "blocks can be searched only where they are built", Next: "set blocks.retrieve to false first, or blocks.build to true"}
	}
	return nil
}

func (s setting) refuse(problem string) error {
	return &memory.FieldError{Field: s.name, Problem: problem, Limit: s.limits, Next: "set it inside the limit; the default is " + strconv.Quote(s.initial)}
}

func unknownSetting(name string) error {
	return &memory.FieldError{Field: "setting", Problem: memory.Shape(name) + " is unknown", Next: "run `recalld config` to see every setting"}
}

// settingsStore is the part of the store that keeps settings.
type settingsStore interface {
	Settings(ctx context.Context) (map[string]string, error)
}

// LoadPolicy reads the policy of a store, for what has to know it before a
// [Coordinator] exists. overrides may be nil.
func LoadPolicy(ctx context.Context, store settingsStore, overrides map[string]string) (Policy, error) {
	stored, err := store.Settings(ctx)
	if err != nil {
		return Policy{}, fmt.Errorf("read settings: %w", err)
	}
	return policyOf(stored, overrides)
}

// EmbeddingConfig is the embedding model of the default settings under the
// overrides, for what needs a model and no store.
func EmbeddingConfig(overrides map[string]string) (embed.Config, error) {
	p, err := policyOf(nil, overrides)
	return p.Embedding, err
}
