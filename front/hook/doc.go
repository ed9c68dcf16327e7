// Package hook turns a prompt that a person gave an agent into what the agent
// should see of its memory: it reads the event, and writes the rows of an answer as
// data in a fence.
//
// Invariants: what comes out is at most as long as was asked for and holds no
// control characters but line breaks; text that comes from memory cannot end the
// fence that it stands in; nothing comes out for an answer without rows.
//
// It refuses an event that is no JSON object or has no prompt. It asks nobody and
// decides nothing: which rows there are is the recall's answer.
package hook
