package pictures

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

var long = flag.Bool("long", false, "measure memory of whole iterations, too")

// TestMemoryFits: the less a run may take, the fewer pictures go through the network at once, and at last backward
// computes passes again; each step takes less, and the first that fits is taken.
func TestMemoryFits(t *testing.T) {
	if testing.Short() {
		t.Skip("measures memory of whole iterations; left out by -short")
	}
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	e := parse(t, "rollout.group=8", "loss.noise_floor=off", "sampler.width=64", "sampler.height=64")
	predict := func(budget int64) *model.Memory {
		t.Helper()
		need, err := Memory(e, cpu.NewDry(cpu.Options{Path: path}), budget)
		if err != nil {
			t.Fatal(err)
		}
		return need
	}
	free := predict(0)
	if free.Fit != (model.Fit{}) {
		t.Fatalf("without a budget %+v", free.Fit)
	}
	var chosen []model.Fit
	for last := free; last.Checkpointing < autograd.AllBlocks; {
		budget := model.ProgramBytes + last.Peak() - 1
		next := predict(budget)
		if next.Training >= last.Training {
			t.Errorf("%+v takes %d bytes in training, %+v %d", next.Fit, next.Training, last.Fit, last.Training)
		}
		if !next.Within(budget, 1) && next.Checkpointing < autograd.AllBlocks {
			t.Errorf("%+v does not fit, and is taken", next.Fit)
		}
		if chosen = append(chosen, next.Fit); len(chosen) > 12 {
			t.Fatalf("no end: %+v", chosen)
		}
		last = next
	}
	if chosen[0].Micro == 0 || len(chosen) < 3 || !slices.IsSortedFunc(chosen, func(a, b model.Fit) int { return b.Micro - a.Micro }) {
		t.Errorf("chosen: %+v", chosen)
	}
}

// TestInputsOfBlocksAside: on a card, at last, inputs of blocks that backward computes again lie on the host.
func TestInputsOfBlocksAside(t *testing.T) {
	if testing.Short() {
		t.Skip("measures memory of whole iterations; left out by -short")
	}
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	least := func(device string) *model.Memory {
		t.Helper()
		e := parse(t, "run.iterations=1", "rollout.prompts_per_iteration=1", "rollout.group=2", "sampler.steps=4", "loss.noise_floor=off", "sampler.width=64", "sampler.height=64", "model.home=device", "run.device="+device)
		need, err := Memory(e, cpu.NewDry(cpu.Options{Path: path}), 1)
		if err != nil {
			t.Fatal(err)
		}
		return need
	}
	host, card := least("cpu"), least("cuda:0")
	if host.Fit.Aside || host.Inputs != 0 || !card.Fit.Aside || card.Inputs == 0 || card.Training >= host.Training {
		t.Errorf("on the host %+v takes %d bytes in training, on a card %+v %d, and %d for inputs of blocks", host.Fit, host.Training, card.Fit, card.Training, card.Inputs)
	}
}

// TestLeanComesFirst: where the network itself is trained, packed copies are left out before fewer pictures go
// through it. In a second iteration the pictures' decoding, which has none, is the most.
func TestLeanComesFirst(t *testing.T) {
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	e := parse(t, "model.train=['.*']", "rollout.group=4", "run.iterations=1", "loss.noise_floor=off", "sampler.width=64", "sampler.height=64")
	predict := func(budget int64) *model.Memory {
		need, err := Memory(e, cpu.NewDry(cpu.Options{Path: path}), budget)
		if err != nil {
			t.Fatal(err)
		}
		return need
	}
	free := predict(0)
	if next := predict(model.ProgramBytes + free.Peak() - 1); next.Fit != (model.Fit{Lean: true}) || next.Training >= free.Training {
		t.Errorf("%+v takes %d bytes in training, %+v %d", next.Fit, next.Training, free.Fit, free.Training)
	}
	if least := predict(1); !least.Lean || least.Micro != 1 || least.Checkpointing != autograd.AllBlocks {
		t.Errorf("with nothing: %+v", least.Fit)
	}
}

// TestCheckFitsIntoTraining: the check before the first update takes no more memory than training, whatever is trained
// and however much goes through the network at once.
func TestCheckFitsIntoTraining(t *testing.T) {
	if !*long {
		t.Skip("measures memory of whole iterations: -long, .ci/run slow")
	}
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	for _, sets := range [][]string{
		{}, {"rollout.group=2"}, {"rollout.group=12"}, {"model.train=['.*']", "rollout.group=2"},
		{"sampler.width=128", "sampler.height=128", "model.lora.rank=1"},
	} {
		for _, budget := range []int64{0, 1} { // with all that makes it fast, and with nothing
			need, err := Memory(parse(t, append(slices.Clone(sets), "rollout.prompts_per_iteration=1", "optim.updates=2")...), cpu.NewDry(cpu.Options{Path: path}), budget)
			if err != nil {
				t.Fatal(err)
			}
			if need.Check == 0 || need.Check > need.Training {
				t.Errorf("%q, budget %d: the check takes %d bytes, training %d", sets, budget, need.Check, need.Training)
			}
		}
	}
}

// TestNoiseFloorInPieces: the noise floor has the bits that a network in fp32 gives which is in memory as a whole.
func TestNoiseFloorInPieces(t *testing.T) {
	for _, sets := range [][]string{{"rollout.group=2"}, {"rollout.group=2", "model.train=['transformer_blocks.[01].attn.to_[qkv].*']"}} {
		e := parse(t, append(sets, "sampler.width=32", "sampler.height=32", "sampler.steps=3", "optim.updates=2")...)
		list, err := e.Open(e.Rollout.Prompts[0])
		if err != nil {
			t.Fatal(err)
		}
		be, err := cpu.New()
		if err != nil {
			t.Fatal(err)
		}
		defer be.Close()
		m, err := Open(e, model.Options{Backend: be, Train: list})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		settings, err := e.Iteration(0)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Begin(settings, rng.New(1), 1); err != nil {
			t.Fatal(err)
		}
		o, err := m.Objective(settings, m)
		if err != nil {
			t.Fatal(err)
		}
		samples, err := m.Roll(trainer.Current, []trainer.Key{{Prompt: 0}, {Prompt: 0, Sample: 1}, {Prompt: 1}})
		if err != nil {
			t.Fatal(err)
		}
		m.Micro = 1
		m.Spoil() // the check asks the network, whatever was answered in the roll
		found, err := m.Check(o, samples)
		if m.Micro = 0; err != nil || found.Floor == nil || *found.Floor == 0 {
			t.Fatalf("%+v, %v", found, err)
		}
		m.opened.Precision = pipeline.F32
		whole, err := pipeline.Open(m.Pipeline.Dir(), m.opened)
		if err != nil {
			t.Fatal(err)
		}
		defer whole.Close()
		params, err := whole.Denoiser()
		if err != nil {
			t.Fatal(err)
		}
		if len(m.adapters) > 0 {
			if err := m.adaptTwin(whole); err != nil {
				t.Fatal(err)
			}
			theirs := params.Trained()
			for i, p := range m.Moved() {
				theirs[i].Value.UploadF32(p.Value.F32())
			}
		}
		own := *m.Policy
		own.Pipeline = whole
		apart, err := logProbsBy(&own, o.(trainer.PolicyGradient), samples, chosen(samples))
		if err != nil {
			t.Fatal(err)
		}
		want := 0.0
		for _, d := range apart {
			want += d * d / float64(len(apart))
		}
		if want = math.Sqrt(want); *found.Floor != want {
			t.Errorf("%q: %v, and of the whole network %v", sets, *found.Floor, want)
		}
	}
}

// TestStagesAreCounted: a later stage with larger pictures, or more of them, is in a run's memory.
func TestStagesAreCounted(t *testing.T) {
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	predict := func(sets ...string) *model.Memory {
		need, err := Memory(parse(t, append(sets, "loss.noise_floor=off", "rollout.group=2")...), cpu.NewDry(cpu.Options{Path: path}), 0)
		if err != nil {
			t.Fatal(err)
		}
		return need
	}
	size := func(n string) []string { return []string{"sampler.width=" + n, "sampler.height=" + n} }
	small, large := predict(size("32")...), predict(size("128")...)
	later := predict(append(size("32"), "stage=[{iterations=2}, {iterations=2, sampler={width=128, height=128}}]")...)
	near := func(a, b int64) bool { return float64(a) > 0.95*float64(b) } // the first stage's memory may serve the second
	if !near(later.Training, large.Training) || !near(later.Sampling, large.Sampling) || !near(later.Decoding, large.Decoding) || later.Samples < large.Samples || near(small.Training, large.Training) {
		t.Errorf("a second stage of 128 pixels: %+v; the whole run of 128: %+v", *later, *large)
	}
}

// TestBudgets: samples, gradients and the adapter after an update have the same bytes, whatever a budget makes of
// micro-batches and of checkpointing.
func TestBudgets(t *testing.T) {
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	e := parse(t, "rollout.group=4", "loss.noise_floor=off", "sampler.width=32", "sampler.height=32", "sampler.steps=3")
	list, err := e.Open(e.Rollout.Prompts[0])
	if err != nil {
		t.Fatal(err)
	}
	keys := make([]trainer.Key, 4)
	for i := range keys {
		keys[i] = trainer.Key{Prompt: i / 2, Sample: i % 2}
	}
	var fits []model.Fit
	var want [][]byte
	for budget := int64(0); ; {
		need, err := Memory(e, cpu.NewDry(cpu.Options{Path: path}), budget)
		if err != nil {
			t.Fatal(err)
		}
		fit := need.Fit
		if need.Micro == 1 {
			fit.Held = 1 // nothing waits
		}
		if got := updated(t, e, model.Options{Backend: be, Train: list, Fit: fit}, keys); want == nil {
			want = got
		} else if !slices.EqualFunc(got, want, bytes.Equal) {
			t.Errorf("%+v: other bytes than those of %+v", need.Fit, fits[0])
		}
		if fits = append(fits, need.Fit); need.Checkpointing == autograd.AllBlocks {
			break
		}
		budget = model.ProgramBytes + need.Peak() - 1
	}
	if len(fits) < 5 || fits[0].Micro != 0 || fits[len(fits)-2].Micro != 1 {
		t.Errorf("decisions: %+v", fits)
	}
}

// TestKept: pools of a model that takes a gigabyte or more hold the memory of its largest phase, and those of a small
// one all waiting memory.
func TestKept(t *testing.T) {
	large := model.Memory{Sampling: 3 << 30, Training: 5 << 30, Samples: 1 << 30, Fit: model.Fit{Micro: 2}}
	if got, want := large.Kept(), (model.Fit{Micro: 2, Held: 5 << 30}); got != want {
		t.Errorf("%+v, not %+v", got, want)
	}
	if got := (model.Memory{Training: 1 << 20}).Kept(); got != (model.Fit{}) {
		t.Errorf("of a small model %+v", got)
	}
}

// updated is an iteration's samples, gradients, and the parameters after its update.
func updated(t *testing.T, e *experiment.Experiment, o model.Options, keys []trainer.Key) (all [][]byte) {
	t.Helper() // texts are encoded anew each time: there is no cache
	m, err := Open(e, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	settings, err := e.Iteration(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Begin(settings, rng.New(1), 1); err != nil {
		t.Fatal(err)
	}
	samples, err := m.Roll(trainer.Current, keys)
	if err != nil {
		t.Fatal(err)
	}
	var points []trainer.Point
	for _, s := range samples {
		all = append(all, fmt.Append(nil, s.Item.Final))
		points = append(points, trainer.Point{Key: s.Key, State: s.Decisions.State[0], Time: s.Decisions.Time[0]})
	}
	forward, err := m.Eval(trainer.Current, points)
	if err == nil {
		err = forward.Back(forward.Outputs)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range m.Moved() {
		all = append(all, p.AnyGrad().Bytes())
	}
	m.Params().Move(1, 1e-3)
	for _, p := range m.Moved() {
		all = append(all, p.Value.Bytes())
	}
	return all
}

// TestSamplesApart: on a card, samples lie beside its memory; a picture that is learned from takes its bytes, its
// latents and the objective's copies of these, and only as many are held in fp32 as are decoded at once. Of
// objectives that see several times at once each time counts.
func TestSamplesApart(t *testing.T) {
	if !*long {
		t.Skip("measures memory of whole iterations: -long, .ci/run slow")
	}
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	predict := func(budget int64, sets ...string) *model.Memory {
		t.Helper()
		need, err := Memory(parse(t, append(sets, "loss.noise_floor=off", "sampler.width=64", "sampler.height=64")...), cpu.NewDry(cpu.Options{Path: path}), budget)
		if err != nil {
			t.Fatal(err)
		}
		return need
	}
	free := predict(0, "rollout.group=8")
	budget := free.Peak() - free.Samples // the memory of its phases, and nothing for samples
	if on := predict(budget, "rollout.group=8", "run.device=cuda:0"); on.Micro != 0 || !on.Within(budget, 1) {
		t.Errorf("on a card of %d bytes: %+v", budget, *on)
	}
	if on := predict(budget, "rollout.group=8", "run.device=cpu"); on.Micro == 0 || free.Encoders != "kept" || free.EncoderBytes == 0 {
		t.Errorf("in %d bytes of the host: %+v", budget, *on)
	}
	pairs := func(n string) int64 {
		return predict(0, "rollout.offline=true", "rollout.prompts=embed:scene-pairs", "rollout.group=2", "loss.objective=dpo", "advantage.estimator=ends", "rollout.prompts_per_iteration="+n).Samples
	}
	const pixels, latents = 3 * 64 * 64, 8 * 2048
	if each := (pairs("300") - pairs("200")) / 200; each <= 0 || each >= 2*(9*latents+9*pixels) {
		t.Errorf("a picture of 64 x 64 that is learned from takes %d bytes of the host", each)
	}
	matched := func(times int, ratios string) int64 {
		return predict(0, "rollout.group=64", "sampler.solver=euler", "loss.objective=awm", "loss.ratios="+ratios, fmt.Sprint("loss.times=", times)).Samples
	}
	one, apart, together := matched(1, "exp_first"), matched(8, "exp_first"), matched(8, "sum_first")
	if apart != one || together < one+7*128*5*latents {
		t.Errorf("128 samples at one time take %d bytes of the host, at 8 of them %d, and at 8 together %d", one, apart, together)
	}
}

// TestCountingEnds: a prediction ends at whichever look its context is over. It looks before anything is asked for, and
// before each iteration.
func TestCountingEnds(t *testing.T) {
	predict := func(n int) (*ending, error) {
		dry := cpu.NewDry(cpu.Options{})
		ctx := &ending{Context: t.Context(), dry: dry, n: n}
		dry.Until(ctx)
		_, err := Memory(parse(t), dry, 0)
		ctx.done = append(ctx.done, dry.Operations())
		return ctx, err
	}
	whole, err := predict(math.MaxInt)
	if err != nil || len(whole.done) < 3 || whole.asked != 0 {
		t.Fatalf("%v; looks after %v operations, the first beside %d bytes", err, whole.done, whole.asked)
	}
	for i, all := 1, whole.done[len(whole.done)-1]; i < len(whole.done); i++ {
		if part := whole.done[i] - whole.done[i-1]; part > all/2 {
			t.Errorf("%g of %g operations without a look", part, all)
		}
	}
	for n := 1; n < len(whole.done); n++ {
		if got, err := predict(n); !errors.Is(err, context.Canceled) || !slices.Equal(got.done[:n], whole.done[:n]) || got.done[n] != got.done[n-1] {
			t.Errorf("over at look %d: %v; looks after %v operations", n, err, got.done)
		}
	}
}

// ending is a context that is over at the n-th look.
type ending struct {
	context.Context
	dry   *cpu.Dry
	n     int
	asked int       // bytes at the first look
	done  []float64 // operations at each look
}

func (c *ending) Err() error {
	if len(c.done) == 0 {
		c.asked = c.dry.Peak()
	}
	if c.done = append(c.done, c.dry.Operations()); len(c.done) >= c.n {
		return context.Canceled
	}
	return nil
}
