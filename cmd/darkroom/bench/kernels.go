// Package bench is 'darkroom bench': kernels, an iteration of training, decoding and optical flow, each timed.
package bench

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/cmd/darkroom/devices"
	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	fastest "github.com/darkroom-rl/darkroom/cmd/internal/device"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/cmd/internal/version"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/choice"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/cpu/peak"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/kerneltest/bench"
)

// A document is the output of `bench --json`.
type document struct {
	Bench string        `json:"bench"`
	Build version.Build `json:"build"`
	Path  string        `json:"path"`
	// Families has the times by which families of operations have their own paths, unless DARKROOM_CPU names one.
	Families choice.Table `json:"families,omitempty"`
	Peaks    []peak.Table `json:"peaks"` // probed in this run, for each number of threads
	Rows     []bench.Row  `json:"rows"`
}

// Command is 'darkroom bench'.
func Command() *cobra.Command {
	var threads []int
	var repeat int
	var against, device string
	var modes, sizes []string
	cmd := &cobra.Command{
		Use:   "bench [" + strings.Join(bench.Families(), "|") + "]...",
		Short: "Check the kernels against their definition, then time them",
		Long: `Check the kernels against their definition, then time them.

Each row is compared bit by bit with the reference loops on sampled rows of its
result before it is timed. With --against, FILE is the output of another run, or of
a PyTorch program that prints the same keys; the last column is then how many times
faster this run is, and the geometric means follow the table.`,
		Example:   "  darkroom bench gemm --threads 1\n  darkroom bench attention conv --json > bench.json",
		ValidArgs: bench.Families(),
		Args: func(_ *cobra.Command, args []string) error {
			for _, a := range args {
				if !slices.Contains(bench.Families(), a) {
					return fmt.Errorf("unknown benchmark %q; there are %s", a, strings.Join(bench.Families(), ", "))
				}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			for _, n := range threads {
				if n < 1 {
					return exits.Usagef("--threads %d: at least 1 is needed", n)
				}
			}
			other, err := readRows(against)
			if err != nil {
				return err
			}
			path, err := isa.Choose()
			if err != nil {
				return exits.Usage(err)
			}
			report := document{Bench: "kernels", Build: version.Read(), Path: path.String()}
			o := cpu.Options{Path: path}
			if devices.OnCPU(device) && !isa.Forced() {
				report.Families = fastest.FastestPaths().Table
				o.Mix = report.Families.Mix(path)
			}
			out := cmd.OutOrStdout()
			quiet, _ := cmd.Flags().GetBool("json")
			heading := func() {
				if !quiet {
					fmt.Fprintf(out, rowFormat+"\n", "op", "shape", "dtype", "threads", "best ms", "median", "rate", "", "of peak", "ratio")
				}
			}
			if devices.OnCPU(device) && len(modes) > 0 {
				return exits.Usagef("--mode is for a CUDA device; name it with --device cuda:0")
			}
			products, err := productSizes(sizes)
			if err != nil {
				return err
			}
			if len(products) > 0 && len(args) == 0 {
				args = []string{"gemm"}
			}
			options := bench.Options{
				Products: products, Families: args, Threads: threads, Repeat: repeat,
				Backend: func(n int) kernels.Backend { return cpu.NewWith(cpu.Options{Path: o.Path, Mix: o.Mix, Threads: n}) },
				Peaks: func(n int) bench.Peaks {
					p := peak.Measure(path, n)
					report.Peaks = append(report.Peaks, p)
					if !quiet {
						fmt.Fprintf(out, "\n%s, %d threads; probed peaks: f32 %.0f GF/s, bf16 %.0f GF/s, memory %.1f GB/s\n", path, n, p.F32, p.BF16, p.Memory)
					}
					heading()
					return bench.Peaks{F32: p.F32, BF16: p.BF16, Memory: p.Memory}
				},
				Done: func(r bench.Row) {
					if !quiet {
						printRow(out, r, other)
					}
				},
			}
			if !devices.OnCPU(device) {
				b := benchModes{cmd: cmd, quiet: quiet, heading: heading, other: other}
				return b.run(&report, options, device, modes)
			}
			report.Rows, err = bench.Run(cmd.Context(), options)
			if err != nil {
				return err
			}
			return console.Emit(cmd, report, func(w io.Writer) { printMeans(w, report.Rows, other) })
		},
	}
	cmd.AddCommand(iterationCommand(), decodeCommand(), flowCommand())
	cmd.Flags().IntSliceVar(&threads, "threads", []int{1, 2}, "numbers of threads to run with")
	devices.CPUFlag(cmd, &device)
	cmd.Flags().StringArrayVar(&modes, "mode", nil, "on a CUDA device: time it as with this DARKROOM_CUDA; given again, as with that, beside the first")
	cmd.Flags().StringArrayVar(&sizes, "product", nil, "M,N,K of matrix products to time in place of those that gemm has; as often as wanted")
	cmd.Flags().IntVar(&repeat, "repeat", 7, "timed runs of each row")
	cmd.Flags().StringVar(&against, "against", "", "FILE of rows to compare with")
	return cmd
}

// productSizes reads sizes of products, "M,N,K" each.
func productSizes(texts []string) (sizes [][3]int, err error) {
	for _, text := range texts {
		var s [3]int
		parts := strings.Split(text, ",")
		for i := range min(len(parts), 3) {
			s[i], err = strconv.Atoi(strings.TrimSpace(parts[i]))
			if err != nil {
				break
			}
		}
		// A matrix of 2^30 elements takes 4 GiB.
		const most = 1 << 30
		if err != nil || len(parts) != 3 || min(s[0], s[1], s[2]) < 1 || max(s[0], s[1], s[2]) > most || max(s[0]*s[1], s[0]*s[2], s[1]*s[2]) > most {
			return nil, exits.Usagef("--product %s: write M,N,K, as 4096,4096,4096, whose matrices have at most 2^30 elements", text)
		}
		sizes = append(sizes, s)
	}
	return sizes, nil
}

const rowFormat = "%-22s %-18s %-9s %7s %10s %10s %8s %-5s %8s %6s"

func printRow(w io.Writer, r bench.Row, other map[string]float64) {
	rate, unit := r.GFlops, "GF/s"
	if r.GBytes > 0 {
		rate, unit = r.GBytes, "GB/s"
	}
	ratio := ""
	if ms, ok := other[rowKey(r)]; ok {
		ratio = fmt.Sprintf("%.2f", ms/r.BestMS)
	}
	fmt.Fprintf(w, rowFormat+"\n", r.Op, strings.Join(strings.Fields(fmt.Sprint(r.Shape)), ","), r.DType, fmt.Sprint(r.Threads),
		fmt.Sprintf("%.3f", r.BestMS), fmt.Sprintf("%.3f", r.MedianMS), fmt.Sprintf("%.1f", rate), unit, fmt.Sprintf("%.0f %%", 100*r.Fraction), ratio)
}

// printMeans prints the geometric mean of the ratios for each op and dtype.
func printMeans(w io.Writer, rows []bench.Row, other map[string]float64) {
	if len(other) == 0 {
		return
	}
	type group struct{ op, dtype string }
	var order []group
	logs := map[group][]float64{}
	for _, r := range rows {
		ms, ok := other[rowKey(r)]
		if !ok {
			continue
		}
		g := group{r.Op, r.DType}
		if logs[g] == nil {
			order = append(order, g)
		}
		logs[g] = append(logs[g], math.Log(ms/r.BestMS))
	}
	t := console.Table{Header: []string{"OP", "DTYPE", ">ROWS", ">TIMES FASTER (GEOMETRIC MEAN)"}}
	for _, g := range order {
		sum := 0.0
		for _, l := range logs[g] {
			sum += l
		}
		t.Add(g.op, g.dtype, fmt.Sprint(len(logs[g])), fmt.Sprintf("%.2f", math.Exp(sum/float64(len(logs[g])))))
	}
	fmt.Fprintln(w)
	t.Write(w)
}

// rowKey names a row across runs. Weights packed on each call are compared with
// the same row of a program that knows no other way, and a convolution with the
// better of that program's two layouts.
func rowKey(r bench.Row) string {
	op := strings.TrimSuffix(strings.TrimSuffix(r.Op, "_repacked"), "_channels_last")
	return fmt.Sprint(op, r.Shape, r.DType, r.Threads)
}

// readRows reads the best times of another run, by key.
func readRows(file string) (map[string]float64, error) {
	if file == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, exits.Usagef("--against: %w", err)
	}
	var doc struct{ Rows []bench.Row }
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, exits.Usagef("--against: %s is not the JSON of a benchmark: %w", file, err)
	}
	if len(doc.Rows) == 0 {
		return nil, exits.Usagef("--against: %s holds no rows\nhint: it must be an object with a list \"rows\"", file)
	}
	return bestTimes(doc.Rows), nil
}

// bestTimes are those of rows, by key.
func bestTimes(rows []bench.Row) map[string]float64 {
	best := map[string]float64{}
	for _, r := range rows {
		if ms, ok := best[rowKey(r)]; !ok || r.BestMS < ms {
			best[rowKey(r)] = r.BestMS
		}
	}
	return best
}

// benchModes times a CUDA device in one mode after another: as DARKROOM_CUDA says, or as --mode does, so that
// kernels of our own and the library's are compared on one device in one run. The last column of
// the second and of later ones says how many times faster they are than the first (or than
// --against, where that is given).
type benchModes struct {
	cmd     *cobra.Command
	quiet   bool
	heading func()
	other   map[string]float64
}

func (b *benchModes) run(report *document, options bench.Options, device string, modes []string) (err error) {
	if len(modes) == 0 {
		modes = []string{os.Getenv(cuda.ModeVariable)}
	}
	opened := make([]devices.Backend, len(modes)) // all, before the first is timed
	for i, mode := range modes {
		if opened[i], err = devices.OpenCUDA(device, mode); err != nil {
			return err
		}
		defer opened[i].Close()
	}
	out, several := b.cmd.OutOrStdout(), len(modes) > 1
	for i, be := range opened {
		path := fmt.Sprint(be)
		report.Path = cmp.Or(report.Path, path)
		if !b.quiet {
			fmt.Fprintf(out, "\n%s; its peaks are not probed\n", path)
		}
		o := options
		onDevice(&o, be, b.heading)
		o.Done = func(r bench.Row) {
			if !b.quiet {
				printRow(out, r, b.other)
			}
		}
		rows, err := bench.Run(b.cmd.Context(), o)
		if err = errors.Join(err, devices.TellChoices(b.cmd.ErrOrStderr(), be)); err != nil {
			return err
		}
		for j := range rows {
			if several {
				rows[j].Mode = cmp.Or(modes[i], "default")
			}
		}
		report.Rows = append(report.Rows, rows...)
		if !b.quiet && len(b.other) > 0 {
			printMeans(out, rows, b.other)
		}
		if len(b.other) == 0 && several {
			b.other = bestTimes(rows)
		}
	}
	return console.Emit(b.cmd, report, func(io.Writer) {})
}

// onDevice lets a benchmark run on a device: once, since threads are the device's business; at sizes that
// fill it, too; results of bf16 near ref; and against no peak, since none is probed.
func onDevice(o *bench.Options, be kernels.Backend, heading func()) {
	o.Threads, o.Near, o.Queue, o.Large = []int{1}, 2e-2, 20*time.Millisecond, true
	o.Backend = func(int) kernels.Backend { return be }
	o.Peaks = func(int) bench.Peaks {
		heading()
		return bench.Peaks{F32: math.Inf(1), BF16: math.Inf(1), Memory: math.Inf(1)}
	}
}
