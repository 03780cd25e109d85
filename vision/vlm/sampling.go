package vlm

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Card: the next tokens are drawn on the device of their logits (kernels.Draw), and 16 bytes a row come back: the
// token, its log-probability in the distribution that was sampled from, that distribution's entropy, and the token's
// log-probability by the bare logits at the temperature, which has the bits of Model.LogProbs.

// Sampling says how Draw draws; kernels.Draw has the order.
type Sampling struct {
	Temperature float64 // 0: 1
	TopK        int     // 0: all
	TopP        float64 // 0: all
	MinP        float64
	Repetition  float64   // of tokens that a row holds; 0: 1
	Banned      []int     // never drawn
	Uniform     []float64 // from 0 to below 1, a row; nil: the likeliest token is taken
	Given       []int32   // a row: the token in place of a draw; below 0: none; nil: of no row
}

// Drawn is the next token of a row.
type Drawn struct {
	ID      int32
	LogProb float32 // in the distribution that was sampled from
	Entropy float32 // of it, in nats
	Bare    float32 // the log-probability by the bare logits
	Err     error   // there is no token
}

// banned is a set of tokens on the device.
type banned struct {
	ids []int
	set *tensor.Tensor
}

func (b *banned) free() {
	if b.set != nil {
		b.set.Free()
		b.set = nil
	}
}

// Draw draws a token behind each row of the last reading.
func (d *Decoder) Draw(s Sampling) ([]Drawn, error) {
	n, vocabulary := len(d.of), d.m.Text.Vocabulary
	switch {
	case d.logits == nil:
		return nil, fmt.Errorf("nothing was read that a token could follow")
	case s.Uniform != nil && len(s.Uniform) != n || s.Given != nil && len(s.Given) != n:
		return nil, fmt.Errorf("%d numbers and %d given tokens to draw %d tokens with", len(s.Uniform), len(s.Given), n)
	}
	for i, id := range s.Given {
		if int(id) >= vocabulary {
			return nil, UnknownToken{i, id, vocabulary}
		}
	}
	if err := d.ban(s.Banned); err != nil {
		return nil, err
	}
	// One copy takes the settings of rows to the device, and one brings back the drawn tokens.
	var in []byte
	for i := range n {
		u := 0.0
		if s.Uniform != nil {
			u = s.Uniform[i]
		}
		in = binary.LittleEndian.AppendUint64(in, math.Float64bits(u))
	}
	for i := range n {
		given := int32(-1)
		if s.Given != nil {
			given = s.Given[i]
		}
		in = binary.LittleEndian.AppendUint32(in, uint32(given))
	}
	words := 0
	if s.Repetition != 0 && s.Repetition != 1 {
		words = kernels.Words(vocabulary)
		seen, err := d.seen(words)
		if err != nil {
			return nil, err
		}
		for _, w := range seen {
			in = binary.LittleEndian.AppendUint32(in, w)
		}
	}
	pool := d.tape.Pool()
	memory := pool.New(kernels.I32, len(in)/4+4*n)
	defer memory.Free()
	all := memory.Span()
	pool.Backend().Upload(all.Slice(0, len(in)/4), in)
	uniform := kernels.Span{Buf: all.Buf, Off: all.Off / 2, Len: n, DType: kernels.F64}
	out := all.Slice(len(in)/4, all.Len)
	floats := out
	floats.DType = kernels.F32
	a := kernels.Draw{X: d.logits.Mat(), Temperature: float32(s.Temperature), TopK: s.TopK, TopP: s.TopP, MinP: float32(s.MinP), Repetition: float32(s.Repetition),
		Given: all.Slice(2*n, 3*n), Token: out.Slice(0, n), LogProb: floats.Slice(n, 2*n), Entropy: floats.Slice(2*n, 3*n)}
	if s.Uniform != nil {
		a.Uniform = uniform
	}
	if words > 0 {
		a.Seen = all.Slice(3*n, 3*n+n*words)
	}
	if d.banned.set != nil {
		a.Banned = d.banned.set.Span()
	}
	pool.Backend().Draw(&a)
	pool.Backend().LogSoftmaxGather(&kernels.LogSoftmaxGather{X: a.X, Index: a.Token, Temperature: a.Temperature, Out: floats.Slice(3*n, 4*n)})
	back := make([]byte, 16*n)
	pool.Backend().Download(back, out)
	word := func(part, i int) uint32 { return binary.LittleEndian.Uint32(back[4*(part*n+i):]) }
	drawn := make([]Drawn, n)
	for i := range drawn {
		drawn[i] = Drawn{ID: int32(word(0, i)), LogProb: math.Float32frombits(word(1, i)), Entropy: math.Float32frombits(word(2, i)), Bare: math.Float32frombits(word(3, i))}
		switch drawn[i].ID {
		case kernels.DrawNotFinite:
			drawn[i].Err = kernels.NotFiniteError("the logits hold numbers that are infinite or none")
		case kernels.DrawNoToken:
			drawn[i].Err = fmt.Errorf("no token is left to be drawn: %d of %d are banned", len(s.Banned), vocabulary)
		}
	}
	return drawn, nil
}

// ban has a set of tokens on the device.
func (d *Decoder) ban(ids []int) error {
	b := &d.banned
	if slices.Equal(b.ids, ids) {
		return nil
	}
	set := make([]uint32, kernels.Words(d.m.Text.Vocabulary))
	for _, id := range ids {
		if err := mark(set, id, d.m.Text.Vocabulary); err != nil {
			return err
		}
	}
	b.free()
	b.ids = slices.Clone(ids)
	if len(ids) == 0 {
		return nil
	}
	words := make([]int32, len(set))
	for i, w := range set {
		words[i] = int32(w)
	}
	b.set = d.tape.Pool().FromI32(words, len(words))
	return nil
}

// seen are the sets of tokens that the rows hold.
func (d *Decoder) seen(words int) ([]uint32, error) {
	all := make([]uint32, len(d.of)*words)
	for i, r := range d.of {
		for _, id := range d.IDs(r) {
			if err := mark(all[i*words:][:words], int(id), d.m.Text.Vocabulary); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// mark puts a token into a set.
func mark(set []uint32, id, vocabulary int) error {
	if id < 0 || id >= vocabulary {
		return fmt.Errorf("token %d is none of the vocabulary's %d", id, vocabulary)
	}
	set[id/32] |= 1 << (id % 32)
	return nil
}
