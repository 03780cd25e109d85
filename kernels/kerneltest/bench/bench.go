package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// Row is one timed operation. Its keys are those of the peer's rows, and three more.
type Row struct {
	Op       string  `json:"op"`
	Shape    []int   `json:"shape"`
	DType    string  `json:"dtype"`
	Mode     string  `json:"mode,omitempty"` // of a device that was timed in several
	Threads  int     `json:"threads"`
	BestMS   float64 `json:"best_ms"`
	MedianMS float64 `json:"median_ms"`
	GFlops   float64 `json:"GF/s,omitempty"`
	GBytes   float64 `json:"GB/s,omitempty"`
	Of       string  `json:"peak"`             // which probed peak bounds it: f32, bf16 or memory
	Fraction float64 `json:"fraction_of_peak"` // of that peak, probed in this run
	Checked  int     `json:"checked"`          // elements compared with ref, all equal
}

// Peaks are the machine's measured limits with some number of threads: 1e9 floating-point operations, or bytes read,
// a second.
type Peaks struct{ F32, BF16, Memory float64 }

// Options choose the benchmarks.
type Options struct {
	Families []string // names in Families; all where empty
	Backend  func(threads int) kernels.Backend
	Peaks    func(threads int) Peaks
	Threads  []int
	Repeat   int
	Done     func(Row) // called as rows are finished
	// Products, if any, are sizes M, N, K that the matrix products have in place of their own.
	Products [][3]int
	// Near, if not 0, is how far from ref results in bf16 may lie, as a share of 1 and of their size, on
	// a backend whose sums have an order of their own; else bits are compared.
	Near float64
	// Queue, if not 0, is how long a timed run takes: the operation is queued again and again and waited for once,
	// since to wait for a device takes longer than a small operation.
	Queue time.Duration
	Large bool // workloads that fill a device, too
}

// family is a group of workloads that the command line names.
type family struct {
	name      string
	workloads []workload
	large     []workload // of Options.Large
}

// workload is one row before it is run.
type workload struct {
	op    string
	shape []int
	dtype kernels.DType
	work  float64 // floating-point operations, or bytes moved
	bytes bool
	// prepare makes the operands and returns the timed call and its check: check returns the number of elements that
	// it compared.
	prepare func(m *maker) (run func(), check func() (int, error))
}

func families(products [][3]int) []family {
	gemm := family{"gemm", matrixProducts(products), largeProducts()}
	if len(products) > 0 {
		gemm.large = nil
	}
	return []family{gemm, {"attention", attentions(), largeAttentions()}, {"conv", convolutions(), nil}, {"rows", rowOps(), nil}, {"draw", draws(), nil}}
}

// Families lists the choices.
func Families() []string {
	var names []string
	for _, f := range families(nil) {
		names = append(names, f.name)
	}
	return names
}

// Run times the chosen families (names of Families) and returns their rows. A result that differs from
// ref is an error.
func Run(ctx context.Context, o Options) ([]Row, error) {
	var rows []Row
	for _, threads := range o.Threads {
		b, peaks := o.Backend(threads), o.Peaks(threads)
		for _, f := range families(o.Products) {
			if len(o.Families) > 0 && !slices.Contains(o.Families, f.name) {
				continue
			}
			all := f.workloads
			if o.Large {
				all = slices.Concat(all, f.large)
			}
			for _, w := range all {
				if err := ctx.Err(); err != nil {
					return rows, err
				}
				row, err := w.time(b, peaks, o)
				if err != nil {
					return rows, fmt.Errorf("%s %v %v: %w", w.op, w.shape, w.dtype, err)
				}
				row.Threads = threads
				rows = append(rows, row)
				if o.Done != nil {
					o.Done(row)
				}
			}
		}
	}
	return rows, nil
}

// Each makes the operands of the chosen families' workloads on a backend, one after another, and calls f with the
// operation, whose times are f's to take. Results are not checked.
func Each(ctx context.Context, b kernels.Backend, names []string, f func(Row, func()) error) error {
	for _, of := range families(nil) {
		if !slices.Contains(names, of.name) {
			continue
		}
		for _, w := range of.workloads {
			if err := ctx.Err(); err != nil {
				return err
			}
			m := &maker{b: b}
			run, _ := w.prepare(m)
			err := f(Row{Op: w.op, Shape: w.shape, DType: long[w.dtype]}, run)
			m.free()
			if err != nil {
				return fmt.Errorf("%s %v %v: %w", w.op, w.shape, w.dtype, err)
			}
		}
	}
	return nil
}

// time runs a workload twice, checks it, and then takes the best and the median of
// some more runs, as the peer does.
func (w workload) time(b kernels.Backend, peaks Peaks, o Options) (Row, error) {
	m := &maker{b: b}
	if w.dtype == kernels.BF16 {
		m.near = o.Near
	}
	defer m.free()
	run, check := w.prepare(m)
	run()
	run()
	b.Sync()
	checked, err := check()
	if err != nil {
		return Row{}, err
	}
	queued := 1
	if o.Queue > 0 {
		start := time.Now()
		run()
		b.Sync()
		queued = min(max(int(o.Queue/max(time.Since(start), 1)), 1), mostQueued)
	}
	times := make([]time.Duration, max(o.Repeat, 1))
	for i := range times {
		start := time.Now()
		for range queued {
			run()
		}
		b.Sync()
		times[i] = time.Since(start) / time.Duration(queued)
	}
	slices.Sort(times)
	best, median := times[0], times[len(times)/2]
	row := Row{Op: w.op, Shape: w.shape, DType: long[w.dtype], BestMS: ms(best), MedianMS: ms(median), Checked: checked}
	rate := w.work / best.Seconds() / 1e9
	switch {
	case w.bytes:
		row.GBytes, row.Of, row.Fraction = round(rate, 10), "memory", rate/peaks.Memory
	case w.dtype == kernels.BF16:
		row.GFlops, row.Of, row.Fraction = round(rate, 10), "bf16", rate/peaks.BF16
	default:
		row.GFlops, row.Of, row.Fraction = round(rate, 10), "f32", rate/peaks.F32
	}
	row.Fraction = round(row.Fraction, 1000)
	return row, nil
}

// mostQueued is how many operations are queued at most: fewer than a device takes before the next launch waits.
const mostQueued = 200

// long are the peer's names of the types.
var long = map[kernels.DType]string{kernels.F32: "float32", kernels.BF16: "bfloat16"}

func ms(d time.Duration) float64     { return round(d.Seconds()*1e3, 1e4) }
func round(x, parts float64) float64 { return math.Round(x*parts) / parts }

// mathOf is the arithmetic that goes with a type of operand.
func mathOf(d kernels.DType) kernels.Math {
	if d == kernels.BF16 {
		return kernels.MathBF16
	}
	return kernels.MathF32
}

// Operands of workloads, and how results are compared.

// maker makes operands: random numbers, never zeros, since the clock of some units
// depends on the data.
type maker struct {
	b     kernels.Backend
	near  float64 // Options.Near, of products in bf16; else 0
	owned []*kernels.Buffer
	drawn uint64
}

func (m *maker) free() {
	for _, b := range m.owned {
		m.b.Free(b)
	}
}

func (m *maker) empty(d kernels.DType, n int) kernels.Span {
	buf := m.b.Alloc(n * d.Size())
	m.owned = append(m.owned, buf)
	return kernels.Span{Buf: buf, Len: n, DType: d}
}

// random fills a span with uniform numbers of deviation 1, in pieces that have a stream each.
func (m *maker) random(d kernels.DType, n int) kernels.Span {
	const piece = 1 << 18
	m.drawn++
	raw := make([]byte, n*d.Size())
	var all sync.WaitGroup
	for from := 0; from < n; from += piece {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(from/piece)<<8|11, m.drawn))
			for i := from; i < min(from+piece, n); i++ {
				x := (float32(r.Uint32()>>8)*0x1p-24 - 0.5) * 3.4641016
				if d == kernels.BF16 {
					binary.LittleEndian.PutUint16(raw[2*i:], ref.ToBF16(x))
				} else {
					binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(x))
				}
			}
		})
	}
	all.Wait()
	s := m.empty(d, n)
	m.b.Upload(s, raw)
	return s
}

func (m *maker) matrix(d kernels.DType, rows, cols int) kernels.Mat {
	return kernels.NewMat(m.random(d, rows*cols), rows, cols)
}

func (m *maker) result(d kernels.DType, rows, cols int) kernels.Mat {
	return kernels.NewMat(m.empty(d, rows*cols), rows, cols)
}

// host copies a span to host memory, where ref can read it.
func (m *maker) host(s kernels.Span) kernels.Span {
	raw := make([]byte, s.Len*s.DType.Size())
	m.b.Download(raw, s)
	h := kernels.Span{Buf: ref.Backend{}.Alloc(len(raw)), Len: s.Len, DType: s.DType}
	ref.Backend{}.Upload(h, raw)
	return h
}

// hostMat is host for a matrix of any stride: its rows become contiguous.
func (m *maker) hostMat(a kernels.Mat) kernels.Mat {
	s := m.host(a.Span.Slice(0, (a.Rows-1)*a.Stride+a.Cols))
	return kernels.Mat{Span: s, Rows: a.Rows, Cols: a.Cols, Stride: a.Stride}
}

// fresh is an empty span for ref's result.
func fresh(d kernels.DType, n int) kernels.Span {
	return kernels.Span{Buf: ref.Backend{}.Alloc(n * d.Size()), Len: n, DType: d}
}

func freshMat(d kernels.DType, rows, cols int) kernels.Mat {
	return kernels.NewMat(fresh(d, rows*cols), rows, cols)
}

// same compares equally shaped matrices: bits, or numbers that may be near.
func (m *maker) same(got, want kernels.Mat) (int, error) {
	size := got.DType.Size()
	if m.near > 0 {
		return m.close(got, want)
	}
	for r := range want.Rows {
		g, w := got.Row(r).Raw(), want.Row(r).Raw()
		for c := range want.Cols {
			if x, y := string(g[c*size:(c+1)*size]), string(w[c*size:(c+1)*size]); x != y {
				return 0, fmt.Errorf("sampled row %d, column %d: got bits %x, ref has %x", r, c, x, y)
			}
		}
	}
	return want.Rows * want.Cols, nil
}

// close compares numbers: those of bf16 may also be a rounding apart, and sums in fp32 differ by their order alone.
func (m *maker) close(got, want kernels.Mat) (int, error) {
	near := m.near
	share := near + 1.0/128
	if got.DType == kernels.F32 {
		near = min(near, 3e-4)
		share = near
	}
	for r := range want.Rows {
		g, w := numbers(got.Row(r)), numbers(want.Row(r))
		for c := range want.Cols {
			x, y := g[c], w[c]
			if !(math.Abs(x-y) <= near+share*math.Abs(y)) {
				return 0, fmt.Errorf("sampled row %d, column %d: got %g, ref has %g", r, c, x, y)
			}
		}
	}
	return want.Rows * want.Cols, nil
}

// numbers are a span's, of either type.
func numbers(s kernels.Span) []float64 {
	all := make([]float64, s.Len)
	for i := range all {
		if s.DType == kernels.BF16 {
			all[i] = float64(ref.FromBF16(s.BF16()[i]))
		} else {
			all[i] = float64(s.F32()[i])
		}
	}
	return all
}
