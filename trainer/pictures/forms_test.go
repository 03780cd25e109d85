package pictures

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// opened is the embedded model under an experiment, about to sample its first iteration.
func opened(t *testing.T, list []prompts.Prompt, sets ...string) *Model {
	t.Helper()
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(be.Close)
	e := parse(t, sets...)
	m, err := Open(e, model.Options{Backend: be, Train: list})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	settings, err := e.Iteration(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Begin(settings, rng.New(7), 1); err != nil {
		t.Fatal(err)
	}
	return m
}

// threePrompts name no size, one, and another text to lead away from.
func threePrompts() []prompts.Prompt {
	blur := "blur"
	return []prompts.Prompt{{Text: "a red circle on white"}, {Text: "two blue squares on black", Width: 32, Height: 48}, {Text: "a red circle on white", Negative: &blur}}
}

// pairs are two samples of each of three prompts.
func pairs() (keys []trainer.Key) {
	for p := range 3 {
		keys = append(keys, trainer.Key{Prompt: p}, trainer.Key{Prompt: p, Sample: 1})
	}
	return keys
}

// TestSizes: pictures of several sizes in one iteration, of which each has the bits that it has alone; their
// first ratio is 1, under a schedule that follows each size too, and gradients have the same bytes in passes
// of any size.
func TestSizes(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	m := opened(t, threePrompts(), "sampler.width=48", "sampler.height=32", "sampler.schedule={kind='dynamic'}", "sampler.negative='grey'")
	samples, err := m.Roll(trainer.Current, pairs())
	if err != nil {
		t.Fatal(err)
	}
	items, err := m.Items(samples)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []experiment.Size{{48, 32}, {48, 32}, {32, 48}, {32, 48}, {48, 32}, {48, 32}} {
		if got := (experiment.Size{items[i].Image.Width, items[i].Image.Height}); got != want {
			t.Errorf("picture %d has %s, not %s", i, got, want)
		}
	}
	for i, k := range pairs() {
		alone, err := m.Roll(trainer.Current, []trainer.Key{k})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(alone[0].Item.Final, samples[i].Item.Final) {
			t.Errorf("sample %d has other bits alone", i)
		}
	}
	worth := []float64{1, -1, 0.5, -0.5, -2, 2}
	clip := loss.Clip{Clipping: loss.Clipped(1, 0, 0)}
	blame := func(micro int) (grads [][]float32) {
		t.Helper()
		m.Micro = micro
		o, err := m.Objective(m.settings, m)
		if err != nil {
			t.Fatal(err)
		}
		policy := o.(trainer.PolicyGradient)
		policy.Loss = clip.Of
		b, err := policy.Evaluate(m, samples, worth)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range b.Metrics["ratio"] {
			if r != 1 {
				t.Fatalf("the first ratio is %v", r)
			}
		}
		for _, p := range m.Moved() {
			grads = append(grads, slices.Clone(p.AnyGrad().F32()))
		}
		m.Params().Move(0, 0) // forgets the gradient, and moves nothing
		return grads
	}
	first := blame(0)
	if slices.Max(first[len(first)-1]) == 0 {
		t.Fatal("nothing leads to the adapter")
	}
	for _, micro := range []int{1, 4} {
		if !slices.EqualFunc(blame(micro), first, slices.Equal) {
			t.Errorf("%d in a pass: other bytes of gradients", micro)
		}
		m.Checkpointing = autograd.AllBlocks
		if !slices.EqualFunc(blame(micro), first, slices.Equal) {
			t.Errorf("%d in a pass, computed again: other bytes of gradients", micro)
		}
		m.Checkpointing = 0
	}
}

// TestSizesFollowTheShift: where the schedule's shift depends on how many tokens a picture has, each size has
// rows of its own, unless the file says for how many they are.
func TestSizesFollowTheShift(t *testing.T) {
	for tokens, differ := range map[string]bool{"0": true, "1024": false} {
		m := opened(t, threePrompts(), "sampler.width=64", "sampler.height=64", "sampler.schedule={kind='dynamic', tokens="+tokens+"}")
		large, small := m.form(trainer.Key{}), m.form(trainer.Key{Prompt: 1})
		if got := large.Rows[1].From != small.Rows[1].From && large.Times[1] != small.Times[1]; got != differ {
			t.Errorf("tokens = %s: sizes have rows of their own: %v", tokens, got)
		}
	}
}

// TestDrawnSizes: a prompt's size is a function of the iteration and the prompt, and held-out prompts keep theirs.
func TestDrawnSizes(t *testing.T) {
	m := opened(t, threePrompts()[:1], "sampler.sizes=[[32, 32], [48, 32], [32, 48]]", "evaluate.every=0")
	drawn := map[*Form]int{}
	for i := range 30 {
		k := trainer.Key{Iteration: i}
		one, other := m.form(k), m.form(trainer.Key{Iteration: i, Sample: 5})
		if drawn[one]++; one != other {
			t.Errorf("iteration %d: a group has two sizes", i)
		}
	}
	if len(drawn) != 3 {
		t.Errorf("of three sizes %d were drawn", len(drawn))
	}
	settings, err := m.settings.Evaluating(m.settings.Sampler)
	if err != nil {
		t.Fatal(err)
	}
	p := m.Fixed(t.Context(), settings, rng.New(3)).(*Policy)
	for i := range 10 {
		if p.form(trainer.Key{Iteration: i}) != p.form(trainer.Key{}) {
			t.Error("a held-out prompt has another size in another iteration")
		}
	}
}

// TestHeldOutSizes: held-out pictures have their own size, and are decoded in it.
func TestHeldOutSizes(t *testing.T) {
	m := opened(t, threePrompts(), "evaluate.width=32", "evaluate.height=32", "sampler.eval_steps=2")
	settings, err := m.settings.Evaluating(m.settings.Sampler)
	if err != nil {
		t.Fatal(err)
	}
	samples, err := m.Fixed(t.Context(), settings, rng.New(3)).Roll(trainer.Current, []trainer.Key{{Prompt: 1}, {}})
	if err != nil {
		t.Fatal(err)
	}
	items, err := m.Items(samples)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []experiment.Size{{32, 48}, {32, 32}} {
		if got := (experiment.Size{items[i].Image.Width, items[i].Image.Height}); got != want {
			t.Errorf("picture %d has %s, not %s", i, got, want)
		}
	}
}

// TestNegative: guidance leads away from the prompt's own text, or the sampler's.
func TestNegative(t *testing.T) {
	m := opened(t, threePrompts(), "sampler.negative='grey'")
	_, negatives, err := m.Texts([]int{0, 1, 2})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"grey", "grey", "blur"} {
		if negatives[i].Prompt != want {
			t.Errorf("prompt %d leads away from %q, not %q", i, negatives[i].Prompt, want)
		}
	}
}

// TestPortions: a portion ends before a prompt too many.
func TestPortions(t *testing.T) {
	keys := []trainer.Key{{Prompt: 3}, {Prompt: 3}, {Prompt: 1}, {Prompt: 3}, {Prompt: 2}, {Prompt: 1}}
	if got := portions(keys, 2); !slices.Equal(got, [][2]int{{0, 4}, {4, 6}}) {
		t.Errorf("%v", got)
	}
	if got := portions(keys, 0); !slices.Equal(got, [][2]int{{0, 6}}) {
		t.Errorf("%v", got)
	}
}

// TestTextsAreEncodedWhenDrawn: a list of any length is opened without encoding it; samples have the same bits in
// portions of any size, and after texts were forgotten; texts that are looked ahead for are at hand.
func TestTextsAreEncodedWhenDrawn(t *testing.T) {
	list := make([]prompts.Prompt, 200000)
	for i := range list {
		list[i].Text = fmt.Sprintf("%d red circles on white", i)
	}
	m := opened(t, list, "sampler.steps=2", "sampler.window={size=1}")
	if n := m.Pipeline.Remembered(); n > 1<<20 {
		t.Fatalf("%d bytes of texts before anything was drawn", n)
	}
	keys := []trainer.Key{{Prompt: 199999}, {Prompt: 7}, {Prompt: 7, Sample: 1}, {Prompt: 1}}
	roll := func() (finals [][]float64) {
		t.Helper()
		samples, err := m.Roll(trainer.Current, keys)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range samples {
			finals = append(finals, s.Item.Final)
		}
		return finals
	}
	first := roll()
	m.Pipeline.Forget()
	m.prompts, m.Pipeline.Memory.KeepEncoders = 1, false
	m.asked.Ahead = func() []int { return []int{100} }
	var told []int
	m.Progress = func(done, all int) { told = append(told, done, all) }
	if !slices.EqualFunc(roll(), first, slices.Equal) {
		t.Error("other bits, a prompt at once")
	}
	if n := len(told); told[n-2] != told[n-1] || !slices.IsSorted([]int{told[0], told[2], told[n-2]}) {
		t.Errorf("progress was told as %v", told)
	}
	m.prompts = 4 // three of the roll, however many samples they have, and the next one
	m.asked.Ahead = func() []int { return []int{100, 101} }
	m.Pipeline.Forget()
	roll()
	knows := func(n int) bool { return m.Pipeline.Knows(pipeline.About{Prompt: list[n].Text}) }
	if !knows(100) || knows(101) {
		t.Error("what is drawn next is not at hand, or more is")
	}
}

// TestEncodingEnds: an evaluation that is interrupted while prompts are encoded ends.
func TestEncodingEnds(t *testing.T) {
	m := opened(t, threePrompts())
	settings, err := m.settings.Evaluating(m.settings.Sampler)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	p := m.Fixed(ctx, settings, rng.New(3)).(*Policy)
	stop()
	if _, _, err := p.Texts([]int{0}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
