package iteration

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Work says how large the model is and how much is done with it.
type Work struct {
	Heads, Layers int // of the transformer; heads are 64 wide
	Latent        int // side of the latents
	Text          int // tokens of text
	Group         int // pictures of an iteration; 0: whole iterations are left out
	Steps, Window int // of the sampler, and how many of them are trained
	Micro         int // pictures in a run of the network
	Repeat        int // timed runs

	Vocabulary, Rows, Prompt, New int // of answers: tokens known, rows, tokens of a prompt and of an answer
}

// Usual is a mid-size model.
func Usual() Work {
	return Work{Heads: 24, Layers: 6, Latent: 32, Text: 231, Group: 4, Steps: 10, Window: 4, Micro: 2, Repeat: 3, Vocabulary: 32768, Rows: 8, Prompt: 256, New: 64}
}

// Check reports impossible settings.
func (w Work) Check() error {
	var wrong []string
	for _, c := range []struct {
		name           string
		n, least, most int
	}{{"heads", w.Heads, 1, 256}, {"layers", w.Layers, 1, 256}, {"latent", w.Latent, 2, 384}, {"text", w.Text, 1, 4096}, {"group", w.Group, 0, 4096},
		{"steps", w.Steps, 2, 1000}, {"window", w.Window, 1, w.Steps - 1}, {"micro", w.Micro, 1, 1024}, {"repeat", w.Repeat, 1, 1000},
		{"vocab", w.Vocabulary, 200, 1 << 20}, {"vlm-batch", w.Rows, 1, 256}, {"vlm-prompt", w.Prompt, 1, 1 << 15}, {"vlm-new", w.New, 1, 1 << 15}} {
		if c.n < c.least || c.n > c.most {
			wrong = append(wrong, fmt.Sprintf("--%s %d: %d to %d are possible", c.name, c.n, c.least, c.most))
		}
	}
	if w.Latent%2 != 0 {
		wrong = append(wrong, fmt.Sprintf("--latent %d: it must be even", w.Latent))
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%s", strings.Join(wrong, "\n"))
	}
	return nil
}

// A Part is the measurement of one process, since its peak of memory is its own: "grpo:bf16".
type Part string

// Parts are all there are.
func Parts() []Part {
	return []Part{"grpo:fp32", "grpo:bf16", "vae:fp32", "vae:bf16", "vlm:fp32", "vlm:bf16"}
}

// Key is the part's name in a result.
func (p Part) Key() string { return strings.ReplaceAll(string(p), ":", "_") }

// Process is the process's own account of itself; it may know nothing.
type Process struct {
	Dry   func() pipeline.Dry // counts for the backend that computes
	Peak  func() int          // MiB: the most that was resident since Reset
	Reset func()
	CPU   func() float64 // seconds of all its threads
}

// Run measures the part.
func (p Part) Run(ctx context.Context, w Work, be kernels.Backend, m Process) (any, error) {
	if err := w.Check(); err != nil {
		return nil, err
	}
	if !slices.Contains(Parts(), p) {
		return nil, fmt.Errorf("there is no part %q", p)
	}
	kind, dtype, _ := strings.Cut(string(p), ":")
	precision := pipeline.F32
	if dtype == "bf16" {
		precision = pipeline.BF16
	}
	b := &bench{Work: w, process: m, ctx: ctx, pool: tensor.NewPool(be), precision: precision}
	b.reset()
	b.before = m.Peak()
	switch kind {
	case "vae":
		return b.decoding()
	case "vlm":
		return b.answers()
	}
	return b.iterations()
}

// bench is a measurement under way.
type bench struct {
	Work
	process   Process
	ctx       context.Context
	pool      *tensor.Pool
	precision pipeline.Precision
	before    int // MiB that the process held at the start
}

// predicted is a peak in MiB, from bytes beside the process's memory.
func (b *bench) predicted(need int64) int { return b.before + int(need>>20) }

// Timed is some runs of the same work.
type Timed struct {
	Best    float64 `json:"best_s"`
	Median  float64 `json:"median_s"`
	CPU     float64 `json:"best_cpu_s,omitempty"` // of all threads: least disturbed by a busy machine
	Repeats int     `json:"repeats"`

	Device *kernels.Traffic `json:"device,omitempty"` // asked of a device by the last run
}

// Phase is timed work of a batch, and the peak of memory meanwhile.
type Phase struct {
	Timed
	Batch  int `json:"batch,omitempty"`
	Peak   int `json:"peak_rss_mb"`
	Guess  int `json:"predicted_rss_mb,omitempty"` // before a weight was made
	Before int `json:"rss_before_mb,omitempty"`
	Held   int `json:"device_mb,omitempty"` // of a device's memory, freed pieces included
}

// reset begins a phase: memory that waits is given back, and the peak starts anew.
func (b *bench) reset() {
	b.pool.Trim()
	b.process.Reset()
}

// timed runs f once, and then some times by the clock.
func (b *bench) timed(f func() error) (Timed, error) {
	return b.timedAfter(func() error { return nil }, f)
}

// wait lets a device finish: there, operations are only queued when they return.
func (b *bench) wait() { b.pool.Backend().Sync() }

// onDevice is a backend with memory of its own.
type onDevice interface {
	Traffic() kernels.Traffic
	Held() int
}

// held is MiB of the device's memory that the program has.
func (b *bench) held() int {
	if d, ok := b.pool.Backend().(onDevice); ok {
		return d.Held() >> 20
	}
	return 0
}

// asks counts the requests to a device from now on; nil where the backend counts nothing.
func (b *bench) asks() func() *kernels.Traffic {
	device, ok := b.pool.Backend().(onDevice)
	if !ok {
		return func() *kernels.Traffic { return nil }
	}
	before := device.Traffic()
	return func() *kernels.Traffic {
		since := device.Traffic().Since(before)
		return &since
	}
}

// timedAfter is timed where something must be done before each run.
func (b *bench) timedAfter(before, f func() error) (Timed, error) {
	var t, used []float64
	var asked *kernels.Traffic
	for i := range b.Repeat + 1 {
		if err := b.ctx.Err(); err != nil {
			return Timed{}, err
		}
		if err := before(); err != nil {
			return Timed{}, err
		}
		b.wait()
		asks := b.asks()
		start, cpu := time.Now(), b.process.CPU()
		if err := f(); err != nil {
			return Timed{}, err
		}
		asked = asks()
		b.wait()
		if i > 0 {
			t, used = append(t, time.Since(start).Seconds()), append(used, b.process.CPU()-cpu)
		}
	}
	slices.Sort(t)
	median := (t[(len(t)-1)/2] + t[len(t)/2]) / 2
	return Timed{Best: rounded(t[0]), Median: rounded(median), CPU: rounded(slices.Min(used)), Repeats: len(t), Device: asked}, nil
}

func (b *bench) phase(batch int, f func() error) (*Phase, error) {
	t, err := b.timed(f)
	return &Phase{Timed: t, Batch: batch, Peak: b.process.Peak(), Held: b.held()}, err
}

func rounded(s float64) float64 { return math.Round(s*1e4) / 1e4 }
