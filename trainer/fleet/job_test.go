package fleet

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer"
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
