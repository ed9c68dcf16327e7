// Package guard stands between a network and a [coordinator.Service]: a
// middleware that lets a request in when its Host, Origin and token are right
// ([New]), a service that asks the client's grants before every call
// ([Service]), folders that file operations cannot leave ([Folders]), a queue of
// bounded length ([Queue]), and a server with bounds on time, headers and
// connections ([Serve]).
//
// Invariants: a call without a known client is denied; a denied call never
// reaches the service, so that a foreign agent looks the same whether it exists
// or not; a request is refused before its body is read; no token, no query
// string and no text of a request is in an error or a log line.
//
// It refuses to read a token from anywhere but the Authorization header, to
// follow a link out of a folder, to overwrite a file, and to decide what a level
// means: package access does.
package guard
