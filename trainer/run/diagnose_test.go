package run

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/diagnosis"
)

// answering is a reward that says a number of each picture, whenever it is asked.
func answering(say func() float64) *httptest.Server {
	var lock sync.Mutex
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		defer lock.Unlock()
		var asked struct {
			Items []json.RawMessage `json:"items"`
		}
		_ = json.NewDecoder(r.Body).Decode(&asked)
		var said struct {
			Scores []float64 `json:"scores"`
		}
		for range asked.Items {
			said.Scores = append(said.Scores, say())
		}
		_ = json.NewEncoder(w).Encode(said)
	}))
}

// TestDiagnosis: each of five planted causes of a flat reward is named, by measurements, and an experiment without
// them has none.
func TestDiagnosis(t *testing.T) {
	if testing.Short() {
		t.Skip("trains a model three times; left out by -short")
	}
	unsteady, steady := answering(rand.New(rand.NewPCG(1, 2)).Float64), answering(func() float64 { return 0.5 })
	defer unsteady.Close()
	defer steady.Close()
	sound := []string{"run.iterations=1", "evaluate.every=0", "rollout.group=8", "rollout.prompts_per_iteration=1", `reward=[{name="jpeg"}]`, "optim.updates=1",
		"optim.lr=1e-4", `sampler.window={ kind = "random", size = 2, drop = 1 }`, "loss.clip_range=1e-2"}
	if found := causes(t, sound); len(found) > 0 {
		t.Errorf("nothing was planted, and %v found", found)
	}
	noisy, dead := []string{`reward=[{name="http", url="` + unsteady.URL + `"}]`}, []string{`reward=[{name="http", url="` + steady.URL + `"}]`}
	far := []string{`sampler.schedule={ kind = "shifted", shift = 40 }`, `sampler.window={ kind = "frozen", size = 1 }`}
	clip := []string{"loss.clip_range=1e-9", "loss.noise_floor=warn", "optim.lr=1e-3", "optim.updates=2"}
	planted := map[string][]string{ // several at once, since a run takes seconds
		"noise vanishing swallowed": slices.Concat(noisy, far, []string{"optim.lr=1e-14"}),
		"clip group":                append(clip, "rollout.group=3"),
	}
	if *long { // one by one: a minute
		planted = map[string][]string{"group": {"rollout.group=3"}, "dead": dead, "noise": noisy, "vanishing": far, "clip": clip, "swallowed": {"optim.lr=1e-14"}}
	} else {
		t.Log("causes are planted together; -long plants them one by one")
	}
	for names, sets := range planted {
		found := causes(t, slices.Concat(sound, sets))
		for _, cause := range strings.Fields(names) {
			if !found[cause] {
				t.Errorf("%s was planted, and %v found", cause, found)
			}
		}
		if len(found) != len(strings.Fields(names)) {
			t.Errorf("%s was planted, and %v found", names, found)
		}
	}
}

// causes are the findings of an experiment.
func causes(t *testing.T, sets []string) map[string]bool {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	be := fastest(t, 2)
	defer be.Close()
	if _, err := Run(t.Context(), parse(t, sets...), Options{Dir: dir, Backend: be, Twice: true, Logf: t.Logf}); err != nil {
		t.Fatal(err)
	}
	d, err := diagnosis.Read(filepath.Join(dir, diagnosis.File))
	if err != nil || d == nil {
		t.Fatalf("%+v, %v", d, err)
	}
	found := map[string]bool{}
	for _, f := range d.Findings {
		found[f.Cause] = true
	}
	if len(d.Keeps) == 0 || d.Noise == nil || d.Dead < d.Groups && (d.Ratios == nil || d.Element == nil) {
		t.Errorf("not measured: %+v", d)
	}
	return found
}

// TestDiagnosisOfNothing: a first update that breaks the policy leaves numbers that JSON has no word for. They are left
// out of the diagnosis, and the run goes on.
func TestDiagnosisOfNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if r, err := train(t, parse(t, "run.iterations=1", "evaluate.every=0", "evaluate.prompts=''", "optim.lr=1e30", "optim.updates=1"), dir, false, 2, -1); err != nil || r.Status != ledger.Finished {
		t.Fatalf("%+v, %v", r, err)
	}
	if d, err := diagnosis.Read(filepath.Join(dir, diagnosis.File)); err != nil || d == nil || d.Ratios != nil || d.Element == nil {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestDiagnosisOfPairs: a run whose pairs are compared with each other gets no hint about its groups' mean.
func TestDiagnosisOfPairs(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	dir := t.TempDir()
	if _, err := train(t, parse(t, "run.iterations=1", "evaluate.every=0", "loss.objective=dpo", "advantage.estimator=ends", "rollout.group=2", "optim.updates=1"), dir, false, 2, -1); err != nil {
		t.Fatal(err)
	}
	d, err := diagnosis.Read(filepath.Join(dir, diagnosis.File))
	if err != nil || d == nil || !d.Apart || len(d.Findings) > 0 {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestPartsOf: a term of a total is measured with its weight and scale, inside groups.
func TestPartsOf(t *testing.T) {
	samples := []trainer.Sample{{Key: trainer.Key{Prompt: 0}}, {Key: trainer.Key{Prompt: 0, Sample: 1}}, {Key: trainer.Key{Prompt: 1}}, {Key: trainer.Key{Prompt: 1, Sample: 1}}}
	c := rewards.Combination{Parts: []rewards.Part{{Name: "jpeg", Weight: 0.5}, {Name: "ocr", Weight: -2, Scale: rewards.Scale{Kind: "range", Low: 0, High: 10}}}}
	got, err := partsOf(c, make([]prompts.Prompt, 4), samples, &scores{trained: [][]float64{{10, 14, 100, 104}, {0, 10, 5, 5}}})
	if err != nil || len(got) != 2 || got[0] != (diagnosis.Part{Name: "jpeg", Spread: 1}) || got[1] != (diagnosis.Part{Name: "ocr", Spread: 0.5}) {
		t.Errorf("%+v, %v", got, err)
	}
	own := prompts.Prompt{Weights: map[string]float64{"jpeg": 2, "ocr": 0}} // of the first group
	got, err = partsOf(c, []prompts.Prompt{own, own, {}, {}}, samples, &scores{trained: [][]float64{{10, 14, 100, 104}, {0, 10, 5, 25}}})
	if err != nil || len(got) != 2 || got[0] != (diagnosis.Part{Name: "jpeg", Spread: 2.5}) || got[1] != (diagnosis.Part{Name: "ocr", Spread: 1}) {
		t.Errorf("with weights of prompts: %+v, %v", got, err)
	}
	c.Parts = c.Parts[:1]
	if got, err := partsOf(c, nil, samples, &scores{trained: [][]float64{{1, 2, 3, 4}}}); err != nil || got != nil {
		t.Errorf("of one reward: %+v, %v", got, err)
	}
}
