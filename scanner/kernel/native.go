//go:build cgo && (amd64 || arm64)

package kernel

// #cgo CFLAGS: -std=c11 -O3 -Wall -Wextra
// #cgo noescape kernel_filter
// #cgo nocallback kernel_filter
// #cgo noescape kernel_read
// #cgo nocallback kernel_read
// #cgo noescape kernel_dots
// #cgo nocallback kernel_dots
// #cgo noescape kernel_dots_together
// #cgo nocallback kernel_dots_together
// #cgo noescape kernel_norms
// #cgo nocallback kernel_norms
// #include "filter.h"
import "C"

import "unsafe"

// compiled reports whether C code of a path is in this build and can run here.
func compiled(p Path) bool { return C.kernel_set(C.int(p)) != nil }

func filterC(job *Job, queries []byte, from, to int, limits []uint32, hits []Hit, found []uint32) int {
	stride := job.Matrix.Bits / 8
	codes := job.Matrix.Codes[from*stride : to*stride]
	return int(C.kernel_filter(C.int(job.Path), C.size_t(stride/8), bytesOf(codes), C.size_t(from), C.size_t(to-from),
		(*C.uint64_t)(unsafe.SliceData(job.Live)), bytesOf(queries), C.size_t(len(limits)), (*C.uint32_t)(unsafe.SliceData(limits)),
		(*C.hit)(unsafe.Pointer(unsafe.SliceData(hits))), room, (*C.uint32_t)(unsafe.SliceData(found))))
}

func readC(p Path, data []byte) uint64 {
	return uint64(C.kernel_read(C.int(p), bytesOf(data), C.size_t(len(data))))
}

func dotsC(p Path, v Values, from int, rows []uint32, query []byte, dots []int32) {
	C.kernel_dots(C.int(p), int8sOf(v.Data[from*v.Stride:]), C.size_t(v.Dims), C.size_t(v.Stride), (*C.uint32_t)(unsafe.SliceData(rows)),
		C.size_t(len(dots)), int8sOf(query), (*C.int32_t)(unsafe.SliceData(dots)))
}

func dotsTogetherC(p Path, v Values, from int, queries []byte, dots []int32) {
	n := len(queries) / v.Dims
	C.kernel_dots_together(C.int(p), int8sOf(v.Data[from*v.Stride:]), C.size_t(v.Dims), C.size_t(v.Stride), C.size_t(len(dots)/n), int8sOf(queries),
		C.size_t(n), (*C.int32_t)(unsafe.SliceData(dots)))
}

func normsC(p Path, v Values, rows []uint32, norms []int32) {
	C.kernel_norms(C.int(p), int8sOf(v.Data), C.size_t(v.Dims), C.size_t(v.Stride), (*C.uint32_t)(unsafe.SliceData(rows)),
		C.size_t(len(norms)), (*C.int32_t)(unsafe.SliceData(norms)))
}

func bytesOf(b []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.SliceData(b)) }

func int8sOf(b []byte) *C.int8_t { return (*C.int8_t)(unsafe.Pointer(unsafe.SliceData(b))) }
