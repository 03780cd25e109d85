package run

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/ledger"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
)

// What a checkpoint holds of the choice: the place in the list of prompts, the curriculum's
// successes, and the buffer's samples, whose numbers are tensors in float64 (choice_episodes.go has episodes).

// choiceState is the part in state.json.
type choiceState struct {
	Place int            `json:"place,omitempty"`
	Known []*float64     `json:"known,omitempty"` // null: never rolled
	Skips *prompts.Skips `json:"skips,omitempty"`
	Kept  []groupState   `json:"kept,omitempty"`

	Banned []int `json:"banned,omitempty"`
}

type groupState struct {
	Iteration int           `json:"iteration"`
	Prompt    int           `json:"prompt"`
	Samples   []sampleState `json:"samples"`
}

// sampleState is all of a sample but its numbers.
type sampleState struct {
	Sample  int     `json:"sample"`
	Worth   float64 `json:"worth"`
	Steps   []int   `json:"steps"`
	Trained []bool  `json:"trained"`

	Episode *episodeState `json:"episode,omitempty"` // nil: it is a picture, or a clip
}

// state is nil where nothing was chosen. says makes texts of episodes; nil: there are none.
func (c *choice) state(says model.Speaking) (*choiceState, []safetensors.Tensor, error) {
	s := &choiceState{Place: c.place, Skips: c.skips, Banned: slices.Clone(c.banned)}
	learned := false
	for _, v := range c.known {
		s.Known = append(s.Known, ledger.Number(v))
		learned = learned || !math.IsNaN(v)
	}
	if !learned {
		s.Known = nil
	}
	var tensors []safetensors.Tensor
	for n, g := range c.buffer.Kept {
		one := groupState{Iteration: g.Iteration(), Prompt: g.Samples[0].Key.Prompt}
		for k, sample := range g.Samples {
			kept, its, err := keepSample(keptName(n, k), sample, g.Worth[k], says)
			if err != nil {
				return nil, nil, fmt.Errorf("keeping sample %d of prompt %d for later: %w", sample.Key.Sample, one.Prompt, err)
			}
			one.Samples, tensors = append(one.Samples, kept), append(tensors, its...)
		}
		s.Kept = append(s.Kept, one)
	}
	if s.Place == 0 && s.Known == nil && s.Skips == nil && s.Kept == nil && s.Banned == nil {
		return nil, nil, nil
	}
	return s, tensors, nil
}

// keepSample is a sample's state, and its tensors.
func keepSample(name string, s trainer.Sample, worth float64, says model.Speaking) (kept sampleState, tensors []safetensors.Tensor, err error) {
	kept = sampleState{Sample: s.Key.Sample, Worth: worth, Steps: s.Decisions.Step, Trained: s.Decisions.Trained}
	if s.Item.Episode == nil {
		return kept, []safetensors.Tensor{wide(name, numbersOf(s))}, nil
	}
	kept.Episode, tensors, err = keepEpisode(name, s, says)
	return kept, tensors, err
}

func keptName(group, sample int) string { return fmt.Sprintf("kept.%d.%d", group, sample) }

// load is the way back.
func (c *choice) load(s *choiceState, f *safetensors.File, hears model.Speaking) error {
	c.place, c.skips, c.banned, c.buffer.Kept, c.known = 0, nil, nil, nil, prompts.NewSuccesses(len(c.known))
	if s == nil {
		return nil
	}
	if s.Known != nil && len(s.Known) != len(c.known) {
		return fmt.Errorf("successes of %d prompts, and there are %d", len(s.Known), len(c.known))
	}
	if s.Skips != nil && len(s.Skips.Solved) != len(c.known) {
		return fmt.Errorf("visits of %d prompts, and there are %d", len(s.Skips.Solved), len(c.known))
	}
	c.place, c.skips, c.banned = s.Place, s.Skips, slices.Clone(s.Banned)
	for i, v := range s.Known {
		if v != nil {
			c.known[i] = *v
		}
	}
	for n, g := range s.Kept {
		var group trainer.Group
		for k, one := range g.Samples {
			key := trainer.Key{Iteration: g.Iteration, Prompt: g.Prompt, Sample: one.Sample}
			sample, err := one.restored(keptName(n, k), key, f, hears)
			if err != nil {
				return fmt.Errorf("%s: %w", keptName(n, k), err)
			}
			group.Samples, group.Worth = append(group.Samples, sample), append(group.Worth, one.Worth)
		}
		if len(group.Samples) == 0 {
			return errors.New("a kept group without samples")
		}
		c.buffer.Kept = append(c.buffer.Kept, group)
	}
	return nil
}

// restored is a sample with its key.
func (s sampleState) restored(name string, key trainer.Key, f *safetensors.File, hears model.Speaking) (trainer.Sample, error) {
	if s.Episode != nil {
		return s.heardAgain(name, key, f, hears)
	}
	tensor, err := f.Tensor(name)
	if err != nil {
		return trainer.Sample{}, err
	}
	out, err := s.sample(tensor)
	out.Key = key
	return out, err
}

// numbersOf are a sample's: its last state, then of every decision the time and the log-probability,
// and the state, the choice and the mean.
func numbersOf(s trainer.Sample) []float64 {
	d := s.Decisions
	all := append([]float64{}, s.Item.Final...)
	for k := range d.Step {
		all = append(append(append(append(all, d.Time[k], d.LogProb[k]), d.State[k]...), d.Choice[k]...), d.Mean[k]...)
	}
	return all
}

// sample takes the numbers apart again.
func (s sampleState) sample(t safetensors.Tensor) (trainer.Sample, error) {
	var out trainer.Sample
	n := len(s.Steps)
	total := t.Len()
	size := (total - 2*n) / (1 + 3*n)
	if t.DType != safetensors.F64 || len(s.Trained) != n || size < 1 || size+n*(2+3*size) != total {
		return out, fmt.Errorf("%d numbers are not those of %d decisions", total, n)
	}
	at := 0
	take := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = math.Float64frombits(binary.LittleEndian.Uint64(t.Data[8*(at+i):]))
		}
		at += n
		return x
	}
	out.Item.Final = take(size)
	d := &out.Decisions
	d.Step, d.Trained = s.Steps, s.Trained
	for range n {
		two := take(2)
		d.Time, d.LogProb = append(d.Time, two[0]), append(d.LogProb, two[1])
		d.State, d.Choice, d.Mean = append(d.State, take(size)), append(d.Choice, take(size)), append(d.Mean, take(size))
	}
	return out, nil
}

// wide is a tensor in float64.
func wide(name string, x []float64) safetensors.Tensor {
	data := make([]byte, 0, 8*len(x))
	for _, v := range x {
		data = binary.LittleEndian.AppendUint64(data, math.Float64bits(v))
	}
	return safetensors.Tensor{Name: name, DType: safetensors.F64, Shape: []int{len(x)}, Data: data}
}
