package fleet

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/vision"
)

// Card: samples as a safetensors file, of which no bit is lost. A list of numbers is a tensor, in fp32 where every
// number is one, else in float64; equal lists are there once, such as a step's choice and the next step's state.
// Pictures are PNG files; clips are developed by the trainer, of their last states. The rest is JSON in the file's
// metadata, which names tensors by number; there a conversation is what its model makes of it (model.Speaking).
//
// Equal samples have equal bytes, so results can be compared by their hashes.
//
// Invariants (tests): what comes back has the bits that were sent; what strangers send is refused or is samples of
// the keys that were asked for, and nothing else.

// samplesKey is the entry of the metadata.
const samplesKey = "samples"

// packed is what the metadata say.
type packed struct {
	Samples []packedSample `json:"samples"`
	Passes  *ledger.Passes `json:"passes,omitempty"` // of the network, for these samples
}

type packedSample struct {
	Key     trainer.Key `json:"key"`
	Size    [2]int      `json:"size"`
	Frames  int         `json:"frames,omitempty"`
	Final   int         `json:"final"`
	Picture int         `json:"picture"` // -1: none
	Steps   []int       `json:"steps,omitempty"`
	Times   int         `json:"times"`
	LogProb int         `json:"log_prob"`
	State   []int       `json:"state,omitempty"`
	Choice  []int       `json:"choice,omitempty"`
	Mean    []int       `json:"mean,omitempty"`
	Trained []bool      `json:"trained,omitempty"`
	Said    *packedSaid `json:"said,omitempty"`
}

// packedSaid is a conversation.
type packedSaid struct {
	Text     json.RawMessage `json:"text"`
	Pictures []int           `json:"pictures,omitempty"`
}

// packer collects tensors.
type packer struct {
	tensors []safetensors.Tensor
	lists   map[Hash]int
	says    model.Speaking
}

// Pack makes bytes of samples. says turns their conversations into texts; nil: they have none.
func Pack(samples []trainer.Sample, passes *ledger.Passes, says model.Speaking) ([]byte, error) {
	p := packer{lists: map[Hash]int{}, says: says}
	all := packed{Passes: passes}
	for _, s := range samples {
		one, err := p.sample(s)
		if err != nil {
			return nil, fmt.Errorf("packing sample %d of prompt %d: %w", s.Key.Sample, s.Key.Prompt, err)
		}
		all.Samples = append(all.Samples, one)
	}
	text, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	return safetensors.Bytes(p.tensors, map[string]string{samplesKey: string(text)})
}

func (p *packer) sample(s trainer.Sample) (packedSample, error) {
	d := s.Decisions
	one := packedSample{Key: s.Key, Size: s.Item.Size, Frames: s.Item.Frames, Picture: -1, Steps: d.Step, Trained: d.Trained}
	if d.Advantage != nil || d.Value != nil || d.Return != nil || d.Masked != nil || s.Reused {
		return one, errors.New("values, what is masked and reused samples do not travel")
	}
	one.Final, one.Times, one.LogProb = p.list(s.Item.Final), p.list(d.Time), p.list(d.LogProb)
	if s.Item.Episode != nil {
		return one, p.conversation(s, &one)
	}
	for k := range d.Step {
		one.State, one.Choice, one.Mean = append(one.State, p.list(d.State[k])), append(one.Choice, p.list(d.Choice[k])), append(one.Mean, p.list(d.Mean[k]))
	}
	var err error
	if s.Item.Image != nil {
		one.Picture, err = p.picture(s.Item.Image)
	}
	return one, err
}

// conversation packs what was said in a sample.
func (p *packer) conversation(s trainer.Sample, one *packedSample) error {
	if p.says == nil {
		return errors.New("it is a conversation, and the model makes no text of it")
	}
	said, err := p.says.Say(s)
	if err != nil {
		return err
	}
	one.Said = &packedSaid{Text: said.Text}
	for _, m := range said.Pictures {
		at, err := p.picture(m)
		if err != nil {
			return err
		}
		one.Said.Pictures = append(one.Said.Pictures, at)
	}
	return nil
}

// picture is the number of a picture.
func (p *packer) picture(m *vision.Image) (int, error) {
	var file bytes.Buffer
	if err := vision.EncodePNG(&file, m); err != nil {
		return 0, err
	}
	return p.add(safetensors.U8, file.Bytes(), file.Len()), nil
}

// add is the number of a tensor.
func (p *packer) add(d safetensors.DType, data []byte, n int) int {
	h := Hash(sha256.Sum256(append(data, byte(d))))
	if at, known := p.lists[h]; known {
		return at
	}
	at := len(p.tensors)
	p.lists[h] = at
	p.tensors = append(p.tensors, safetensors.Tensor{Name: strconv.Itoa(at), DType: d, Shape: []int{n}, Data: data})
	return at
}

// list is the number of a list's tensor.
func (p *packer) list(x []float64) int {
	narrow := !slices.ContainsFunc(x, func(v float64) bool {
		return math.Float64bits(float64(float32(v))) != math.Float64bits(v)
	})
	if !narrow {
		data := make([]byte, 0, 8*len(x)+1)
		for _, v := range x {
			data = binary.LittleEndian.AppendUint64(data, math.Float64bits(v))
		}
		return p.add(safetensors.F64, data, len(x))
	}
	data := make([]byte, 0, 4*len(x)+1)
	for _, v := range x {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(v)))
	}
	return p.add(safetensors.F32, data, len(x))
}
