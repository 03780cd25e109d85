package run

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/vision"
)

// A checkpoint holds of a selection the place in the list of prompts, the curriculum's successes, and the buffer's
// samples. The numbers of pictures and clips are tensors in float64.
//
// An episode of the buffer is the text that also travels between processes (model.Speaking), in a tensor of bytes;
// pictures that only a program could draw again are PNG files; the numbers of its tokens are a tensor in float64.

// selectionState is the part in state.json.
type selectionState struct {
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

	Episode *episodeState `json:"episode,omitempty"` // nil: the sample is a picture, or a clip
}

// state is nil where nothing was selected. says makes texts of episodes; nil: there are none.
func (c *selection) state(says model.Speaking) (*selectionState, []safetensors.Tensor, error) {
	s := &selectionState{Place: c.place, Skips: c.skips, Banned: slices.Clone(c.banned)}
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
func (c *selection) load(s *selectionState, f *safetensors.File, reads model.Speaking) error {
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
			sample, err := one.restored(keptName(n, k), key, f, reads)
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
func (s sampleState) restored(name string, key trainer.Key, f *safetensors.File, reads model.Speaking) (trainer.Sample, error) {
	if s.Episode != nil {
		return s.episode(name, key, f, reads)
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

// episodeState is the part of an episode in state.json.
type episodeState struct {
	Pictures  int  `json:"pictures,omitempty"`
	Advantage bool `json:"advantage,omitempty"` // its tokens have advantages of their own
	Values    bool `json:"values,omitempty"`    // and values of a value head, and returns
	Masked    bool `json:"masked,omitempty"`    // and log-probabilities behind masked pictures
}

// lists are the numbers of an episode's tokens, as they are stored one behind another.
func (e episodeState) lists(d *trainer.Decisions) []*[]float64 {
	all := []*[]float64{&d.LogProb}
	if e.Advantage {
		all = append(all, &d.Advantage)
	}
	if e.Values {
		all = append(all, &d.Value, &d.Return)
	}
	if e.Masked {
		all = append(all, &d.Masked)
	}
	return all
}

// keepEpisode is an episode's state, and its tensors.
func keepEpisode(name string, s trainer.Sample, says model.Speaking) (*episodeState, []safetensors.Tensor, error) {
	if says == nil {
		return nil, nil, errors.New("the model makes no text of its episodes, which rollout.buffer keeps")
	}
	said, err := says.Say(s)
	if err != nil {
		return nil, nil, err
	}
	d := s.Decisions
	e := &episodeState{Pictures: len(said.Pictures), Advantage: d.Advantage != nil, Values: d.Value != nil, Masked: d.Masked != nil}
	var numbers []float64
	for _, list := range e.lists(&d) {
		numbers = append(numbers, *list...)
	}
	all := []safetensors.Tensor{wide(name, numbers), raw(saidName(name), said.Text)}
	for i, m := range said.Pictures {
		var file bytes.Buffer
		if err := vision.EncodePNG(&file, m); err != nil {
			return nil, nil, err
		}
		all = append(all, raw(pictureName(name, i), file.Bytes()))
	}
	return e, all, nil
}

// episode is the way back: a sample whose key is known.
func (s sampleState) episode(name string, key trainer.Key, f *safetensors.File, reads model.Speaking) (out trainer.Sample, err error) {
	if reads == nil {
		return out, errors.New("the checkpoint keeps an episode, and the model has none")
	}
	numbers, err := f.Tensor(name)
	if err != nil {
		return out, err
	}
	d := trainer.Decisions{Step: s.Steps, Trained: s.Trained}
	lists, n := s.Episode.lists(&d), len(s.Steps)
	if numbers.DType != safetensors.F64 || numbers.Len() != n*len(lists) || len(s.Trained) != n {
		return out, fmt.Errorf("%d numbers are not those of %d tokens", numbers.Len(), n)
	}
	for i, list := range lists {
		for k := range n {
			*list = append(*list, math.Float64frombits(binary.LittleEndian.Uint64(numbers.Data[8*(i*n+k):])))
		}
	}
	text, err := f.Tensor(saidName(name))
	if err != nil {
		return out, err
	}
	said := model.Said{Text: bytes.Clone(text.Data)}
	for i := range s.Episode.Pictures {
		file, err := f.Tensor(pictureName(name, i))
		if err != nil {
			return out, err
		}
		m, err := vision.Decode(file.Data, vision.Limits{})
		if err != nil {
			return out, fmt.Errorf("%s: %w", pictureName(name, i), err)
		}
		said.Pictures = append(said.Pictures, m)
	}
	one := []trainer.Sample{{Key: key, Decisions: d}}
	err = reads.Hear(one, []model.Said{said})
	return one[0], err
}

func saidName(name string) string            { return name + ".said" }
func pictureName(name string, at int) string { return fmt.Sprintf("%s.picture.%d", name, at) }
func raw(name string, b []byte) safetensors.Tensor {
	return safetensors.Tensor{Name: name, DType: safetensors.U8, Shape: []int{len(b)}, Data: b}
}
