// Package scanner is the process that holds the derived matrices and compares
// queries with them at the speed of memory. docs/scanner.md has the pictures. Its
// hot code is scanner/kernel; scanner/client starts it, watches it and asks it.
//
// A [Server] holds one generation of files and, beside it, a delta of what
// changed since. Publish and Apply make a new state; a scan keeps the one that it
// began with. Scans over the same rows share the reading, and agents take turns at
// the processors. Scope, filter and order are decided here, texts and names are
// never seen. Beside it [Words] searches a copy of the server's lexical index.
//
// Invariants: an answer is exact and the same whatever the processor, the number
// of threads and the cut into segments, ranges, tiles and delta (DECISIONS 2);
// rows outside the cells of the scope are never read (BR-092); nothing is read
// before its checksum was; a state that does not reach as far as was asked gives
// an error and no answer (DECISIONS 4); the process ends with its parent.
//
// It refuses to write files, to know names and SQL, to know texts of records but
// those that the lexical index has in memory, to answer from a part
// of its files, and to listen on anything but a socket in its parent's folder.
package scanner
