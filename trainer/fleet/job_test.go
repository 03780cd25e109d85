package fleet

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// TestNames: whatever decides the bits of a result decides its job's name, and a job that has travelled has the
// same.
func TestNames(t *testing.T) {
	base := Job{Setup: Blob{Hash{1}, 1}, Weights: Blob{Hash{2}, 2}, How: How{Iteration: 3, Root: rng.New(1 << 63).Attempt(2)}, Keys: []Keys{{3, 5, 0, 4}}}
	seen := map[Hash]int{base.Name(): -1}
	for i, change := range []func(j *Job){
		func(j *Job) { j.Setup.Hash[31]++ },
		func(j *Job) { j.Setup.Size++ },
		func(j *Job) { j.Weights.Hash[31]++ },
		func(j *Job) { j.How.Iteration++ },
		func(j *Job) { j.How.Evaluates = true },
		func(j *Job) { j.How.Guidance = 0.1 },
		func(j *Job) { j.How.Fixed = true },
		func(j *Job) { j.How.Root.Stream++ },
		func(j *Job) { j.How.Root.Philox++ },
		func(j *Job) { j.Keys[0].Iteration++ },
		func(j *Job) { j.Keys[0].Prompt++ },
		func(j *Job) { j.Keys[0].First++ },
		func(j *Job) { j.Keys[0].Samples++ },
		func(j *Job) { j.Recalls = true },
		func(j *Job) { j.Keys = append(j.Keys, Keys{3, 6, 0, 1}) },
	} {
		j := base
		j.Keys = slices.Clone(base.Keys)
		change(&j)
		if other, taken := seen[j.Name()]; taken {
			t.Errorf("changes %d and %d have one name", i, other)
		}
		seen[j.Name()] = i
	}
	base.Ahead = []int{5, 6}
	if seen[base.Name()] != -1 {
		t.Error("what follows a job changes its name")
	}
	text, err := json.Marshal(base)
	if err != nil {
		t.Fatal(err)
	}
	var back Job
	if err := json.Unmarshal(text, &back); err != nil || back.Name() != base.Name() || !reflect.DeepEqual(back, base) {
		t.Errorf("%v, %+v", err, back)
	}
	if err := json.Unmarshal([]byte(`"ab"`), &back.Setup.Hash); err == nil {
		t.Error("a short hash was taken")
	}
}

// TestSplit: groups stay together and in order, and a job's keys come back.
func TestSplit(t *testing.T) {
	var keys []trainer.Key
	for p := range 5 {
		for s := range 3 {
			keys = append(keys, trainer.Key{Iteration: 2, Prompt: 10 * p, Sample: s})
		}
	}
	for least, want := range map[int][]int{1: {3, 3, 3, 3, 3}, 4: {6, 6, 3}, 100: {15}} {
		var sizes []int
		var back []trainer.Key
		for _, part := range Split(keys, least) {
			j := Job{Keys: runsOf(part)}
			if j.Samples() != len(part) || len(j.Keys) != len(part)/3 {
				t.Errorf("%d samples in %d runs, of %d keys", j.Samples(), len(j.Keys), len(part))
			}
			sizes, back = append(sizes, len(part)), append(back, j.All()...)
		}
		if !slices.Equal(sizes, want) || !slices.Equal(back, keys) {
			t.Errorf("at least %d: %v, want %v", least, sizes, want)
		}
	}
	odd := []trainer.Key{{Prompt: 1, Sample: 2}, {Prompt: 1, Sample: 1}, {Prompt: 1, Sample: 2}}
	if back := (Job{Keys: runsOf(odd)}).All(); !slices.Equal(back, odd) {
		t.Errorf("keys in no order come back as %v", back)
	}
	if len(Split(nil, 1)) != 0 {
		t.Error("no keys are a part")
	}
}

// TestAhead: each job names its own prompts and those that follow, of the roll and behind it, up to a number of them.
func TestAhead(t *testing.T) {
	var keys []trainer.Key
	for p := range 2 * mostAhead {
		keys = append(keys, trainer.Key{Prompt: 1000 - p}, trainer.Key{Prompt: 1000 - p, Sample: 1})
	}
	m := &Model{next: func() []int { return []int{1000, 7, 8} }}
	jobs := m.jobsOf(Blob{}, How{}, keys)
	first, last := jobs[0].Ahead, jobs[len(jobs)-1].Ahead
	if len(jobs) != 2*mostAhead || len(first) != mostAhead || first[0] != 1000 || first[1] != 999 || !slices.Equal(last, []int{1001 - 2*mostAhead, 7, 8}) {
		t.Errorf("%d jobs; the first names %d prompts from %v, the last %v", len(jobs), len(first), first[:2], last)
	}
}

// weighed is a model that counts how often its weights are asked for.
type weighed struct {
	model.Model
	model.Remote
	asked int
	value float32
}

func (w *weighed) Values(trainer.Weights) ([]safetensors.Tensor, error) {
	w.asked++
	return []safetensors.Tensor{safetensors.FromF32("w", []int{1}, []float32{w.value})}, nil
}

func (w *weighed) Params() trainer.Params          { return w }
func (w *weighed) Norm() (float64, error)          { return 0, nil }
func (w *weighed) Move(_, rate float64)            { w.value += float32(rate) }
func (w *weighed) Follow(trainer.Weights, float64) {}
func (w *weighed) Skip()                           {}

// TestPublishedOnce: weights are made ready to travel once for all rolls between two updates.
func TestPublishedOnce(t *testing.T) {
	own := &weighed{}
	m := &Model{Model: own, travels: own, e: &experiment.Experiment{}, fleet: New(Options{Hub: NewInside()}), published: map[trainer.Weights]Blob{}}
	publish := func() Blob {
		t.Helper()
		b, ok, err := m.publish(t.Context(), trainer.Current)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		return b
	}
	first := publish()
	if again := publish(); again != first || own.asked != 1 {
		t.Errorf("weights that did not change were asked for %d times", own.asked)
	}
	m.Params().Move(1, 0.5)
	if next := publish(); next == first || own.asked != 2 {
		t.Errorf("after an update, %d times", own.asked)
	}
	m.Params().Follow(trainer.Old, 0.5)
	if publish(); own.asked != 3 {
		t.Errorf("after weights followed, %d times", own.asked)
	}
	for range mostWeights + 1 { // until the first of them is dropped
		m.Params().Move(1, 0.5)
		publish()
	}
}

// thrifty is a model that goes on where memory runs out.
type thrifty struct {
	model.Model
	trainer.Thrifty
	tries int
}

func (m *thrifty) Attempt(f func() error) error {
	m.tries++
	return f()
}

// TestAttempt: a model behind a fleet goes on where the one that computes does.
func TestAttempt(t *testing.T) {
	own, failed := &thrifty{}, errors.New("failed")
	var p trainer.Policy = &Model{Model: own}
	if err := p.(trainer.Thrifty).Attempt(func() error { return failed }); err != failed || own.tries != 1 {
		t.Errorf("%d tries, %v", own.tries, err)
	}
}
