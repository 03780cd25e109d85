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
// Where a job asks for them (Job.Recalls), the network's outputs at decisions travel in the place of their means.
// Pictures are PNG files; clips are developed by the trainer, of their last states. The rest is JSON in the file's
// metadata, which names tensors by number; there a conversation is in its model's encoding (model.EpisodeCodec).
//
// Equal samples have equal bytes, so results can be compared by their hashes.
//
// Invariants (tests): unpacked samples have the bits of the packed ones; strangers' bytes are refused or are samples
// of the given keys, and nothing else.

// samplesKey is the entry of the metadata.
const samplesKey = "samples"

// packed is the metadata.
type packed struct {
	Samples []packedSample `json:"samples"`
	Passes  *ledger.Passes `json:"passes,omitempty"` // of the network, for these samples
}

type packedSample struct {
	Key     trainer.Key    `json:"key"`
	Size    [2]int         `json:"size"`
	Frames  int            `json:"frames,omitempty"`
	Final   int            `json:"final"`
	Picture int            `json:"picture"` // -1: none
	Steps   []int          `json:"steps,omitempty"`
	Times   int            `json:"times"`
	LogProb int            `json:"log_prob"`
	State   []int          `json:"state,omitempty"`
	Action  []int          `json:"choice,omitempty"`
	Mean    []int          `json:"mean,omitempty"`
	Output  []int          `json:"output,omitempty"` // in the place of means that follow from it
	Trained []bool         `json:"trained,omitempty"`
	Episode *packedEpisode `json:"said,omitempty"`
}

// packedSaid is a conversation.
type packedEpisode struct {
	Text     json.RawMessage `json:"text"`
	Pictures []int           `json:"pictures,omitempty"`
}

// packer collects tensors.
type packer struct {
	tensors []safetensors.Tensor
	lists   map[Hash]int
	says    model.EpisodeCodec
}

// A Result is the samples of a job.
type Result struct {
	Samples []trainer.Sample
	Passes  *ledger.Passes // nil: not counted
	// Outputs are the network's at decisions, by sample. A sample with outputs has no means, which follow from these. nil:
	// no sample has some.
	Outputs [][][]float64
}

// outputs are a sample's; nil: it has none.
func (r Result) outputs(sample int) [][]float64 {
	if r.Outputs == nil {
		return nil
	}
	return r.Outputs[sample]
}

// Pack makes bytes of samples. says turns their conversations into texts; nil: they have none.
func Pack(r Result, says model.EpisodeCodec) ([]byte, error) {
	p := packer{lists: map[Hash]int{}, says: says}
	all := packed{Passes: r.Passes}
	for i, s := range r.Samples {
		one, err := p.sample(s, r.outputs(i))
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

func (p *packer) sample(s trainer.Sample, outputs [][]float64) (packedSample, error) {
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
		one.State, one.Action = append(one.State, p.list(d.State[k])), append(one.Action, p.list(d.Action[k]))
		if outputs != nil {
			one.Output = append(one.Output, p.list(outputs[k]))
		} else {
			one.Mean = append(one.Mean, p.list(d.Mean[k]))
		}
	}
	var err error
	if s.Item.Image != nil {
		one.Picture, err = p.picture(s.Item.Image)
	}
	return one, err
}

// conversation packs a sample's conversation.
func (p *packer) conversation(s trainer.Sample, one *packedSample) error {
	if p.says == nil {
		return errors.New("it is a conversation, and the model makes no text of it")
	}
	said, err := p.says.Encode(s)
	if err != nil {
		return err
	}
	one.Episode = &packedEpisode{Text: said.Text}
	for _, m := range said.Pictures {
		at, err := p.picture(m)
		if err != nil {
			return err
		}
		one.Episode.Pictures = append(one.Episode.Pictures, at)
	}
	return nil
}

// picture is the number of a picture.
func (p *packer) picture(m *vision.Image) (int, error) {
	var file bytes.Buffer
	if err := vision.EncodeQuickPNG(&file, m); err != nil {
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

// unpacker reads tensors, each once.
type unpacker struct {
	file  *safetensors.File
	lists map[int][]float64
}

// Unpack reads the file of Pack. The samples must be those of the keys, and their numbers finite. hears decodes
// conversations; nil: samples without any.
func Unpack(data []byte, keys []trainer.Key, hears model.EpisodeCodec) (r Result, err error) {
	f, err := safetensors.Read("a worker's result", data)
	if err != nil {
		return r, err
	}
	var all packed
	if err := json.Unmarshal([]byte(f.Metadata[samplesKey]), &all); err != nil {
		return r, fmt.Errorf("a worker's result: %w", err)
	}
	if len(all.Samples) != len(keys) {
		return r, fmt.Errorf("a worker's result has %d samples, and %d were asked for", len(all.Samples), len(keys))
	}
	u := unpacker{f, map[int][]float64{}}
	samples := make([]trainer.Sample, len(keys))
	var said []model.EncodedEpisode
	for i, one := range all.Samples {
		if one.Key != keys[i] {
			return r, fmt.Errorf("a worker's result has the sample %v, and %v was asked for", one.Key, keys[i])
		}
		var outputs [][]float64
		if samples[i], outputs, err = u.sample(one); err != nil {
			return r, fmt.Errorf("a worker's result, sample %d of prompt %d: %w", one.Key.Sample, one.Key.Prompt, err)
		}
		if outputs != nil {
			if r.Outputs == nil {
				r.Outputs = make([][][]float64, len(keys))
			}
			r.Outputs[i] = outputs
		}
		if (one.Episode != nil) != (hears != nil) {
			return r, fmt.Errorf("a worker's result: sample %d of prompt %d is of another kind", one.Key.Sample, one.Key.Prompt)
		}
		if one.Episode != nil {
			what, err := u.conversation(*one.Episode)
			if err != nil {
				return r, fmt.Errorf("a worker's result, sample %d of prompt %d: %w", one.Key.Sample, one.Key.Prompt, err)
			}
			said = append(said, what)
		}
	}
	if hears != nil {
		if err := hears.Decode(samples, said); err != nil {
			return r, fmt.Errorf("a worker's result: %w", err)
		}
	}
	r.Samples, r.Passes = samples, all.Passes
	return r, nil
}

// conversation reads a sample's conversation.
func (u unpacker) conversation(one packedEpisode) (said model.EncodedEpisode, err error) {
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

func (u unpacker) sample(one packedSample) (s trainer.Sample, outputs [][]float64, err error) {
	n := len(one.Steps)
	if one.Episode != nil {
		s, err = u.spoken(one)
		return s, nil, err
	}
	means, into := one.Mean, &s.Decisions.Mean
	if len(means) == 0 {
		means, into = one.Output, &outputs
	}
	if len(one.State) != n || len(one.Action) != n || len(means) != n || len(one.Mean)+len(one.Output) != n || len(one.Trained) != n {
		return s, nil, errors.New("its decisions do not fit each other")
	}
	s.Key, s.Item.Size, s.Item.Frames = one.Key, one.Size, one.Frames
	if s.Item.Final, err = u.list(one.Final, -1); err != nil {
		return s, nil, err
	}
	size, d := len(s.Item.Final), &s.Decisions
	d.Step, d.Trained = one.Steps, one.Trained
	if d.Time, err = u.list(one.Times, n); err != nil {
		return s, nil, err
	}
	if d.LogProb, err = u.list(one.LogProb, n); err != nil {
		return s, nil, err
	}
	if n == 0 {
		d.Time, d.LogProb = nil, nil
	}
	for k := range n {
		for _, x := range []struct {
			to   *[][]float64
			from int
		}{{&d.State, one.State[k]}, {&d.Action, one.Action[k]}, {into, means[k]}} {
			list, err := u.list(x.from, size)
			if err != nil {
				return s, nil, err
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
	return s, outputs, err
}

// spoken reads the decisions of a conversation, which are tokens.
func (u unpacker) spoken(one packedSample) (s trainer.Sample, err error) {
	if len(one.State)+len(one.Action)+len(one.Mean)+len(one.Output) > 0 || len(one.Trained) != len(one.Steps) {
		return s, errors.New("its decisions do not fit each other")
	}
	s.Key, s.Decisions.Step, s.Decisions.Trained = one.Key, one.Steps, one.Trained
	if len(one.Steps) > 0 {
		s.Decisions.LogProb, err = u.list(one.LogProb, len(one.Steps))
	}
	return s, err
}

// list reads n numbers, all finite; -1: as many as there are.
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
