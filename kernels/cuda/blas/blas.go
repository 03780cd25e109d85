package blas

import (
	"cmp"
	"fmt"
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels/cuda/driver"
)

// cuBLASLt's functions with types: what a product needs of the library, and no more.
//
// The library computes D = alpha·op(A)·op(B) + beta·C on matrices by columns. A product by rows,
// sums[M,N] = rows[M,K]·Wᵀ, is there sumsᵀ = W·rowsᵀ: A is the weight, N x K after its op - a weight
// [N,K] lies in memory as K x N by columns and is transposed, a turned one [K,N] lies as N x K and is
// not - B is the rows, K x M as they lie, and D the sums, N x M. So the library's m, n, k are our N, M, K.
//
// Values, sizes and the layout of a candidate are those of cublasLt.h 13.4.1 (the wheel nvidia-cublas
// 13.4.1.3); the headers of 12.6 and 12.9 have the same ones, so that one binding serves both sonames.
const (
	typeF32       = 0  // CUDA_R_32F
	typeBF16      = 14 // CUDA_R_16BF
	computeF32    = 68 // CUBLAS_COMPUTE_32F
	operationT    = 1  // CUBLAS_OP_T
	operationA    = 3  // CUBLASLT_MATMUL_DESC_TRANSA, int32
	layoutCols    = 3  // CUBLASLT_MATRIX_LAYOUT_COLS, uint64
	layoutLD      = 4  // CUBLASLT_MATRIX_LAYOUT_LD, int64
	wishWorkspace = 1  // CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64
	wishReduction = 3  // CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32
	wishAlignment = 5  // CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, uint32; B, C and D follow
	configSplits  = 2  // CUBLASLT_ALGO_CONFIG_SPLITK_NUM, int32
	configScheme  = 3  // CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, uint32
)

// oldest is the least version that is used: CUDA 12's first.
const oldest = 120000

// An Algorithm is cublasLtMatmulAlgo_t: opaque, and, as its header says, to be kept and used again
// with the same version of the library.
type Algorithm [8]uint64

// A Candidate is cublasLtMatmulHeuristicResult_t.
type Candidate struct {
	Algorithm Algorithm
	Workspace uint64
	State     int32 // 0: it can run
	Waves     float32
	_         [4]int32
}

// mostCandidates is how many algorithms are asked for.
const mostCandidates = 8

// Library is the library, opened. It is made on the heap, where nothing moves: the library writes to
// its cells and reads its scales.
type Library struct {
	driver.Caller
	Path      string
	Version   int // 130401 for 13.4.1
	handle    uintptr
	wish      uintptr    // what is asked of algorithms
	operation [2]uintptr // with a weight [N,K], and with a turned one
	cells     [2]uint64
	found     [mostCandidates]Candidate
	checked   Candidate
	use       Algorithm
	one, zero float32
}

// Open starts the library in the context of the calling thread.
func Open(c driver.Caller, path string, workspace int) (l *Library, err error) {
	l = &Library{Caller: c, Path: path, one: 1}
	if l.Version, err = Version(c); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = l.Close() // what failed before is the news
			l, err = nil, fmt.Errorf("cuBLASLt %s (%s): %w", VersionText(l.Version), path, err)
		}
	}()
	if l.handle, err = l.make("cublasLtCreate"); err != nil {
		return l, err
	}
	return l, l.prepare(workspace)
}

// prepare makes what all shapes share. It needs no device.
func (l *Library) prepare(workspace int) (err error) {
	if l.wish, err = l.make("cublasLtMatmulPreferenceCreate"); err != nil {
		return err
	}
	for i := range l.operation {
		if l.operation[i], err = l.make("cublasLtMatmulDescCreate", computeF32, typeF32); err != nil {
			return err
		}
	}
	if err = l.set("cublasLtMatmulDescSetAttribute", l.operation[0], operationA, operationT, 4); err != nil {
		return err
	}
	const prefer = "cublasLtMatmulPreferenceSetAttribute"
	if err = l.set(prefer, l.wish, wishWorkspace, uint64(workspace), 8); err != nil {
		return err
	}
	if err = l.set(prefer, l.wish, wishReduction, 0, 4); err != nil { // CUBLASLT_REDUCTION_SCHEME_NONE alone
		return err
	}
	for i := range 4 {
		if err = l.set(prefer, l.wish, wishAlignment+i, 16, 4); err != nil {
			return err
		}
	}
	return nil
}

// Version is the library's version, 130401 for 13.4.1. It needs no device.
func Version(c driver.Caller) (int, error) {
	v, err := c.Call("cublasLtGetVersion")
	if err == nil && v < oldest {
		err = fmt.Errorf("cuBLASLt %s is too old; 12.0 or later is used", VersionText(int(v)))
	}
	return int(v), err
}

// VersionText reads versions as they are counted since 11: 120901 is 12.9.1.
func VersionText(v int) string { return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100) }

func (l *Library) Close() (err error) {
	for _, d := range l.operation {
		if d != 0 {
			err = cmp.Or(err, l.do("cublasLtMatmulDescDestroy", d))
		}
	}
	if l.wish != 0 {
		err = cmp.Or(err, l.do("cublasLtMatmulPreferenceDestroy", l.wish))
	}
	if l.handle != 0 {
		err = cmp.Or(err, l.do("cublasLtDestroy", l.handle))
	}
	return err
}

// do calls and turns a status into an error.
func (l *Library) do(name string, args ...uintptr) error {
	code, err := l.Call(name, args...)
	if err != nil {
		return err
	}
	if code != 0 {
		return &Error{Call: name, Code: code}
	}
	return nil
}

// make is do for a function that writes what it made to its first argument.
func (l *Library) make(name string, args ...uintptr) (uintptr, error) {
	l.cells[0] = 0
	err := l.do(name, append([]uintptr{l.cell(0)}, args...)...)
	return uintptr(l.cells[0]), err
}

func (l *Library) cell(i int) uintptr { return uintptr(unsafe.Pointer(&l.cells[i])) }

// set sets an attribute of so many bytes.
func (l *Library) set(function string, object uintptr, attribute int, value uint64, bytes int) error {
	l.cells[0] = value
	return l.do(function, object, uintptr(attribute), l.cell(0), uintptr(bytes))
}

func (l *Library) layout(kind, rows, cols, ld int64) (uintptr, error) {
	return l.make("cublasLtMatrixLayoutCreate", uintptr(kind), uintptr(rows), uintptr(cols), uintptr(ld))
}

// columns changes how many columns a layout has, distance what lies between their beginnings.
func (l *Library) columns(layout uintptr, n int64) error {
	return l.set("cublasLtMatrixLayoutSetAttribute", layout, layoutCols, uint64(n), 8)
}

func (l *Library) distance(layout uintptr, ld int64) error {
	return l.set("cublasLtMatrixLayoutSetAttribute", layout, layoutLD, uint64(ld), 8)
}

// config is a number of an algorithm's configuration.
func (l *Library) config(a *Algorithm, which int) (int, error) {
	l.use, l.cells[0], l.cells[1] = *a, 0, 0
	err := l.do("cublasLtMatmulAlgoConfigGetAttribute", uintptr(unsafe.Pointer(&l.use)), uintptr(which), l.cell(0), 4, l.cell(1))
	return int(int32(l.cells[0])), err
}

// ask returns algorithms for a product, the fastest by the library's estimate first.
func (l *Library) ask(s Shape, at *Layouts) ([]Candidate, error) {
	l.cells[0] = 0
	err := l.do("cublasLtMatmulAlgoGetHeuristic", l.handle, l.operation[s.way()], at.weight, at.rows, at.sums, at.sums, l.wish,
		mostCandidates, uintptr(unsafe.Pointer(&l.found)), l.cell(0))
	if err != nil {
		return nil, err
	}
	return l.found[:min(max(int(int32(l.cells[0])), 0), mostCandidates)], nil
}

// Supports says whether an algorithm can run on layouts as they are, and the workspace that it needs.
func (l *Library) Supports(s Shape, at *Layouts, a *Algorithm) (workspace uint64, err error) {
	l.use = *a
	err = l.do("cublasLtMatmulAlgoCheck", l.handle, l.operation[s.way()], at.weight, at.rows, at.sums, at.sums,
		uintptr(unsafe.Pointer(&l.use)), uintptr(unsafe.Pointer(&l.checked)))
	return l.checked.Workspace, err
}

// Multiply queues a product on a stream.
func (l *Library) Multiply(s Shape, at *Layouts, a *Algorithm, weight, rows, sums, workspace uintptr, bytes int, stream uintptr) error {
	l.use = *a
	return l.do("cublasLtMatmul", l.handle, l.operation[s.way()], uintptr(unsafe.Pointer(&l.one)), weight, at.weight, rows, at.rows,
		uintptr(unsafe.Pointer(&l.zero)), sums, at.sums, sums, at.sums, uintptr(unsafe.Pointer(&l.use)), workspace, uintptr(bytes), stream)
}

// Error is a call of the library that failed.
type Error struct {
	Call string
	Code int32
}

func (e *Error) Error() string {
	name := "error"
	switch e.Code {
	case 1:
		name = "not initialised"
	case 3:
		name = "out of memory"
	case 7:
		name = "invalid value"
	case 8:
		name = "not for this device"
	case 13:
		name = "execution failed"
	case 14:
		name = "internal error"
	case 15:
		name = "not supported"
	}
	return fmt.Sprintf("%s: %s (%d)", e.Call, name, e.Code)
}
