package memory

// Scope is the part of the store that one request may see (RR-439 to RR-441).
//
// Agent is exact. A nil Project means all of the agent's projects, an empty one
// the global pool alone, X means X and the global pool. A nil or empty Channel
// means all channels, X means X and the records without a channel.
type Scope struct {
	Agent   string
	Project *string
	Channel *string
}

// Cell is the unit that a scan may or may not touch: one triple of agent,
// project and channel as stored with a record.
type Cell struct {
	Agent   string
	Project string
	Channel string
}

// Check reports the first axis that is not a valid name. The agent is required;
// a read over several agents is another request and never a default.
func (s Scope) Check() error {
	if s.Agent == "" {
		return &FieldError{Field: "agent", Problem: "is empty", Next: "name the agent whose memory is meant"}
	}
	if err := CheckName("agent", s.Agent); err != nil {
		return err
	}
	if s.Project != nil {
		if err := CheckName("project", *s.Project); err != nil {
			return err
		}
	}
	if s.Channel != nil {
		return CheckName("channel", *s.Channel)
	}
	return nil
}

// Contains reports whether rows of the cell are visible in the scope. It says
// in Go what the predicate in package sqlite says in SQL; a property test holds
// the two together.
func (s Scope) Contains(c Cell) bool {
	if c.Agent != s.Agent {
		return false
	}
	if s.Project != nil && c.Project != "" && c.Project != *s.Project {
		return false
	}
	if s.Channel != nil && *s.Channel != "" && c.Channel != "" && c.Channel != *s.Channel {
		return false
	}
	return true
}

// Check reports the first axis of the cell that is not a valid name.
func (c Cell) Check() error {
	return Scope{Agent: c.Agent, Project: &c.Project, Channel: &c.Channel}.Check()
}
