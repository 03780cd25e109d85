package pipeline

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/diffusion/mmdit"
	"github.com/darkroom-rl/darkroom/diffusion/vae"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// counting is a backend that computes, and counts allocations as cpu.Dry does.
type counting struct {
	*cpu.Backend
	now, peak int
}

func (c *counting) Alloc(n int) *kernels.Buffer {
	c.now += n
	c.peak = max(c.peak, c.now)
	return c.Backend.Alloc(n)
}

func (c *counting) Free(b *kernels.Buffer) {
	c.now -= b.Bytes
	c.Backend.Free(b)
}

func (c *counting) PackIn(memory *kernels.Buffer, w kernels.Mat, m kernels.Math) *kernels.Packed {
	p := c.Backend.PackIn(memory, w, m)
	if memory == nil {
		c.now += p.Buf.Bytes
		c.peak = max(c.peak, c.now)
	}
	return p
}

func (c *counting) PackConv(w kernels.Span, s kernels.ConvShape, m kernels.Math) *kernels.Packed {
	p := c.Backend.PackConv(w, s, m)
	c.now += p.Buf.Bytes
	c.peak = max(c.peak, c.now)
	return p
}

func dry(t testing.TB) *cpu.Dry {
	t.Helper()
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	return cpu.NewDry(cpu.Options{Path: path, Threads: 2})
}

// The counting twin gets the same allocations as a backend that computes.
func TestNeedIsWhatIsAskedFor(t *testing.T) {
	for _, name := range small {
		for _, precision := range []Precision{F32, BF16} {
			path, err := isa.Choose()
			if err != nil {
				t.Fatal(err)
			}
			be := &counting{Backend: cpu.NewWith(cpu.Options{Path: path, Threads: 2})}
			t.Cleanup(be.Close)
			p := open(t, filepath.Join(recorded, name), Options{Precision: precision, Pool: tensor.NewPool(be)})
			at, err := p.Shape(96, 64)
			if err != nil {
				t.Fatal(err)
			}
			w := Work{At: at, Guidance: Guidance{Scale: 3, Embedded: 2}, Pictures: 3, Batch: 2, Free: true}
			need, err := p.Need(w, dry(t))
			if err != nil {
				t.Fatal(err)
			}
			if be.now != 0 {
				t.Errorf("%s: a prediction took %d bytes", name, be.now)
			}
			texts, err := p.Encode("a red cat")
			if err != nil {
				t.Fatal(err)
			}
			check := func(what string, predicted int64) {
				// Some is the operations' own (cpu.Dry's scratch), and the host's.
				predicted -= aside
				if own := int64(24 << 20); predicted < int64(be.peak) || predicted > int64(be.peak)+own {
					t.Errorf("%s, %v: %s: %d bytes were asked for, %d predicted", name, precision, what, be.peak, predicted)
				}
				be.peak = be.now
			}
			check("texts", need.Texts)
			s, pics, err := p.oneStep(w, texts[0], nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Sample(context.Background(), pics, s); err != nil {
				t.Fatal(err)
			}
			check("sampling", need.Sampling)
			if err := p.FreeDenoiser(); err != nil {
				t.Fatal(err)
			}
			be.peak = be.now
			if _, err := p.Decode(make([]float64, at.Len()), at); err != nil {
				t.Fatal(err)
			}
			check("decoding", need.Decoding)
		}
	}
}

// resident reads a line of the process's own account, in bytes.
func resident(t *testing.T, key string) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), key+":")
	n, err := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// measured is a process's measurement.
type measured struct {
	Base int64
	Need Need
	Peak Need
}

var long = flag.Bool("long", false, "measure f32, too, and try all absurd settings")

const child = "DARKROOM_TEST_MEMORY"

// TestNeedInAProcess is TestNeed's other half: a process of its own, whose peaks are its own.
func TestNeedInAProcess(t *testing.T) {
	if os.Getenv(child) == "" {
		t.Skip("runs in the process that TestNeed starts")
	}
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	be := cpu.NewWith(cpu.Options{Path: path, Threads: 2})
	precision := F32
	if os.Getenv(child) == "bf16" {
		precision = BF16
	}
	d := Drawn{Shift: 3, Key: rng.New(1),
		Network: mmdit.Config{SampleSize: 32, PatchSize: 2, In: 16, Out: 16, Layers: 3, Heads: 12, HeadDim: 64, Context: 1024, ContextWidth: 768, Pooled: 512, PositionsSide: 64},
		Decoder: vae.Config{In: 3, Out: 3, Latent: 16, Channels: []int{32, 64, 128, 128}, Layers: 2, Groups: 32, Attention: true, Scaling: 1.5, Act: "silu"}}
	p, err := d.Open(Options{Pool: tensor.NewPool(be), Precision: precision})
	if err != nil {
		t.Fatal(err)
	}
	at, err := p.Shape(256, 256)
	if err != nil {
		t.Fatal(err)
	}
	text := &Text{Tokens: 77, Width: 1024, States: make([]float32, 77*1024), Pooled: make([]float32, 512)}
	w := Work{At: at, Pictures: 4, Batch: 4, Text: text, Train: &nn.LoRA{Rank: 16, Alpha: 16, Targets: []string{"to_q", "to_k", "to_v", "to_out.0"}}}
	debug.FreeOSMemory()
	m := measured{Base: resident(t, "VmRSS")}
	if m.Need, err = p.Need(w, dry(t)); err != nil {
		t.Fatal(err)
	}
	reset := func() {
		debug.FreeOSMemory()
		if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
			t.Skipf("peaks cannot be started anew: %v", err)
		}
	}
	reset()
	s, pics, err := p.oneStep(w, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Sample(context.Background(), pics, s); err != nil {
		t.Fatal(err)
	}
	m.Peak.Sampling = resident(t, "VmHWM")
	reset()
	if err := p.trainOnce(w, text, nil, 4, 500); err != nil {
		t.Fatal(err)
	}
	m.Peak.Training = resident(t, "VmHWM")
	reset()
	if _, err := p.Decode(make([]float64, at.Len()), at); err != nil {
		t.Fatal(err)
	}
	m.Peak.Decoding = resident(t, "VmHWM")
	text2, err := json.Marshal(m)
	if err == nil {
		err = os.WriteFile(os.Getenv(child+"_OUT"), text2, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The peaks of a process with a mid-size model are those that were predicted, within the
// margin that is stated.
func TestNeed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skipf("%s does not say what was resident at most", runtime.GOOS)
	}
	if testing.Short() {
		t.Skip("runs a model of 499 M parameters: seconds, and minutes without assembly; left out by -short")
	}
	precisions := []string{"bf16"}
	if *long {
		precisions = append(precisions, "f32")
	} else {
		t.Log("in bf16, which runs use; -long (make memory) measures f32, too")
	}
	for _, precision := range precisions {
		out := filepath.Join(t.TempDir(), "measured.json")
		run := exec.Command(os.Args[0], "-test.run", "^TestNeedInAProcess$", "-test.v")
		run.Env = append(os.Environ(), child+"="+precision, child+"_OUT="+out)
		said, err := run.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		data, err := os.ReadFile(out)
		if os.IsNotExist(err) {
			t.Skipf("%s", said)
		}
		var m measured
		if err == nil {
			err = json.Unmarshal(data, &m)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			what       string
			need, peak int64
		}{{"sampling", m.Need.Sampling, m.Peak.Sampling}, {"training", m.Need.Training, m.Peak.Training}, {"decoding", m.Need.Decoding, m.Peak.Decoding}} {
			predicted := float64(m.Base + c.need)
			far := float64(c.peak) - predicted
			t.Logf("%s, %s: %.0f MiB, %.0f were predicted", precision, c.what, float64(c.peak)/(1<<20), predicted/(1<<20))
			if margin := MarginShare*predicted + MarginBytes; far > margin || far < -margin {
				t.Errorf("%s, %s: the peak is %.1f MiB from the prediction", precision, c.what, far/(1<<20))
			}
		}
	}
}

// TestNeedOfSources: an edit's memory is counted with pictures of the sizes that it is made of, whatever its own
// size; an output that is long and narrow refuses nobody's picture.
func TestNeedOfSources(t *testing.T) {
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	be := &counting{Backend: cpu.NewWith(cpu.Options{Path: path, Threads: 2})}
	t.Cleanup(be.Close)
	p := open(t, filepath.Join(recorded, "pipe_flux_kontext"), Options{Precision: BF16, Pool: tensor.NewPool(be), SourceArea: AsIs, TextLength: 24})
	at, err := p.Shape(32, 32)
	if err != nil {
		t.Fatal(err)
	}
	w := Work{At: at, Guidance: Guidance{Scale: 1, Embedded: 2}, Pictures: 1, Batch: 1, Free: true, Sources: [][2]int{{384, 256}}}
	need, err := p.Need(w, dry(t))
	if err != nil {
		t.Fatal(err)
	}
	given, err := p.Source(t.Context(), shaded(384, 256, 0))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.FreeDecoder(); err != nil {
		t.Fatal(err)
	}
	check := func(what string, predicted int64) {
		t.Helper()
		if own, peak := int64(24<<20), int64(be.peak); predicted-aside < peak || predicted-aside > peak+own {
			t.Errorf("%s: %d bytes were asked for, %d predicted", what, peak, predicted-aside)
		}
		be.peak = be.now
	}
	check("a picture", need.Given)
	texts, err := p.EncodeWith(given, "a red cat")
	if err != nil {
		t.Fatal(err)
	}
	be.peak = be.now
	s, pics, err := p.oneStep(w, texts[0], given)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Sample(t.Context(), pics, s); err != nil {
		t.Fatal(err)
	}
	check("sampling", need.Sampling)
	klein := editing(t, "pipe_flux2_klein")
	long, err := klein.Shape(64, 1024)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := klein.Need(Work{At: long, Guidance: Guidance{Scale: 1}, Pictures: 1, Batch: 1, Free: true, Sources: [][2]int{{64, 64}}}, dry(t)); err != nil {
		t.Errorf("an output of 1024 x 64: %v", err)
	}
}
