package fleet

import (
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

// unpacker reads tensors, each once.
type unpacker struct {
	file  *safetensors.File
	lists map[int][]float64
}

// Unpack reads what Pack wrote. The samples must be those of the keys, and their numbers finite. hears makes
// conversations of texts; nil: there are none.
func Unpack(data []byte, keys []trainer.Key, hears model.Speaking) ([]trainer.Sample, *ledger.Passes, error) {
	f, err := safetensors.Read("a worker's result", data)
	if err != nil {
		return nil, nil, err
	}
	var all packed
	if err := json.Unmarshal([]byte(f.Metadata[samplesKey]), &all); err != nil {
		return nil, nil, fmt.Errorf("a worker's result: %w", err)
	}
	if len(all.Samples) != len(keys) {
		return nil, nil, fmt.Errorf("a worker's result has %d samples, and %d were asked for", len(all.Samples), len(keys))
	}
	u := unpacker{f, map[int][]float64{}}
	samples := make([]trainer.Sample, len(keys))
	var said []model.Said
	for i, one := range all.Samples {
		if one.Key != keys[i] {
			return nil, nil, fmt.Errorf("a worker's result has the sample %v, and %v was asked for", one.Key, keys[i])
		}
		if samples[i], err = u.sample(one); err != nil {
			return nil, nil, fmt.Errorf("a worker's result, sample %d of prompt %d: %w", one.Key.Sample, one.Key.Prompt, err)
		}
		if (one.Said != nil) != (hears != nil) {
			return nil, nil, fmt.Errorf("a worker's result: sample %d of prompt %d is of another kind", one.Key.Sample, one.Key.Prompt)
		}
		if one.Said != nil {
			what, err := u.conversation(*one.Said)
			if err != nil {
				return nil, nil, fmt.Errorf("a worker's result, sample %d of prompt %d: %w", one.Key.Sample, one.Key.Prompt, err)
			}
			said = append(said, what)
		}
	}
	if hears != nil {
		if err := hears.Hear(samples, said); err != nil {
			return nil, nil, fmt.Errorf("a worker's result: %w", err)
		}
	}
	return samples, all.Passes, nil
}

// conversation reads what was said in a sample.
func (u unpacker) conversation(one packedSaid) (said model.Said, err error) {
	said.Text = one.Text
	for _, at := range one.Pictures {
		m, err := u.picture(at)
		if err != nil {
			return said, err
		}
		said.Pictures = append(said.Pictures, m)
	}
	return said, nil
}

func (u unpacker) sample(one packedSample) (s trainer.Sample, err error) {
	n := len(one.Steps)
	if one.Said != nil {
		return u.spoken(one)
	}
	if len(one.State) != n || len(one.Choice) != n || len(one.Mean) != n || len(one.Trained) != n {
		return s, errors.New("its decisions do not fit each other")
	}
	s.Key, s.Item.Size, s.Item.Frames = one.Key, one.Size, one.Frames
	if s.Item.Final, err = u.list(one.Final, -1); err != nil {
		return s, err
	}
	size, d := len(s.Item.Final), &s.Decisions
	d.Step, d.Trained = one.Steps, one.Trained
	if d.Time, err = u.list(one.Times, n); err != nil {
		return s, err
	}
	if d.LogProb, err = u.list(one.LogProb, n); err != nil {
		return s, err
	}
	if n == 0 {
		d.Time, d.LogProb = nil, nil
	}
	for k := range n {
		for _, x := range []struct {
			to   *[][]float64
			from int
		}{{&d.State, one.State[k]}, {&d.Choice, one.Choice[k]}, {&d.Mean, one.Mean[k]}} {
			list, err := u.list(x.from, size)
			if err != nil {
				return s, err
			}
			*x.to = append(*x.to, list)
		}
	}
	if one.Picture >= 0 {
		s.Item.Image, err = u.picture(one.Picture)
		if m := s.Item.Image; err == nil && (m.Width != one.Size[0] || m.Height != one.Size[1]) {
			err = fmt.Errorf("a picture of %d x %d, not %d x %d", m.Width, m.Height, one.Size[0], one.Size[1])
		}
	}
	return s, err
}

// spoken reads the decisions of a conversation, which are tokens.
func (u unpacker) spoken(one packedSample) (s trainer.Sample, err error) {
	if len(one.State)+len(one.Choice)+len(one.Mean) > 0 || len(one.Trained) != len(one.Steps) {
		return s, errors.New("its decisions do not fit each other")
	}
	s.Key, s.Decisions.Step, s.Decisions.Trained = one.Key, one.Steps, one.Trained
	if len(one.Steps) > 0 {
		s.Decisions.LogProb, err = u.list(one.LogProb, len(one.Steps))
	}
	return s, err
}

// list reads so many numbers, all finite; -1: as many as there are.
func (u unpacker) list(at, n int) ([]float64, error) {
	x, known := u.lists[at]
	if !known {
		t, err := u.file.Tensor(strconv.Itoa(at))
		if err != nil {
			return nil, err
		}
		if x, err = numbersOf(t); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(x, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }) {
			return nil, errors.New("it holds numbers that are infinite or none")
		}
		u.lists[at] = x
	}
	if n >= 0 && len(x) != n {
		return nil, fmt.Errorf("a list has %d numbers, not %d", len(x), n)
	}
	return x, nil
}

func numbersOf(t safetensors.Tensor) ([]float64, error) {
	x := make([]float64, t.Len())
	switch t.DType {
	case safetensors.F32:
		for i := range x {
			x[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:])))
		}
	case safetensors.F64:
		for i := range x {
			x[i] = math.Float64frombits(binary.LittleEndian.Uint64(t.Data[8*i:]))
		}
	default:
		return nil, fmt.Errorf("a list of %s, and F32 and F64 are possible", t.DType)
	}
	return x, nil
}

// picture reads a PNG file.
func (u unpacker) picture(at int) (*vision.Image, error) {
	t, err := u.file.Tensor(strconv.Itoa(at))
	if err != nil {
		return nil, err
	}
	return vision.Decode(t.Data, vision.Limits{})
}
