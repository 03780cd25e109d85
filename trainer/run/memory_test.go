package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/quant"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// lending is a backend that counts requests.
type lending struct {
	kernels.Backend
	bytes int64
}

func (b *lending) Alloc(n int) *kernels.Buffer {
	b.bytes += int64(n)
	return b.Backend.Alloc(n)
}

// narrow is a backend whose memory is bounded.
type narrow struct {
	kernels.Backend
	now, peak, most int
}

// out is its failure.
type out struct{}

func (out) Error() string     { return "out of memory" }
func (out) OnDevice() string  { return "narrow" }
func (out) MemoryIsOut() bool { return true }

func (b *narrow) Alloc(n int) *kernels.Buffer {
	if b.most > 0 && b.now+n > b.most {
		panic(out{})
	}
	b.now += n
	b.peak = max(b.peak, b.now)
	return b.Backend.Alloc(n)
}

func (b *narrow) Free(buf *kernels.Buffer) {
	b.now -= buf.Bytes
	b.Backend.Free(buf)
}

// weighed is a backend of the host that counts requests.
type weighed struct {
	*cpu.Backend
	now, peak int
}

func (b *weighed) count(buf *kernels.Buffer) *kernels.Buffer {
	b.now += buf.Bytes
	b.peak = max(b.peak, b.now)
	return buf
}

func (b *weighed) Alloc(n int) *kernels.Buffer { return b.count(b.Backend.Alloc(n)) }

func (b *weighed) Free(buf *kernels.Buffer) {
	b.now -= buf.Bytes
	b.Backend.Free(buf)
}

func (b *weighed) Pack(w kernels.Mat, m kernels.Math) *kernels.Packed { return b.PackIn(nil, w, m) }

func (b *weighed) PackIn(memory *kernels.Buffer, w kernels.Mat, m kernels.Math) *kernels.Packed {
	return b.packed(memory, b.Backend.PackIn(memory, w, m))
}

func (b *weighed) PackCodes(memory *kernels.Buffer, a *kernels.Unpack, m kernels.Math) *kernels.Packed {
	return b.packed(memory, b.Backend.PackCodes(memory, a, m))
}

// packed counts a weight in memory of its own.
func (b *weighed) packed(memory *kernels.Buffer, w *kernels.Packed) *kernels.Packed {
	if memory == nil {
		b.count(w.Buf)
	}
	return w
}

func (b *weighed) PackConv(w kernels.Span, s kernels.ConvShape, m kernels.Math) *kernels.Packed {
	p := b.Backend.PackConv(w, s, m)
	b.count(p.Buf)
	return p
}

// TestPredicted: a run with an evaluation asks its device for the predicted memory, within a twentieth, wherever frozen
// matrices lie. Matrices read ahead from the disk lie mapped: they are predicted, and no request.
func TestPredicted(t *testing.T) {
	few := func(t *testing.T, sets ...string) *experiment.Experiment {
		return parse(t, append([]string{"optim.updates=1"}, sets...)...)
	}
	models := map[string]func(t *testing.T, sets ...string) *experiment.Experiment{"few": few}
	if *long {
		maps.Copy(models, homed())
		delete(models, "tiny-vlm") // whose longest episode is predicted, and hardly ever drawn
	}
	for name, parsed := range models {
		for i, sets := range [][]string{{"model.quantize=nf4", "model.home=device"}, {"model.home=disk"}, {"model.train=full"}, {"model.home=device"}} {
			if i == 3 && !*long {
				continue
			}
			e := parsed(t, append(sets, "run.iterations=1", "evaluate.every=0")...)
			on := &weighed{Backend: fastest(t, 2)}
			need, err := ModalityOf(e).Memory(e, cpu.NewDry(cpu.Options{Path: on.Path(), Threads: 2}), 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Run(t.Context(), e, Options{Dir: t.TempDir(), Backend: on, Logf: func(string, ...any) {}}); err != nil {
				t.Fatal(err)
			}
			ahead := 0.0
			if need.Home == nn.Disk {
				ahead = 0.05
			}
			if of := float64(on.peak) / float64(need.Peak()-need.Samples); of > 1.05 || of < 0.95-ahead {
				t.Errorf("%s, %q: %.3f of the predicted memory", name, sets, of)
			}
		}
	}
}

// TestPredictedRanks: the first of four ranks, which checks samples of all, asks its device for the predicted memory,
// within a twentieth; the others ask for no more, and for as much where a rank's share is as large as the check.
func TestPredictedRanks(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	for _, sets := range [][]string{{"rollout.group=32"}, {"rollout.group=8"}, {"rollout.group=32", "model.train=full"}} {
		e := parse(t, append([]string{"run.iterations=1", "evaluate.every=0", "optim.updates=1", "run.shards=4", "run.device=cpu,cpu,cpu,cpu",
			"rollout.prompts_per_iteration=4"}, sets...)...)
		var ranks []*weighed
		var all []kernels.Backend
		for range 4 {
			be := &weighed{Backend: fastest(t, 1)}
			ranks, all = append(ranks, be), append(all, be)
		}
		need, err := ModalityOf(e).Memory(e, cpu.NewDry(cpu.Options{Path: ranks[0].Path(), Threads: 1}), 0)
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Dir: t.TempDir(), Backend: all[0], Further: all[1:], Wire: &exchange.Host{Ranks: all}, Logf: func(string, ...any) {}}
		if _, err := Run(t.Context(), e, o); err != nil {
			t.Fatal(err)
		}
		for i, on := range ranks {
			of := float64(on.peak) / float64(need.Peak()-need.Samples)
			t.Logf("%q, rank %d: %.1f MiB, %.3f of the predicted memory", sets, i, float64(on.peak)/(1<<20), of)
			if of > 1.05 || of < 0.95 && (i == 0 || sets[0] == "rollout.group=32") {
				t.Errorf("%q, rank %d: %.3f of the predicted memory", sets, i, of)
			}
		}
	}
}

// runIn runs an experiment on a device with most bytes (0: any), and returns its folder and its lines about memory.
func runIn(t *testing.T, e *experiment.Experiment, o Options, most int) (*narrow, map[string][]byte, []string, error) {
	t.Helper()
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	on := &narrow{Backend: be, most: most}
	var said []string
	o.Dir, o.Backend = t.TempDir(), on
	o.Logf = func(format string, args ...any) {
		if s := fmt.Sprintf(format, args...); strings.Contains(s, "memory ran out") {
			said = append(said, s)
		}
	}
	_, err = Run(t.Context(), e, o)
	return on, contents(t, o.Dir), said, err
}

// TestMemoryRunsOut: a device whose memory runs out in a pass, of a roll or of an update, goes on with smaller ones and
// leaves the same bytes. One whose memory holds no picture ends the run.
func TestMemoryRunsOut(t *testing.T) {
	e := parse(t, "run.iterations=2", "loss.noise_floor=off", "evaluate.every=0")
	run := func(most int) (*narrow, map[string][]byte, []string, error) { return runIn(t, e, Options{}, most) }
	wide, want, said, err := run(0)
	if err != nil || len(said) > 0 {
		t.Fatal(said, err)
	}
	for _, part := range []int{45, 20, 8} {
		_, got, said, err := run(wide.peak * part / 100)
		if err != nil || len(said) == 0 {
			t.Errorf("with %d %% of the memory: %q, %v", part, said, err)
			continue
		}
		if part == 20 && !strings.Contains(strings.Join(said, " "), "in a pass") {
			t.Errorf("with a fifth of the memory, no pass took less: %q", said)
		}
		same(t, fmt.Sprintf("%d %% of the memory", part), got, want)
	}
	if _, _, _, err := run(wide.peak / 50); err == nil || !strings.Contains(err.Error(), "out of memory") {
		t.Errorf("with a fiftieth of the memory: %v", err)
	}
}

// TestMemoryRunsOutOfEpisodes: where memory runs out in an update of conversations, values of fewer tokens are kept,
// and the bytes are the same.
func TestMemoryRunsOutOfEpisodes(t *testing.T) {
	e := homed()["tiny-vlm"](t, "run.iterations=1", "rollout.group=4")
	wide, want, said, err := runIn(t, e, Options{}, 0)
	if err != nil || len(said) > 0 {
		t.Fatal(said, err)
	}
	_, got, said, err := runIn(t, e, Options{}, wide.peak*60/100)
	if err != nil || len(said) == 0 || len(said) > 4 {
		t.Fatalf("with 60 %% of the memory: %q, %v", said, err)
	}
	same(t, "60 % of the memory", got, want)
}

// TestCodesAreCounted: a compressed matrix counts as its values.
func TestCodesAreCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	saving := quant.Bitsandbytes4("nf4", true)
	all := append(saving.Tensors("a.weight", safetensors.BF16, []int{64, 128}), safetensors.FromF32("b", []int{3, 5}, make([]float32, 15)))
	data, _ := saving.Save("a.weight", safetensors.BF16, []int{64, 128}, slices.Values([][]float32{make([]float32, 64*128)}))
	for i := range data {
		all[i].Data = data[i]
	}
	if err := safetensors.Write(path, all, nil); err != nil {
		t.Fatal(err)
	}
	if n := numbers(path); n != 64*128+15 {
		t.Errorf("%d numbers", n)
	}
}

// TestCountingEnds: the prediction that the fit to a budget needs ends with the run, and the fit with the run's error.
func TestCountingEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	e, over := parse(t, `run.memory="1GiB"`), []error(nil)
	m := model.Modality{Memory: func(_ *experiment.Experiment, dry model.Dry, _ int64) (*model.Memory, error) {
		over = append(over, dry.Over())
		cancel()
		over = append(over, dry.Over())
		return nil, dry.Over()
	}}
	quiet := func(format string, args ...any) { t.Errorf(format, args...) }
	if _, err := fitted(ctx, m, e, 0, 1, quiet); !errors.Is(err, context.Canceled) || over[0] != nil || !errors.Is(over[1], context.Canceled) {
		t.Errorf("%v; the prediction saw %v", err, over)
	}
}

// TestRewardsAreCounted: a model has the free memory beside rewards' networks, whether they are loaded already or
// will be, and a prediction counts their files beside it.
func TestRewardsAreCounted(t *testing.T) {
	const file = "../../rewards/scorers/testdata/yolo.onnx" // of half a kilobyte, and pictures of 80 x 80
	network := parse(t, "reward=[{name='onnx', path='"+file+"', onnx={preset='yolo'}}]")
	if n := rewardBytes(network); n < 80*80*3*4 || n > 1<<20 {
		t.Errorf("an ONNX file and its run take %d bytes", n)
	}
	e := parse(t, "reward=[{name='clip', path='"+experiment.TinyCLIP+"'}, {name='aesthetic', path='"+experiment.TinyCLIP+"', train=false}]")
	dir, err := assets.Resolve(experiment.TinyCLIP)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	const device = 1 << 40
	on := &lending{Backend: be}
	opened, err := open(context.Background(), ModalityOf(e), e, Options{Dir: t.TempDir(), Backend: on, Logf: t.Logf, Free: func() int64 { return device - on.bytes }})
	if err != nil {
		t.Fatal(err)
	}
	for _, loaded := range []int64{0, info.Size() / 2, 3 * info.Size()} { // in fp32 they take more than their files
		on.bytes, opened.memory.before = loaded, device
		if got, want := opened.memory.left(rewardBytes(e)), device-max(loaded, rewardBytes(e)); got != want || rewardBytes(e) < info.Size() {
			t.Errorf("with %d bytes of rewards loaded, of %d, %d are left to the model, not %d", loaded, info.Size(), got, want)
		}
	}
	if err := opened.close(nil); err != nil {
		t.Fatal(err)
	}
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	need := func(budget int64, sets ...string) *model.Memory {
		t.Helper()
		m, err := Memory(parse(t, sets...), cpu.NewDry(cpu.Options{Path: path}), budget, 1)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	without, with := need(0), need(0, "reward=[{name='clip', path='"+experiment.TinyCLIP+"'}]")
	if with.Rewards < info.Size() || with.Rewards > 2*info.Size() || with.Peak() != without.Peak()+with.Rewards || without.Rewards != 0 {
		t.Errorf("rewards take %d bytes of %d, the run %d with them and %d without", with.Rewards, info.Size(), with.Peak(), without.Peak())
	}
	// Two ranks that share tokens on one device share its copy of the networks, and the rest.
	alone := need(0).Taken(1)
	tight := need(alone)
	shared, err := Memory(parse(t, "reward=[{name='clip', path='"+experiment.TinyCLIP+"'}]"), cpu.NewDry(cpu.Options{Path: path}), 2*alone+with.Rewards, 2)
	if err != nil || shared.Micro != tight.Micro || shared.Checkpointing != tight.Checkpointing || shared.Rewards != with.Rewards {
		t.Errorf("two ranks beside a network: %+v, one without: %+v: %v", shared, tight, err)
	}
	gradient := need(0, "run.shards=2").Training - without.Training
	if more := need(0, "run.shards=6").Training - without.Training; gradient <= 0 || more < 4*gradient || more > 6*gradient {
		t.Errorf("a second shard of the gradient takes %d bytes, five take %d", gradient, more)
	}
	const four = "run.device=cpu,cpu,cpu,cpu"
	if on := need(0, "run.shards=8", four).Training - need(0, "run.shards=4", four).Training; on != gradient {
		t.Errorf("two of eight shards take %d bytes on each of four devices, and %d on one", on, gradient)
	}
	half := need(0, "reward=[{name='clip', path='"+experiment.TinyCLIP+"', precision='bf16'}]")
	if half.Rewards != with.Rewards/2 {
		t.Errorf("in bf16 rewards take %d bytes, in f32 %d", half.Rewards, with.Rewards)
	}
	const detector = "embed:tiny-mask2former"
	layout := need(0, "reward=[{name='layout', path='"+detector+"'}]").Rewards
	for reward, want := range map[string]int64{
		"name='geneval', path='" + detector + "'":                                             layout,
		"name='geneval', path='" + detector + "', geneval.clip='" + experiment.TinyCLIP + "'": layout + with.Rewards,
		"name='geneval', url='http://localhost:1', path='" + experiment.TinyCLIP + "'":        with.Rewards,
		"name='layout', url='http://localhost:1'":                                             0,
	} {
		if got := need(0, "reward=[{"+reward+"}]").Rewards; got != want || layout < 2_000_000 {
			t.Errorf("%s: %d bytes, not %d", reward, got, want)
		}
	}
	budget := without.Taken(1)
	if fit := need(budget, "reward=[{name='clip', path='"+experiment.TinyCLIP+"'}]"); fit.Micro == 0 && fit.Taken(1) > budget {
		t.Errorf("beside rewards nothing was made smaller: %+v", *fit)
	}
}
