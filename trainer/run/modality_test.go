package run

import (
	"context"
	"encoding/json"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/internal/rigs/toy"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/optim"
	"github.com/darkroom-rl/darkroom/vision"
)

// colours is a model of a modality of its own: a linear network of three numbers, which are a colour.
type colours struct {
	*toy.Policy
	dir   string
	draws trainer.Draws
}

func newColours(dir string) (*colours, error) {
	weights := make([]float64, 3*3+2*3)
	l, err := toy.NewLinear(3, weights, optim.Options{LR: 0.1, Betas: [2]float64{0.9, 0.999}, Eps: 1e-8})
	if err != nil {
		return nil, err
	}
	m := &colours{Policy: &toy.Policy{Linear: l}, dir: dir}
	normals := func(key rng.Key) []float64 {
		z := make([]float32, 3)
		key.Normal(z, 0)
		return []float64{float64(z[0]), float64(z[1]), float64(z[2])}
	}
	m.Start = func(k trainer.Key) []float64 { return normals(m.draws.Of("start", k)) }
	m.Noise = func(k trainer.Key, step int) []float64 { return normals(m.draws.Of("steps", k).Step(step)) }
	return m, nil
}

func (m *colours) Begin(settings experiment.Settings, root rng.Key, _ float64) error {
	m.Rows, m.Times, m.Trained, m.draws = settings.Rows, settings.Schedule.Timesteps, settings.Trained, trainer.Draws{Root: root}
	return nil
}

func (m *colours) Objective(settings experiment.Settings, _ trainer.Policy) (trainer.Objective, error) {
	return trainer.PolicyGradient{Rows: settings.Rows, Loss: settings.Kind().Steps(settings.Loss.Options)}, nil
}

func (m *colours) Fixed(_ context.Context, settings experiment.Settings, root rng.Key) trainer.Policy {
	fixed, p := &colours{Policy: nil, draws: trainer.Draws{Root: root, Fixed: true}}, *m.Policy
	p.Rows, p.Times, p.Trained = settings.Rows, settings.Schedule.Timesteps, nil
	fixed.Policy = &p
	return fixed
}

func (m *colours) Items(samples []trainer.Sample) ([]rewards.Item, error) {
	items := make([]rewards.Item, len(samples))
	for i, s := range samples {
		picture := vision.New(8, 8)
		for k := range picture.Pix {
			picture.Pix[k] = uint8(min(max(128+40*s.Item.Final[k%3]*float64(k%5), 0), 255))
		}
		items[i].Image = picture
	}
	return items, nil
}

func (m *colours) Credit(_ []trainer.Sample, _ []float64, b advantage.Batch, by advantage.Estimator) ([]float64, error) {
	a, _, err := by.Advantages(b)
	return a, err
}

func (m *colours) Check(trainer.Objective, []trainer.Sample) (*ledger.Check, error) { return nil, nil }
func (m *colours) Shape([]trainer.Sample, []float64)                                {}
func (m *colours) Describe(line *ledger.Line, _ *trainer.Report)                    { line.Diversity = 7 }
func (m *colours) Portion() int                                                     { return 1 }
func (m *colours) Passes() *ledger.Passes                                           { return nil }
func (m *colours) Files() []string                                                  { return []string{"colours.jsonl"} }
func (m *colours) Dir() string                                                      { return m.dir }
func (m *colours) Close() error                                                     { return nil }
func (m *colours) Settle(optim.Options, experiment.Moves)                           {}
func (m *colours) Tensors() ([]safetensors.Tensor, error)                           { return nil, nil }
func (m *colours) Load(*safetensors.File) error                                     { return nil }
func (m *colours) WriteAdapter(trainer.Weights, string) error                       { return nil }
func (m *colours) Bytes() int64                                                     { return 0 }
func (m *colours) Keeps(trainer.Weights) bool                                       { return false }
func (m *colours) Forget(trainer.Weights) error                                     { return nil }
func (m *colours) Moved() []*autograd.Param                                         { return nil }

func (m *colours) Record(to model.Outputs, line *ledger.Line, r *trainer.Report) (map[int]string, error) {
	return map[int]string{0: "images/none.png"}, to.Lines["colours.jsonl"].Append(map[string]any{"iteration": line.Iteration, "final": r.Samples[0].Item.Final})
}

// TestModality: a run trains whatever has the interface, and asks for nothing beside it.
func TestModality(t *testing.T) {
	dir := t.TempDir()
	var trained *colours
	m := model.Modality{
		Name:     "colours",
		Prompts:  func(e *experiment.Experiment) ([]prompts.Prompt, error) { return prompts.Open(e.Rollout.Prompts[0]) },
		Ready:    func(context.Context, *experiment.Experiment) (string, error) { return "ready", nil },
		Possible: func(experiment.Settings) error { return nil },
		Open: func(*experiment.Experiment, model.Options) (model.Model, error) {
			var err error
			trained, err = newColours(dir)
			return trained, err
		},
	}
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	e := parse(t, "run.iterations=3", "reward=[{name='jpeg'}]", "evaluate.every=2", "rollout.shared_noise=false")
	var said []string
	run := filepath.Join(dir, "run")
	result, err := runAs(t.Context(), m, e, Options{Dir: run, Backend: be, Logf: saying(&said)})
	if err != nil || result.Status != ledger.Finished || result.HeldOut["total"].After.Prompts != 2 {
		t.Fatalf("%+v, %v", result, err)
	}
	for i, l := range ledgerOf(t, run) {
		if l.Diversity != 7 || len(l.Updates) != 2 || !(l.Updates[0].Gradient > 0) || l.Updates[0].RatioMost != 1 {
			t.Errorf("iteration %d: %+v", i+1, l)
		}
	}
	text, err := os.ReadFile(filepath.Join(run, "colours.jsonl"))
	if err != nil || slices.Contains(text, 0) {
		t.Fatal(err)
	}
	checkHeldOut(t, run, result)
	var line struct{ Iteration int }
	if err := json.Unmarshal(text[:slices.Index(text, '\n')], &line); err != nil || line.Iteration != 1 {
		t.Errorf("%s: %v", text, err)
	}
	if len(trained.Moves) != 6 || !slices.Contains(said, "ready") {
		t.Errorf("%d moves; said %q", len(trained.Moves), fmt.Sprint(said))
	}
}

// checkHeldOut: an evaluation's samples are kept, and their mean is the one that the result has.
func checkHeldOut(t *testing.T, run string, result *ledger.Result) {
	t.Helper()
	all, err := ledger.ReadHeldOut(filepath.Join(run, ledger.HeldOutFile))
	if err != nil || len(all[0]) != 2 || len(all[2]) != 2 || len(all[3]) != 2 || len(all) != 3 {
		t.Fatalf("%v, %v", all, err)
	}
	file, err := os.Open(filepath.Join(run, "images", "heldout_before.png"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	sheet, err := png.DecodeConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	for iteration, want := range map[int]*ledger.Measure{0: result.HeldOut["jpeg"].Before, 3: result.HeldOut["total"].After} {
		sum := 0.0
		for i, l := range all[iteration] {
			if l.Prompt != i || l.Text == "" || *l.Number("jpeg") != *l.Total {
				t.Errorf("%+v", l)
			}
			if l.At == nil || l.At[2] <= 0 || l.At[0]+l.At[2] > sheet.Width || l.At[1]+l.At[3] > sheet.Height || i > 0 && *l.At == *all[iteration][i-1].At {
				t.Errorf("sample %d stands at %v of a sheet of %d x %d", i, l.At, sheet.Width, sheet.Height)
			}
			sum += *l.Number("total")
		}
		if sum/2 != want.Mean {
			t.Errorf("after iteration %d the mean is %v, and the result has %v", iteration, sum/2, want.Mean)
		}
	}
}
