package bench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/cmd/internal/version"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/kerneltest/bench"
	"github.com/darkroom-rl/darkroom/outside/spent"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/video/flow"
	"github.com/darkroom-rl/darkroom/vision"
)

// A flowRow is one method's time, and how far it is from the motion that is known.
type flowRow struct {
	bench.Row
	CPUMS float64  `json:"cpu_ms"` // least processor time of a call
	Error *float64 `json:"end_point_error,omitempty"`
}

func flowCommand() *cobra.Command {
	var threads []int
	var repeat int
	var against string
	var frames []string
	cmd := &cobra.Command{
		Use:   "flow",
		Short: "Time optical flow between two frames",
		Long: `Time optical flow between two frames of 832 x 480: a texture that moves by
(2.4, -1.3), so that errors are known, or two pictures of yours. Settings are OpenCV's
usual ones. On a busy machine the processor's time says more than the clock's.

With --against, FILE is the output of another run, or of a program with OpenCV that
prints the same keys: op (farneback_box, farneback_gaussian, dis_medium, dis_fast,
dis_ultrafast), shape, dtype, threads, best_ms.`,
		Example: "  darkroom bench flow --threads 1\n  darkroom bench flow --frames a.png,b.png --json > flow.json",
		Args:    exits.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if repeat < 1 {
				return exits.Usagef("--repeat %d: at least 1 is needed", repeat)
			}
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
			a, b, err := flowPair(frames)
			if err != nil {
				return err
			}
			var all []flowRow
			for _, n := range threads {
				for _, m := range flowMethods(n) {
					row, err := timeFlow(m, a, b, n, repeat, len(frames) == 0)
					if err != nil {
						return err
					}
					all = append(all, row)
				}
			}
			report := map[string]any{"bench": "flow", "path": path.String(), "build": version.Read(), "rows": all}
			return console.Emit(cmd, report, func(w io.Writer) {
				t := console.Table{Header: []string{"OP", ">THREADS", ">BEST MS", ">MEDIAN", ">PROCESSOR", ">ERROR", ">TIMES FASTER"}}
				for _, r := range all {
					off, faster := "-", "-"
					if r.Error != nil {
						off = fmt.Sprintf("%.4f", *r.Error)
					}
					if ms, ok := other[rowKey(r.Row)]; ok {
						faster = fmt.Sprintf("%.2f", ms/r.BestMS)
					}
					t.Add(r.Op, fmt.Sprint(r.Threads), fmt.Sprintf("%.1f", r.BestMS), fmt.Sprintf("%.1f", r.MedianMS), fmt.Sprintf("%.1f", r.CPUMS), off, faster)
				}
				t.Write(w)
			})
		},
	}
	cmd.Flags().IntSliceVar(&threads, "threads", []int{1, 2}, "numbers of threads to run with")
	cmd.Flags().IntVar(&repeat, "repeat", 7, "timed runs of each row")
	cmd.Flags().StringVar(&against, "against", "", "FILE of rows to compare with")
	cmd.Flags().StringSliceVar(&frames, "frames", nil, "two pictures, A,B, instead of the texture")
	return cmd
}

// flowDX and flowDY are how the texture moves.
const flowDX, flowDY = 2.4, -1.3

type flowMethod struct {
	name string
	run  func(a, b flow.Gray) (*video.Field, error)
}

func flowMethods(threads int) []flowMethod {
	return []flowMethod{
		{"farneback_box", flow.Farneback{Threads: threads}.Flow},
		{"farneback_gaussian", flow.Farneback{PyramidScale: 0.6, Levels: 2, Window: 13, Iterations: 2, PolyN: 7, PolySigma: 1.5, Gaussian: true, Threads: threads}.Flow},
		{"dis_medium", flow.DIS{Threads: threads}.Flow},
		{"dis_fast", flow.DIS{Preset: flow.Fast, Threads: threads}.Flow},
		{"dis_ultrafast", flow.DIS{Preset: flow.UltraFast, Threads: threads}.Flow},
	}
}

// flowPair reads two pictures, or draws the texture twice.
func flowPair(files []string) (a, b flow.Gray, err error) {
	if len(files) == 0 {
		return movedTexture(0, 0), movedTexture(flowDX, flowDY), nil
	}
	if len(files) != 2 {
		return a, b, exits.Usagef("--frames names %d pictures: two are needed, A,B", len(files))
	}
	for i, to := range []*flow.Gray{&a, &b} {
		m, err := vision.Open(files[i], vision.Limits{})
		if err != nil {
			return a, b, err
		}
		*to = flow.Gray{Width: m.Width, Height: m.Height, Pix: m.Luma()}
	}
	return a, b, nil
}

// movedTexture is a sum of waves of 6 to 60 pixels in many directions.
func movedTexture(dx, dy float64) flow.Gray {
	g := flow.Gray{Width: 832, Height: 480, Pix: make([]uint8, 832*480)}
	v := make([]float64, len(g.Pix))
	const waves = 24
	for k := range waves {
		long := 6 * math.Pow(10, float64(k)/waves)
		angle := 2.4 * float64(k) // the golden angle: directions do not repeat
		kx, ky := 2*math.Pi/long*math.Cos(angle), 2*math.Pi/long*math.Sin(angle)
		for i := range v {
			v[i] += math.Sqrt(long) * math.Cos((float64(i%g.Width)-dx)*kx+(float64(i/g.Width)-dy)*ky+float64(k*k))
		}
	}
	for i, x := range v {
		g.Pix[i] = uint8(min(max(math.Round(127.5+3.5*x), 0), 255))
	}
	return g
}

func timeFlow(m flowMethod, a, b flow.Gray, threads, repeat int, known bool) (flowRow, error) {
	row := flowRow{Row: bench.Row{Op: m.name, Shape: []int{a.Height, a.Width}, DType: "u8", Threads: threads}, CPUMS: math.Inf(1)}
	var took []float64
	for i := range repeat + 1 {
		began, used := time.Now(), spent.CPU()
		f, err := m.run(a, b)
		if err != nil {
			return row, fmt.Errorf("%s: %w", m.name, err)
		}
		if i == 0 { // not timed
			if known {
				e := endPointError(f)
				row.Error = &e
			}
			continue
		}
		row.CPUMS = min(row.CPUMS, 1000*(spent.CPU()-used).Seconds())
		took = append(took, 1000*time.Since(began).Seconds())
	}
	slices.Sort(took)
	row.BestMS, row.MedianMS = took[0], took[len(took)/2]
	return row, nil
}

// endPointError is the mean distance from the texture's motion, 16 pixels from the edges.
func endPointError(f *video.Field) float64 {
	sum, n := 0.0, 0
	for i := range f.X {
		if x, y := i%f.Width, i/f.Width; min(x, y, f.Width-1-x, f.Height-1-y) >= 16 {
			sum += math.Hypot(float64(f.X[i])-flowDX, float64(f.Y[i])-flowDY)
			n++
		}
	}
	return sum / float64(n)
}
