package vlm

import (
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// Card: Qwen-VL's language models. Qwen2.5's (Qwen2-VL, Qwen2.5-VL): causal, grouped heads,
// biases on queries, keys and values. Qwen3's (Qwen3-VL): no biases, queries and keys normalised
// head by head. Qwen3.5's: most layers follow the delta rule (deltanet.go), attention has gates,
// only a part of a head turns, and norms' weights lack 1. A token's pairs turn by time, row or column (positions.go),
// section by section or in turns. A picture's tokens take the tower's states in place of the table's rows, and
// Qwen3-VL adds states of lower layers of the tower behind its first layers (deepstack).
// Sources: arXiv 2409.12191, 2502.13923, 2511.21631; transformers 5.23.
//
// Padding is left out of a sequence rather than masked, so that it changes no bit. The invariants: later tokens, and
// other rows of a batch, change no bit of a token; decoding with kept keys and values (decoder.go) has the bits of
// Hidden.

// Model is a vision-language model.
type Model struct {
	Config
	Tower  *Tower
	tokens *autograd.Param
	layers []*textLayer
	norm   *nn.Norm
	head   *nn.Linear // nil where it is the table of tokens
	heard  func(Routing)
}

// New asks p for a model's parameters, by the names that p's file has for them: those of the published files, or
// those of today's libraries.
func New(p *nn.Params, c Config) *Model {
	t := c.Text
	text, tower := places(p, c)
	m := &Model{Config: c, Tower: newTower(tower, c.Family, c.Vision)}
	m.read(text)
	if !c.Tied {
		m.head = p.Linear("lm_head", t.Width, t.Vocabulary, false)
	}
	if c.Tied && p.Has("lm_head.weight") { // the table once more, which some writers keep
		p.Ignore("lm_head\\.weight")
	}
	if t.Gated {
		p.Ignore(`mtp\..*`) // layers that guess further tokens, which nothing here asks
	}
	return m
}

// OnRouting has f called with the routing of tokens in layers of experts; nil: nobody is.
func (m *Model) OnRouting(f func(Routing)) { m.heard = f }

// Hidden is the states [1, tokens, Width] behind the last norm, which the head and a head of
// values read.
func (m *Model) Hidden(tp *autograd.Tape, s Stretch) (*autograd.Value, error) {
	return m.HiddenOf(tp, s, nil, nil)
}

// HiddenOf is Hidden with patches [patches, numbers] of pictures and clips that are on the tape,
// so that gradients reach them; nil: those of s.
func (m *Model) HiddenOf(tp *autograd.Tape, s Stretch, pictures, clips *autograd.Value) (*autograd.Value, error) {
	in, err := m.input(tp, nil, []Stretch{s}, onTape{pictures, clips})
	if err != nil {
		return nil, alone(err)
	}
	return m.run(tp, in, nil, m.whole(tp, in.ends), nil), nil
}

// HiddenAll is Hidden of several sequences at once, [1, all their tokens, Width] one after
// another, with the bits that each has alone.
func (m *Model) HiddenAll(tp *autograd.Tape, sequences []Stretch) (*autograd.Value, error) {
	in, err := m.input(tp, nil, sequences, onTape{})
	if err != nil {
		return nil, err
	}
	return m.run(tp, in, nil, m.whole(tp, in.ends), nil), nil
}

// alone is an error about the only stretch there is.
func alone(err error) error {
	if r, ok := err.(Refused); ok {
		return r.Err
	}
	return err
}

// States are the inputs of the layers, that of embeddings first, and the last Hidden: pipelines take them of a model
// that only reads their prompts.
func (m *Model) States(tp *autograd.Tape, s Stretch) ([]*autograd.Value, error) {
	in, err := m.input(tp, nil, []Stretch{s}, onTape{})
	if err != nil {
		return nil, alone(err)
	}
	var all []*autograd.Value
	last := m.run(tp, in, nil, m.whole(tp, in.ends), func(x *autograd.Value) { all = append(all, x) })
	return append(all, last), nil
}

// whole is how whole sequences are read.
func (m *Model) whole(tp *autograd.Tape, ends []int) looks {
	var runs []run
	for i, first := 0, 0; i < len(ends); i++ {
		runs = append(runs, run{first: first, n: ends[i] - first})
		first = ends[i]
	}
	return looks{m.causal(tp, ends), func(int) []run { return runs }}
}

// causal is attention to all that came before in the same sequence.
func (m *Model) causal(tp *autograd.Tape, ends []int) attention {
	see := segmentsOf(append([]int{0}, ends...))
	return func(_ int, q, k, v *autograd.Value) *autograd.Value {
		return see.attention(tp, q, k, v, autograd.Attend{Heads: m.Text.Heads, KVHeads: m.Text.KVHeads, Causal: true})
	}
}

// run takes tokens through the layers and the last norm. The result has the tokens that are asked for, nil for all:
// the others only give the last layer their keys and values. see is the attention, and each, which may be nil, gets
// the input of each layer.
func (m *Model) run(tp *autograd.Tape, in input, asked []int32, see looks, each func(x *autograd.Value)) *autograd.Value {
	x, turn := in.x, m.Text.turns(tp, in.positions)
	all, last := reading{turn: turn, their: turn}, len(m.layers)-1
	for i, l := range m.layers {
		if each != nil {
			each(x)
		}
		if i == last && asked != nil && i >= len(in.deep) {
			return m.norm.Apply(tp, l.forward(tp, x, i, m.Text, reading{turn, asked, m.Text.turns(tp, in.at(asked))}, see))
		}
		x = l.forward(tp, x, i, m.Text, all, see)
		if i < len(in.deep) {
			x = in.add(tp, x, in.deep[i])
		}
	}
	if asked != nil {
		x = tp.Gather(x, asked, 1, len(asked))
	}
	return m.norm.Apply(tp, x)
}

// Logits are the head's numbers of each row, [.., Vocabulary] in F32.
func (m *Model) Logits(tp *autograd.Tape, hidden *autograd.Value) *autograd.Value {
	if m.head == nil {
		return tp.Linear(hidden, m.tokens, autograd.With{Wide: true})
	}
	return m.head.Apply(tp, hidden, autograd.With{Wide: true})
}

// LogProbs are the log-probabilities of tokens at rows of hidden, F32 [len(rows)]: row r of a
// sequence says which token follows token r. Logits are never all in memory. The numbers have
// the bits of Decoder.LogProbs.
func (m *Model) LogProbs(tp *autograd.Tape, hidden *autograd.Value, rows, tokens []int32, temperature float32) *autograd.Value {
	x := tp.Gather(hidden, rows, 1, len(rows))
	if m.head != nil && !m.head.Plain() {
		return tp.LogProbs(m.Logits(tp, x), tokens, temperature)
	}
	w := m.tokens
	if m.head != nil {
		w = m.head.W
	}
	return tp.TokenLogProbs(x, w, tokens, temperature)
}

// segments are stretches of a list that attend to themselves alone: windows, frames. They are
// computed side by side, the shorter ones filled up, which changes no bit of them.
type segments struct {
	longest int
	lengths []int32
	in, out []int32 // rows of the padded list, and back; nil where all are as long
}

func segmentsOf(ends []int) segments {
	var s segments
	equal := true
	for i := 1; i < len(ends); i++ {
		n := ends[i] - ends[i-1]
		s.lengths = append(s.lengths, int32(n))
		s.longest = max(s.longest, n)
		equal = equal && n == ends[1]-ends[0]
	}
	if equal {
		return s
	}
	for i, n := range s.lengths {
		for j := range int32(s.longest) {
			s.in = append(s.in, int32(ends[i])+min(j, n-1))
			if j < n {
				s.out = append(s.out, int32(i*s.longest)+j)
			}
		}
	}
	return s
}

// attention is that of [1, rows, C] within segments.
func (s segments) attention(tp *autograd.Tape, q, k, v *autograd.Value, how autograd.Attend) *autograd.Value {
	if len(s.lengths) == 1 {
		return tp.Attention(q, k, v, how)
	}
	rows, width := q.Dim(1), q.Dim(2)
	pad := func(x *autograd.Value) *autograd.Value {
		if s.in != nil {
			return tp.Gather(x, s.in, len(s.lengths), s.longest)
		}
		return tp.Reshape(x, len(s.lengths), s.longest, x.Dim(2))
	}
	how.KeyLens = s.lengths
	y := tp.Attention(pad(q), pad(k), pad(v), how)
	if s.out != nil {
		return tp.Gather(y, s.out, 1, rows)
	}
	return tp.Reshape(y, 1, rows, width)
}

// UsualTargets are the layers of the language model that an adapter is usually for, by the ends of their names.
func UsualTargets() []string {
	return []string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"}
}
