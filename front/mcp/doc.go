// Package mcp is recalld for MCP clients, over standard input and output or
// streamable HTTP: thirteen tools for an agent at work, fifteen more for who
// looks after its memory, with the argument names and response keys of the
// reference implementation (DECISIONS 27). docs/spec/tools.md is the contract.
//
// Invariants: recall answers best last and says so; a failure carries `error`
// and `ok` false (RR-450) and names the field in the caller's own words; an
// argument with a lone surrogate, NUL or invalid UTF-8 is refused before a
// decoder could mend it; what is not a frame is answered with a JSON-RPC error
// and the session goes on; nothing but frames is written to the output; nothing
// is kept between calls; files are named below the folders that the operator
// opened, or not at all; what the list of usual tools costs a client is bounded.
//
// It refuses to decide: scope, ranking, limits and defaults are the service's,
// and who may ask what is the guard's.
package mcp
