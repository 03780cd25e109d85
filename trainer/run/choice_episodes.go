package run

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/vision"
)

// An episode of the buffer, as a checkpoint holds it. What was said is the text that also travels between processes
// (model.Speaking), in a tensor of bytes; pictures that only a program could draw again are PNG files; what its tokens
// are worth and how likely they were is a tensor in float64.

// episodeState is the part of an episode in state.json.
type episodeState struct {
	Pictures  int  `json:"pictures,omitempty"`
	Advantage bool `json:"advantage,omitempty"` // its tokens have advantages of their own
	Values    bool `json:"values,omitempty"`    // and what a head of values said, and what came
	Masked    bool `json:"masked,omitempty"`    // and how likely they were behind masked pictures
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

// heardAgain is the way back: a sample whose key is known.
func (s sampleState) heardAgain(name string, key trainer.Key, f *safetensors.File, hears model.Speaking) (out trainer.Sample, err error) {
	if hears == nil {
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
	err = hears.Hear(one, []model.Said{said})
	return one[0], err
}

func saidName(name string) string            { return name + ".said" }
func pictureName(name string, at int) string { return fmt.Sprintf("%s.picture.%d", name, at) }
func raw(name string, b []byte) safetensors.Tensor {
	return safetensors.Tensor{Name: name, DType: safetensors.U8, Shape: []int{len(b)}, Data: b}
}
