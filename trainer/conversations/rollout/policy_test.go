package rollout_test

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations/chat"
	"github.com/darkroom-rl/darkroom/trainer/conversations/rollout"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/optim"
	"github.com/darkroom-rl/darkroom/trainer/pretrain"
	"github.com/darkroom-rl/darkroom/trainer/sampling"
	"github.com/darkroom-rl/darkroom/vision/scenes/cards"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// policy is a small model that nobody has taught, in a protocol that answers whatever is said
// with a crop, for three turns.
func policy(t testing.TB, adapted bool, train ...string) *rollout.Policy {
	t.Helper()
	return sized(t, 64, 2, adapted, train...)
}

// sized is one of another width, and number of layers.
func sized(t testing.TB, width, layers int, adapted bool, train ...string) *rollout.Policy {
	t.Helper()
	p, _ := withAdapter(t, width, layers, adapted, train...)
	return p
}

// withAdapter is sized, with the adapter.
func withAdapter(t testing.TB, width, layers int, adapted bool, train ...string) (*rollout.Policy, *nn.Adapters) {
	t.Helper()
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	pool := tensor.NewPool(be)
	recipe := pretrain.DefaultTalker()
	recipe.Model.Width, recipe.Model.Inner, recipe.Model.Heads, recipe.Model.Layers, recipe.Model.VisionLayers = width, width*3/2, width/32, layers, 2
	dir := t.TempDir()
	if err := recipe.Frame(dir); err != nil {
		t.Fatal(err)
	}
	key := rng.New(5)
	k, err := chat.Open(dir, chat.Options{Pool: pool, Train: []string{".*"}, Draw: &key})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Params.Set("model.embed_tokens.weight", func(x []float32) {
		for i := range x {
			x[i] *= 0.2
		}
	}); err != nil {
		t.Fatal(err)
	}
	all, err := k.Params.Stored()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(safetensors.Write(filepath.Join(dir, "model.safetensors"), all, nil), k.Close()); err != nil {
		t.Fatal(err)
	}
	if k, err = chat.Open(dir, chat.Options{Pool: pool, Train: train}); err != nil {
		t.Fatal(err)
	}
	for id := range k.Model.Text.Vocabulary { // so that a turn ends now and then
		if id > 3 && id != int(k.End) {
			k.Banned = append(k.Banned, id)
		}
	}
	var a *nn.Adapters
	if adapted {
		if a, err = k.Params.AddLoRA(nn.LoRA{Rank: 4, Alpha: 8, Targets: []string{"q_proj", "up_proj"}, Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	table := cards.Random(rng.New(3))
	m := table.Draw()
	p := &rollout.Policy{
		VLM: k, Protocol: cropping(), Limits: tools.Limits{Turns: 3}, TurnTokens: 40, Sampling: sampling.Options{Temperature: 4, TopP: 1, Repetition: 1, Arithmetic: sampling.Float32}, Draws: trainer.Draws{Root: rng.New(9)},
		Prompts: func(n int) (chat.Prompt, error) { return chat.NewPrompt(table.Question(n), m), nil },
	}
	o := optim.Defaults()
	o.LR = 1e-2
	if err := p.Learn(a, o, trainer.Reference); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Free(); k.Close(); be.Close() })
	return p, a
}

// cropping answers every turn with a crop that depends on its text.
func cropping() *tools.Protocol {
	p := tools.Darkroom()
	p.Read = func(text string) tools.Reading { return tools.Reading{Calls: []tools.Call{{Name: "crop", Args: text}}} }
	p.Tools = []tools.Tool{{Name: "crop", Plan: func(_ *tools.State, args any) (tools.Plan, error) {
		n := len(args.(string))
		return tools.Plan{Ops: []tools.Op{{Kind: "crop", Rect: tools.Rect{n, 2 * n, n + 60, 2*n + 90}}}}, nil
	}}}
	return p
}

func keys(iteration int) []trainer.Key {
	var all []trainer.Key
	for prompt := range 2 {
		for sample := range 4 {
			all = append(all, trainer.Key{Iteration: iteration, Prompt: prompt, Sample: sample})
		}
	}
	return all
}

func points(samples []trainer.Sample) (all []trainer.Point) {
	for _, s := range samples {
		all = append(all, trainer.Point{Key: s.Key, Episode: s.Item.Episode})
	}
	return all
}

func rolled(t *testing.T, p *rollout.Policy, keys []trainer.Key) []trainer.Sample {
	t.Helper()
	samples, err := p.Roll(trainer.Current, keys)
	if err != nil {
		t.Fatal(err)
	}
	return samples
}

// TestEvalIsRoll: the log-probabilities of a whole sequence are those of its tokens as they were
// drawn, bit for bit, over turns and pictures, in any batch, before and after an update.
func TestEvalIsRoll(t *testing.T) {
	for name, p := range map[string]*rollout.Policy{"all trained": policy(t, false, ".*"), "adapter": policy(t, true)} {
		three := false
		for i := range 2 {
			samples := rolled(t, p, keys(i))
			for _, at := range [][]trainer.Point{points(samples), points(samples)[2:3]} {
				a, err := p.Eval(trainer.Current, at)
				if err != nil {
					t.Fatal(err)
				}
				for k, out := range a.Outputs {
					s := samples[slices.IndexFunc(samples, func(s trainer.Sample) bool { return s.Key == at[k].Key })]
					if !slices.Equal(out, s.Decisions.LogProb) {
						t.Errorf("%s, iteration %d: Eval says %v, Roll said %v", name, i, out, s.Decisions.LogProb)
					}
				}
			}
			three = three || slices.ContainsFunc(samples, func(s trainer.Sample) bool { return len(rollout.EpisodeOf(s).Shots) == 3 })
			if _, err := (trainer.TokenPolicy{Loss: loss.DefaultTokens()}).Evaluate(p, samples, []float64{1, -1, 2, -2, 1, -1, 2, -2}); err != nil {
				t.Fatal(err)
			}
			p.Params().Move(1, 1)
		}
		if !three {
			t.Errorf("%s: no episode has three pictures", name)
		}
	}
}

// TestBackIsTheSameInParts: gradients do not depend on kept activations.
func TestBackIsTheSameInParts(t *testing.T) {
	p := policy(t, false, ".*")
	samples := rolled(t, p, keys(0))
	norm := func(keep int) float64 {
		p.Keep = keep
		if _, err := (trainer.TokenPolicy{Loss: loss.DefaultTokens()}).Evaluate(p, samples, []float64{1, -1, 2, -2, 1, -1, 2, -2}); err != nil {
			t.Fatal(err)
		}
		n, err := p.Params().Norm()
		if err != nil {
			t.Fatal(err)
		}
		p.Params().Move(0, 0)
		return n
	}
	if a, b, c := norm(0), norm(1), norm(150); a != b || a != c || a == 0 {
		t.Errorf("the gradient's length is %v, %v, %v", a, b, c)
	}
}

// TestRollIsAFunctionOfKeys: an episode does not depend on those beside it; another iteration's
// is another one.
func TestRollIsAFunctionOfKeys(t *testing.T) {
	p := policy(t, true)
	all := rolled(t, p, keys(0))
	if one := rolled(t, p, keys(0)[3:]); !slices.Equal(rollout.EpisodeOf(one[0]).Tokens, rollout.EpisodeOf(all[3]).Tokens) {
		t.Error("an episode depends on those beside it")
	}
	if other := rolled(t, p, keys(1)[3:]); slices.Equal(rollout.EpisodeOf(other[0]).Tokens, rollout.EpisodeOf(all[3]).Tokens) {
		t.Error("two iterations have the same episode")
	}
	for _, s := range all {
		for at, id := range rollout.EpisodeOf(s).Tokens {
			if rollout.EpisodeOf(s).Sampled[at] && slices.Contains(p.VLM.Banned, int(id)) {
				t.Errorf("token %d was sampled", id)
			}
		}
	}
}

// TestReference: without its adapter a model is as before.
func TestReference(t *testing.T) {
	p := policy(t, true)
	samples := rolled(t, p, keys(0))
	o := trainer.TokenPolicy{Loss: loss.DefaultTokens(), Reference: true}
	o.Loss.KL.Weight = 1
	for i := range 2 {
		b, err := o.Evaluate(p, samples, []float64{1, -1, 2, -2, 1, -1, 2, -2})
		if err != nil {
			t.Fatal(err)
		}
		if kl := b.Metrics["kl"][0]; (kl == 0) != (i == 0) {
			t.Errorf("after %d updates the distance to the reference is %v", i, kl)
		}
		p.Params().Move(1, 1)
	}
}

// TestEntropySlope: the gradient of entropies agrees with finite differences.
func TestEntropySlope(t *testing.T) {
	p := policy(t, false, "model.norm.weight")
	samples := rolled(t, p, keys(0)[:1])
	at := points(samples)
	at[0].Entropy = true
	sum := func() (float64, trainer.Forward) {
		a, err := p.Eval(trainer.Current, at)
		if err != nil {
			t.Fatal(err)
		}
		total := 0.0
		for _, h := range a.Outputs[0][len(samples[0].Decisions.Step):] {
			total += h
		}
		return total, a
	}
	_, a := sum()
	grads := make([]float64, len(a.Outputs[0]))
	for i := len(grads) / 2; i < len(grads); i++ {
		grads[i] = 1
	}
	if err := a.Back([][]float64{grads}); err != nil {
		t.Fatal(err)
	}
	params := p.Params().(*model.Learner).Moved()
	w := params[0]
	slope := w.Grad().F32()
	x := w.Value.F32()
	direction, along := 0.02, 0.0
	move := func(by float64) float64 {
		y := slices.Clone(x)
		for i := range y {
			y[i] += float32(by * math.Copysign(1, float64(slope[i])))
		}
		w.Value.UploadF32(y)
		w.Updated()
		v, _ := sum()
		return v
	}
	for _, g := range slope {
		along += math.Abs(float64(g))
	}
	// Off by 0.0005 of it; over a quarter of the way, where rounding to bf16 counts for more, by 0.014.
	if got := (move(direction) - move(-direction)) / (2 * direction); math.Abs(got-along) > 0.002*along {
		t.Errorf("the entropies rise by %v, and not by %v", got, along)
	}
}
