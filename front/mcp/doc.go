// Package mcp is recalld for MCP clients: the tools store, recall and
// get_contents over standard input and output, with the argument names and
// response keys of the reference implementation (DECISIONS 27).
//
// Invariants: recall answers best last and says so; a failure carries `error`
// and `ok` false (RR-450) and names the field in the caller's own words; an
// argument with a lone surrogate, NUL or invalid UTF-8 is refused before a
// decoder could mend it; what is not a frame is answered with a JSON-RPC error
// and the session goes on; nothing but frames is written to the output.
//
// It refuses to decide: scope, ranking, limits and defaults are the service's.
package mcp
