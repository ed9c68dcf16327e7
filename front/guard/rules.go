package guard

import (
	"context"

	"recalld/access"
)

// extent is what a method touches.
type extent uint8

const (
	oneAgent   extent = iota // the memory of the request's agent
	theServer                // settings, models, checks: the entry "*"
	everything               // all agents' memory at once
	anyClient                // what the operator tells every client
)

// rule is what a method needs.
type rule struct {
	extent extent
	level  access.Level
}

// rules has every method of [coordinator.Service]; a method without a rule is
// denied to everybody.
func rules() map[string]rule {
	return map[string]rule{
		"Store":            {oneAgent, access.ReadWrite},
		storeKept:          {theServer, access.ReadWrite},
		"Recall":           {oneAgent, access.Read},
		"GetContents":      {oneAgent, access.Read},
		"List":             {oneAgent, access.Read},
		"Update":           {oneAgent, access.ReadWrite},
		"Delete":           {oneAgent, access.ReadWrite},
		"Lock":             {oneAgent, access.ReadWrite},
		"PutProfile":       {oneAgent, access.ReadWrite},
		"Profiles":         {oneAgent, access.Read},
		mergeSource:        {oneAgent, access.Read},
		mergeMoved:         {oneAgent, access.ReadWrite},
		"Merge":            {oneAgent, access.ReadWrite},
		"Pause":            {oneAgent, access.ReadWrite},
		"Paused":           {oneAgent, access.Read},
		"Calibrate":        {oneAgent, access.ReadWrite},
		"Calibrations":     {oneAgent, access.Read},
		"DeepCheck":        {oneAgent, access.Read},
		"Export":           {oneAgent, access.Read},
		"Settings":         {theServer, access.Read},
		"SetSetting":       {theServer, access.ReadWrite},
		"Models":           {theServer, access.Read},
		"ChangeModel":      {theServer, access.ReadWrite},
		"Status":           {theServer, access.Read},
		"Doctor":           {theServer, access.Read},
		doctorFix:          {theServer, access.ReadWrite},
		"Index":            {theServer, access.Read},
		"ChangeIndex":      {theServer, access.ReadWrite},
		"Vacuum":           {theServer, access.ReadWrite},
		"Backup":           {everything, access.ReadWrite},
		"OperatingContext": {anyClient, access.None},
	}
}

// Methods whose need depends on the request.
const (
	// Numbers and models, which a record may bring along, are all agents'.
	storeKept   = "Store with kept"
	doctorFix   = "Doctor with fix"      // mends what it finds
	mergeSource = "Merge from"           // reads the source; the target needs the rule of Merge
	mergeMoved  = "Merge by moving from" // deletes at the source
)

// allow returns nil when the context's client may call the method for the agent,
// which is "" for a method of the server, else a *[access.Denial].
func allow(ctx context.Context, all map[string]rule, method, agent string) error {
	client := ClientOf(ctx)
	need, known := all[method]
	if client == nil || !known {
		return &access.Denial{Call: method}
	}
	held := access.None
	switch need.extent {
	case anyClient:
		return nil
	case oneAgent:
		held = client.Level(agent)
	case theServer:
		held, agent = client.Server(), "*"
	case everything:
		held, agent = client.Everything(), "*"
	}
	if held >= need.level {
		return nil
	}
	return &access.Denial{Client: client.Name(), Call: method, Agent: agent, Need: need.level}
}
