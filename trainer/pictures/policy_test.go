package pictures_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/internal/rigs/brief"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/trainer/optim"
	"github.com/darkroom-rl/darkroom/trainer/pictures"
)

// steps of the sampler, and those that draw and are judged.
const steps = 5

var window = []int{1, 2}

// painter is brief's denoiser with a LoRA.
func painter(t testing.TB, guidance float64, solver func(s sde.Schedule, step int) sde.Row, needs ...trainer.Weights) *pictures.Policy {
	t.Helper()
	return painterIn(t, pipeline.BF16, guidance, solver, needs...)
}

func painterIn(t testing.TB, precision pipeline.Precision, guidance float64, solver func(s sde.Schedule, step int) sde.Row, needs ...trainer.Weights) *pictures.Policy {
	t.Helper()
	return painterOf(t, network{tiny(t), brief.Side, 0}, precision, guidance, solver, sde.Euler, needs...)
}

// tiny is the folder of brief's denoiser.
func tiny(t testing.TB) string {
	t.Helper()
	dir, err := madeTiny()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// madeTiny makes it once for all tests; TestMain deletes it.
var (
	tinyDir  = filepath.Join(os.TempDir(), fmt.Sprintf("darkroom-pictures-%d", os.Getpid()))
	madeTiny = sync.OnceValues(func() (string, error) { return tinyDir, brief.Denoiser(tinyDir) })
)

func TestMain(m *testing.M) {
	code := m.Run()
	_ = os.RemoveAll(tinyDir) // the system clears the rest
	os.Exit(code)
}

// network is a folder, the side of its pictures, and how many tokens of a text it reads, 0: as it says.
type network struct {
	dir          string
	size, tokens int
}

// painterOf is a folder's model with a LoRA.
func painterOf(t testing.TB, of network, precision pipeline.Precision, guidance float64, solver, outside func(s sde.Schedule, step int) sde.Row, needs ...trainer.Weights) *pictures.Policy {
	t.Helper()
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(be.Close)
	p, err := pipeline.Open(of.dir, pipeline.Options{Pool: tensor.NewPool(be), Precision: precision, TextLength: of.tokens})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	texts, err := p.Encode("", "a red circle on white", "two blue squares on black")
	if err != nil {
		t.Fatal(err)
	}
	at, err := p.Shape(of.size, of.size)
	if err != nil {
		t.Fatal(err)
	}
	schedule, err := p.Schedule(steps, at)
	if err != nil {
		t.Fatal(err)
	}
	params, err := p.Denoiser()
	if err != nil {
		t.Fatal(err)
	}
	targets := []string{"to_q", "to_v"}
	if !p.Flow() {
		targets = []string{"attn1.to_q", "attn2.to_v"}
	}
	a, err := params.AddLoRA(nn.LoRA{Rank: 4, Alpha: 8, Targets: targets, Key: rng.New(5)})
	if err != nil {
		t.Fatal(err)
	}
	r := &pictures.Policy{Pipeline: p, Form: pictures.Form{At: at, Times: schedule.Timesteps}, Guidance: pipeline.Guidance{Scale: guidance}, Draws: trainer.Draws{Root: rng.New(7), Shared: true}, Trained: window,
		Texts: func(numbers []int) (some, negatives []*pipeline.Text, err error) {
			for _, n := range numbers {
				some, negatives = append(some, texts[1+n]), append(negatives, texts[0])
			}
			return some, negatives, nil
		}}
	_, r.Rows = sde.Plan{Window: window, Inside: solver, Outside: outside}.Rows(schedule)
	if err := r.Learn(a, optim.Defaults(), needs...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Free)
	return r
}

func flowSDE(s sde.Schedule, step int) sde.Row { return sde.FlowSDE(s, step, 0.7, 0) }

var keys = []trainer.Key{{Sample: 0}, {Sample: 1}, {Prompt: 1, Sample: 0}, {Prompt: 1, Sample: 1}}

// many are more keys than a pass of eight holds.
func many() (all []trainer.Key) {
	for k := range 10 {
		all = append(all, trainer.Key{Prompt: k / 6, Sample: k % 6})
	}
	return all
}

// remembered is an objective that keeps another's results.
type remembered struct {
	trainer.PolicyGradient
	ratios []float64
}

func (r *remembered) Evaluate(p trainer.Policy, s []trainer.Sample, a []float64) (trainer.LossResult, error) {
	b, err := r.PolicyGradient.Evaluate(p, s, a)
	r.ratios = b.Metrics["ratio"]
	return b, err
}

func iterate(t *testing.T, p *pictures.Policy, keys []trainer.Key, n int) (ratios [][]float64, final []byte) {
	t.Helper()
	return iterateOver(t, p, keys, n)
}

func iterateOver(t *testing.T, p *pictures.Policy, keys []trainer.Key, n int) (ratios [][]float64, final []byte) {
	t.Helper()
	clip := loss.Clip{Clipping: loss.Clipped(1e-3, 0, 0), AdvLow: 5, AdvHigh: 5}
	o := &remembered{PolicyGradient: trainer.PolicyGradient{Rows: p.Rows, Loss: clip.Of}}
	tr := &trainer.Trainer{Policy: p, Prompts: func(i int) []trainer.Key {
		out := slices.Clone(keys)
		for k := range out {
			out[k].Iteration = i
		}
		return out
	}, Score: func(s []trainer.Sample) ([]float64, error) {
		scores := make([]float64, len(s))
		for i, x := range s {
			scores[i] = x.Item.Final[0]
		}
		return scores, nil
	}, Compare: func(_ []trainer.Sample, s []float64) ([]float64, error) {
		a := make([]float64, len(s))
		for i := range s {
			a[i] = s[i] - s[i^1] // pairs
		}
		return a, nil
	}, Objective: o, Optim: optim.Options{LR: 1e-2, GradClip: 1, Updates: 1, Schedule: "constant"}}
	for range n {
		if _, err := tr.Step(); err != nil {
			t.Fatal(err)
		}
		ratios = append(ratios, o.ratios)
	}
	params := p.Moved()
	for _, w := range params {
		for _, v := range w.Value.F32() {
			final = fmt.Appendf(final, "%08x", math.Float32bits(v))
		}
	}
	return ratios, final
}

// TestSharedPrefix: a group's common steps, those before the window and the first one in it, are computed once; and a
// picture that shares has the bits of one that was painted alone.
func TestSharedPrefix(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	p := painter(t, 1, flowSDE)
	passes := 0
	p.Progress = func(done, all int) {
		if passes = done; done > all {
			t.Errorf("%d of %d passes are done", done, all)
		}
	}
	together, err := p.Roll(trainer.Current, keys)
	if err != nil {
		t.Fatal(err)
	}
	if want := 2*(window[0]+1) + len(keys)*(steps-window[0]-1); passes != want {
		t.Errorf("two groups of two took %d passes, not %d", passes, want)
	}
	for i, k := range keys {
		alone, err := p.Roll(trainer.Current, []trainer.Key{k})
		if err != nil {
			t.Fatal(err)
		}
		if passes != steps {
			t.Errorf("a picture alone took %d passes", passes)
		}
		if a, b := alone[0].Decisions, together[i].Decisions; !slices.Equal(alone[0].Item.Final, together[i].Item.Final) || !slices.Equal(a.LogProb, b.LogProb) || !slices.Equal(a.Action[1], b.Action[1]) {
			t.Errorf("sample %d of prompt %d is another one in company", k.Sample, k.Prompt)
		}
	}
	p.Draws.Shared = false
	if _, err := p.Roll(trainer.Current, keys); err != nil || passes != steps*len(keys) {
		t.Errorf("groups that share nothing took %d passes (%v)", passes, err)
	}
}

// TestWeights: the reference is the model without its adapter, the old weights stay behind, and
// both come back when they are asked for.
func TestWeights(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	p := painter(t, 1, flowSDE, trainer.Reference, trainer.Old)
	point := []trainer.Point{{State: make([]float64, p.At.Len()), Time: 500}}
	for i := range point[0].State {
		point[0].State[i] = math.Sin(float64(i))
	}
	ask := func(w trainer.Weights) []float64 {
		t.Helper()
		a, err := p.Eval(w, point)
		if err != nil {
			t.Fatal(err)
		}
		return a.Outputs[0]
	}
	base := ask(trainer.Current)
	iterate(t, p, keys, 2)
	moved := ask(trainer.Current)
	if slices.Equal(base, moved) {
		t.Fatal("two updates moved nothing")
	}
	if !slices.Equal(ask(trainer.Reference), base) || !slices.Equal(ask(trainer.Old), base) {
		t.Error("reference or old weights are not where training began")
	}
	p.Params().Follow(trainer.Old, 0)
	if !slices.Equal(ask(trainer.Old), moved) || !slices.Equal(ask(trainer.Current), moved) {
		t.Error("old weights did not follow, or current ones were lost")
	}
	p.Params().Follow(trainer.Reference, 0)
	if !slices.Equal(ask(trainer.Reference), moved) {
		t.Error("a reference that is reset is not the current weights")
	}
	if _, err := p.Eval(trainer.Weights(9), point); err == nil {
		t.Error("weights that nobody keeps answered")
	}
}

// BenchmarkEval is a training step of a group's points: forward and backward.
func BenchmarkEval(b *testing.B) {
	p := painter(b, 1, flowSDE)
	points := make([]trainer.Point, 72)
	grads := make([][]float64, len(points))
	for i := range points {
		points[i] = trainer.Point{Key: trainer.Key{Prompt: i % 2}, State: make([]float64, p.At.Len()), Time: 500}
		grads[i] = make([]float64, p.At.Len())
		for k := range grads[i] {
			points[i].State[k], grads[i][k] = math.Sin(float64(k+i)), 1e-3*math.Cos(float64(k*i))
		}
	}
	for b.Loop() {
		a, err := p.Eval(trainer.Current, points)
		if err != nil {
			b.Fatal(err)
		}
		if err := a.Back(grads); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N*len(points)), "ms/point")
}

// TestKnownAnswers: outputs of a roll are not computed again before the weights move, and outputs and gradients are
// the same bytes as if they were; a network that would answer otherwise is an error.
func TestKnownAnswers(t *testing.T) {
	p := painter(t, 3, flowSDE)
	p.Micro = 2
	roll := func() (points []trainer.Point) {
		samples, err := p.Roll(trainer.Current, many()[:4])
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range samples {
			points = append(points, trainer.Point{Key: s.Key, State: s.Decisions.State[0], Time: s.Decisions.Time[0]})
		}
		return points
	}
	points := roll()
	// back goes forward and backward, and gives the bytes of outputs and gradients.
	back := func() (outputs [][]float64, grads []byte, err error) {
		forward, err := p.Eval(trainer.Current, points)
		if err != nil {
			return nil, nil, err
		}
		outputs = forward.Outputs
		if err := forward.Back(outputs); err != nil {
			return nil, nil, err
		}
		for _, w := range p.Moved() {
			g := w.Grad()
			grads = append(grads, g.Bytes()...)
			w.ZeroGrad()
		}
		return outputs, grads, nil
	}
	if n, all, err := p.Known(points); err != nil || all != 2 || n != 2 {
		t.Fatalf("%d of %d passes are known (%v)", n, all, err)
	}
	one, gradients, err := back()
	if err != nil {
		t.Fatal(err)
	}
	if other := slices.Clone(points); true {
		other[3].State = slices.Clone(other[3].State)
		if n, _, err := p.Known(other); err != nil || n != 1 {
			t.Errorf("%d passes with a state that was not rolled are known (%v)", n, err)
		}
	}
	p.Spoil()
	if _, _, err := back(); err == nil || !strings.Contains(err.Error(), "answers otherwise") {
		t.Errorf("other answers than were known: %v", err)
	}
	for _, w := range p.Moved() {
		w.ZeroGrad()
	}
	p.Unlearn()
	two, same, err := back()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(one, two, slices.Equal) || !bytes.Equal(gradients, same) {
		t.Error("what is known has other bytes than what is asked")
	}
	var said []trainer.Sample // as another process would roll them
	var outputs [][][]float64
	for i, at := range points {
		d := trainer.Decisions{Step: []int{0}, State: [][]float64{at.State}, Time: []float64{at.Time}}
		said, outputs = append(said, trainer.Sample{Key: at.Key, Decisions: d}), append(outputs, [][]float64{one[i]})
	}
	differs := 0
	told := func(trainer.Key) { differs++ }
	for _, wrong := range []bool{false, true} {
		for i, x := range one {
			if wrong {
				x = slices.Clone(x)
				x[0]++
			}
			outputs[i] = [][]float64{x}
		}
		p.Remember(said, outputs, told)
		if got := p.Recall(said[0]); got == nil || (got[0][0] != one[0][0]) != wrong {
			t.Error("another process's outputs are not remembered")
		}
		if _, _, err := back(); err != nil || (differs > 0) != wrong {
			t.Errorf("outputs of another process, one of them wrong: %v; %d calls, %v", wrong, differs, err)
		}
	}
	p.Unlearn()
	first := roll()
	points = roll()
	for name, of := range map[string][]trainer.Point{"the first portion": first, "the second": points} { // of a roll
		if n, _, err := p.Known(of); err != nil || n != 2 {
			t.Errorf("%d of 2 passes of %s are known (%v)", n, name, err)
		}
	}
	forward, err := p.Eval(trainer.Current, points)
	if err != nil {
		t.Fatal(err)
	}
	if err := forward.Back(forward.Outputs); err != nil {
		t.Fatal(err)
	}
	p.Params().Move(1, 1e-3)
	if n, _, err := p.Known(points); err != nil || n != 0 {
		t.Errorf("%d passes are known after the weights moved (%v)", n, err)
	}
}
