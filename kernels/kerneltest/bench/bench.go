package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/darkroom-rl/darkroom/kernels"
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

// Peaks are what the machine was probed to do with some number of threads: 1e9
// floating-point operations, or bytes read, a second.
type Peaks struct{ F32, BF16, Memory float64 }

// Options choose what is run.
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
	// prepare makes the operands and returns what to time and how to check it:
	// check returns the number of elements that it compared.
	prepare func(m *maker) (run func(), check func() (int, error))
}

func families(products [][3]int) []family {
	gemm := family{"gemm", matrixProducts(products), largeProducts()}
	if len(products) > 0 {
		gemm.large = nil
	}
	return []family{gemm, {"attention", attentions(), largeAttentions()}, {"conv", convolutions(), nil}, {"rows", rowOps(), nil}}
}

// Families lists what can be chosen.
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
