//go:build !cgo || !(amd64 || arm64)

package kernel

// Without C there is the path Go alone. The functions below are never called.

func compiled(Path) bool { return false }

func filterC(job *Job, queries []byte, from, to int, limits []uint32, hits []Hit, found []uint32) int {
	return filterGo(job, queries, from, to, limits, hits, found)
}

func readC(_ Path, data []byte) uint64 { return readGo(data) }

func dotsC(_ Path, v Values, from int, rows []uint32, query []byte, dots []int32) {
	dotsGo(v, from, rows, query, dots)
}

func dotsTogetherC(_ Path, v Values, from int, queries []byte, dots []int32) {
	dotsTogetherGo(v, from, queries, dots)
}

func normsC(_ Path, v Values, rows []uint32, norms []int32) { normsGo(v, rows, norms) }
