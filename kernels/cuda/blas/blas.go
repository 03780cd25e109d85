package blas

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
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

// LibraryVariable names a libcublasLt to open in place of the system's.
const LibraryVariable = "DARKROOM_LIBCUBLASLT"

// OpenLibrary opens libcublasLt: the newest that the driver's version of CUDA serves.
func OpenLibrary(version int) (*driver.Library, error) {
	return driver.OpenNamed(LibraryVariable, "cuBLASLt", places(version))
}

// places are where toolkits, distributions and the active environment of Python put it.
func places(version int) (places []string) {
	for major := 13; major >= driver.Oldest/1000; major-- {
		if version < 1000*major {
			continue
		}
		name := "libcublasLt.so." + strconv.Itoa(major)
		places = append(places, name)
		for _, dir := range []string{
			fmt.Sprintf("/usr/local/cuda-%d*/lib64", major), "/usr/local/cuda/lib64", fmt.Sprintf("/usr/lib/*/libcublas/%d", major),
			"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
		} {
			places = append(places, found(filepath.Join(dir, name))...)
		}
		places = append(places, driver.InEnvironments(filepath.Join("nvidia", map[int]string{13: "cu13", 12: "cublas"}[major], "lib", name), name)...)
	}
	return places
}

// found are the files of a pattern.
func found(pattern string) []string {
	files, _ := filepath.Glob(pattern) // only a bad pattern is an error
	return files
}

// A Shape is what an algorithm is chosen for: a weight, whatever the number of rows that meet it.
type Shape struct {
	N, K   int64
	Turned bool // the weight lies as [K,N]
}

func (s Shape) String() string {
	if s.Turned {
		return fmt.Sprintf("[%d,%d] turned", s.K, s.N)
	}
	return fmt.Sprintf("[%d,%d]", s.N, s.K)
}

// way is the shape's place in Library.operation.
func (s Shape) way() int {
	if s.Turned {
		return 1
	}
	return 0
}

// Layouts describe a shape's operands; columns of rows and of sums are the product's rows.
type Layouts struct {
	weight, rows, sums uintptr
	M                  int64 // the rows, as they are set
	LDWeight, LDRows   int64
}

// Describe makes a shape's layouts, for m rows.
func (l *Library) Describe(s Shape, m int64) (at Layouts, err error) {
	rows, cols := s.K, s.N // by columns, a weight [N,K] is K x N
	if s.Turned {
		rows, cols = s.N, s.K
	}
	at.M, at.LDWeight, at.LDRows = m, rows, s.K
	if at.weight, err = l.layout(typeBF16, rows, cols, rows); err != nil {
		return at, err
	}
	if at.rows, err = l.layout(typeBF16, s.K, at.M, at.LDRows); err != nil {
		return at, err
	}
	at.sums, err = l.layout(typeF32, s.N, at.M, SumsWide(s.N))
	return at, err
}

// SumsWide is the distance between rows of n sums: whole pieces of 16 bytes.
func SumsWide(n int64) int64 { return (n + 3) / 4 * 4 }

// Forget ends layouts.
func (l *Library) Forget(at *Layouts) (err error) {
	for _, x := range []uintptr{at.weight, at.rows, at.sums} {
		if x != 0 {
			err = cmp.Or(err, l.do("cublasLtMatrixLayoutDestroy", x))
		}
	}
	return err
}

// Fit sets what of a shape's layouts differs from call to call.
func (l *Library) Fit(at *Layouts, ldWeight, ldRows, m int64) (err error) {
	if at.LDWeight != ldWeight {
		err = l.distance(at.weight, ldWeight)
	}
	if err == nil && at.LDRows != ldRows {
		err = l.distance(at.rows, ldRows)
	}
	if err == nil && at.M != m {
		err = cmp.Or(l.columns(at.rows, m), l.columns(at.sums, m))
	}
	at.LDWeight, at.LDRows, at.M = ldWeight, ldRows, m
	return err
}

// Whole are the algorithms that the library proposes, can run in a workspace, and sum nothing across blocks.
func (l *Library) Whole(s Shape, at *Layouts, workspace uint64) (list []Candidate, err error) {
	all, err := l.ask(s, at)
	for _, a := range all {
		if a.State != 0 || a.Workspace > workspace {
			continue
		}
		splits, failed := l.config(&a.Algorithm, configSplits)
		scheme, failed2 := l.config(&a.Algorithm, configScheme)
		if failed == nil && failed2 == nil && splits <= 1 && scheme == 0 {
			list = append(list, a)
		}
	}
	return list, err
}

// Text is an algorithm as 128 hexadecimal digits.
func (a *Algorithm) Text() string {
	var b strings.Builder
	for _, w := range a {
		fmt.Fprintf(&b, "%016x", w)
	}
	return b.String()
}

// ReadAlgorithm reads Text's.
func ReadAlgorithm(s string) (a Algorithm, err error) {
	raw, err := hex.DecodeString(s)
	if err != nil || len(raw) != 8*len(a) {
		return a, fmt.Errorf("%.20q is no algorithm: 128 hexadecimal digits", s)
	}
	for i := range a {
		for _, x := range raw[8*i : 8*i+8] {
			a[i] = a[i]<<8 | uint64(x)
		}
	}
	return a, nil
}
