package fleet

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// Card: points of a network, its outputs there, their gradients, and gradients of weights, each a safetensors file of
// which no bit is lost. Points are packed as samples are (pack.go): a state is a tensor, an episode is in its model's
// encoding.
//
// Invariants (tests): unpacked numbers have the bits of the packed ones; strangers' bytes are refused, or fit the given
// points.

// pointsKey is the entry of the metadata.
const pointsKey = "points"

type packedPoint struct {
	Key     trainer.Key    `json:"key"`
	State   int            `json:"state"`
	Time    float64        `json:"time,omitempty"`
	Episode *packedEpisode `json:"said,omitempty"`
	Steps   []int          `json:"steps,omitempty"` // the tokens of the episode that the model chose
	Entropy bool           `json:"entropy,omitempty"`
	Value   bool           `json:"value,omitempty"`
}

// PackPoints makes bytes of points. codec encodes their episodes; nil: points without any.
func PackPoints(points []trainer.Point, codec model.EpisodeCodec) ([]byte, error) {
	p := packer{lists: map[Hash]int{}, says: codec}
	all := make([]packedPoint, len(points))
	for i, at := range points {
		one := packedPoint{Key: at.Key, State: -1, Time: at.Time, Entropy: at.Entropy, Value: at.Value}
		if at.Episode == nil {
			one.State = p.list(at.State)
		} else {
			var said packedSample
			if err := p.conversation(trainer.Sample{Key: at.Key, Item: trainer.Item{Episode: at.Episode}}, &said); err != nil {
				return nil, fmt.Errorf("packing point %d, of sample %d of prompt %d: %w", i+1, at.Key.Sample, at.Key.Prompt, err)
			}
			one.Episode, one.Steps = said.Episode, at.Episode.Chosen()
		}
		all[i] = one
	}
	text, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	return safetensors.Bytes(p.tensors, map[string]string{pointsKey: string(text)})
}

// UnpackPoints reads the file of PackPoints. codec decodes episodes; nil: points without any.
func UnpackPoints(data []byte, codec model.EpisodeCodec) ([]trainer.Point, error) {
	f, err := safetensors.Read("points of the network", data)
	if err != nil {
		return nil, err
	}
	var all []packedPoint
	if err := json.Unmarshal([]byte(f.Metadata[pointsKey]), &all); err != nil {
		return nil, fmt.Errorf("points of the network: %w", err)
	}
	u := unpacker{f, map[int][]float64{}}
	points := make([]trainer.Point, len(all))
	samples := make([]trainer.Sample, len(all))
	var said []model.EncodedEpisode
	for i, one := range all {
		points[i] = trainer.Point{Key: one.Key, Time: one.Time, Entropy: one.Entropy, Value: one.Value}
		if (one.Episode != nil) != (codec != nil) {
			return nil, fmt.Errorf("points of the network: point %d is of another kind", i+1)
		}
		if one.Episode == nil {
			if points[i].State, err = u.list(one.State, -1); err != nil {
				return nil, fmt.Errorf("points of the network: point %d: %w", i+1, err)
			}
			continue
		}
		n := len(one.Steps)
		samples[i] = trainer.Sample{Key: one.Key, Decisions: trainer.Decisions{Step: one.Steps, LogProb: make([]float64, n), Trained: make([]bool, n)}}
		what, err := u.conversation(*one.Episode)
		if err != nil {
			return nil, fmt.Errorf("points of the network: point %d: %w", i+1, err)
		}
		said = append(said, what)
	}
	if codec == nil {
		return points, nil
	}
	if err := codec.Decode(samples, said); err != nil {
		return nil, fmt.Errorf("points of the network: %w", err)
	}
	for i := range points {
		points[i].Episode = samples[i].Item.Episode
	}
	return points, nil
}

// outputsOf is how many numbers the network puts out at a point.
func outputsOf(p trainer.Point) int {
	if p.Episode == nil {
		return len(p.State)
	}
	n := len(p.Episode.Chosen())
	each := 1
	for _, more := range []bool{p.Entropy, p.Value} {
		if more {
			each++
		}
	}
	return n * each
}

// listsKey is the entry of the metadata.
const listsKey = "lists"

// PackLists makes bytes of lists: a network's outputs at points, or gradients there.
func PackLists(lists [][]float64) ([]byte, error) {
	p := packer{lists: map[Hash]int{}}
	at := make([]int, len(lists))
	for i, x := range lists {
		at[i] = p.list(x)
	}
	text, err := json.Marshal(at)
	if err != nil {
		return nil, err
	}
	return safetensors.Bytes(p.tensors, map[string]string{listsKey: string(text)})
}

// UnpackLists reads the file of PackLists: lists of these lengths, of finite numbers.
func UnpackLists(data []byte, lengths []int) ([][]float64, error) {
	f, err := safetensors.Read("numbers at points", data)
	if err != nil {
		return nil, err
	}
	var at []int
	if err := json.Unmarshal([]byte(f.Metadata[listsKey]), &at); err != nil {
		return nil, fmt.Errorf("numbers at points: %w", err)
	}
	if len(at) != len(lengths) {
		return nil, fmt.Errorf("numbers at %d points, and %d were asked for", len(at), len(lengths))
	}
	u := unpacker{f, map[int][]float64{}}
	lists := make([][]float64, len(at))
	for i := range at {
		x, err := u.list(at[i], lengths[i])
		if err != nil {
			return nil, fmt.Errorf("numbers at point %d: %w", i+1, err)
		}
		lists[i] = slices.Clone(x) // equal lists are there once, and whose they are may change them
	}
	return lists, nil
}

// digestOf is that of outputs at points.
func digestOf(outputs [][]float64) Hash {
	var data []byte
	for _, x := range outputs {
		data = binary.LittleEndian.AppendUint64(data, uint64(len(x)))
		for _, v := range x {
			data = binary.LittleEndian.AppendUint64(data, math.Float64bits(v))
		}
	}
	return HashOf(data)
}

// outputsKey is the entry of the metadata.
const outputsKey = "outputs"

// PackSums makes bytes of gradients of weights, by parameter (nil: no backward reached it), and of the digests of the
// outputs that they were computed from.
func PackSums(sums [][]float32, outputs []Hash) ([]byte, error) {
	text, err := json.Marshal(outputs)
	if err != nil {
		return nil, err
	}
	var all []safetensors.Tensor
	for i, x := range sums {
		if x != nil {
			all = append(all, safetensors.FromF32(strconv.Itoa(i), []int{len(x)}, x))
		}
	}
	return safetensors.Bytes(all, map[string]string{outputsKey: string(text)})
}

// UnpackDigests reads those in the file of PackSums, of this many lists of outputs.
func UnpackDigests(data []byte, lists int) (outputs []Hash, err error) {
	f, err := safetensors.Read("a gradient", data)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(f.Metadata[outputsKey]), &outputs); err != nil {
		return nil, fmt.Errorf("the outputs of a gradient: %w", err)
	}
	if len(outputs) != lists {
		return nil, fmt.Errorf("a gradient of %d lists of points, and %d were given", len(outputs), lists)
	}
	return outputs, nil
}

// UnpackSums reads the gradients in the file of PackSums, of parameters of these lengths.
func UnpackSums(data []byte, lengths []int) ([][]float32, error) {
	f, err := safetensors.Read("a gradient", data)
	if err != nil {
		return nil, err
	}
	sums, left := make([][]float32, len(lengths)), len(f.Names())
	for i, n := range lengths {
		name := strconv.Itoa(i)
		if _, there := f.Info(name); !there {
			continue
		}
		t, err := f.Tensor(name)
		if err != nil {
			return nil, err
		}
		left--
		if t.DType != safetensors.F32 || t.Len() != n {
			return nil, fmt.Errorf("the gradient of parameter %d has %d numbers of %s, not %d of F32", i, t.Len(), t.DType, n)
		}
		if sums[i], err = t.Float32(nil); err != nil {
			return nil, err
		}
	}
	if left != 0 {
		return nil, fmt.Errorf("a gradient of %d parameters that are not trained", left)
	}
	return sums, nil
}
