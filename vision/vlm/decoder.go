package vlm

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Card: decoding with kept keys and values. Rows of one batch have lengths of their own; a
// stretch of tokens, pictures among them, is read behind what a row holds (Extend, ExtendAll), or
// one token each behind many rows (Step). Indices continue those of the whole row: a picture moves
// what follows it. The invariants: logits have the bits of Model.Hidden and Logits over the
// whole row, however it was cut into stretches, whatever other rows there are and in which
// order they are named.

// Decoder reads and continues rows of tokens.
type Decoder struct {
	m      *Model
	tape   *autograd.Tape
	cache  *cache
	rows   []row
	logits *tensor.Tensor // of the last reading
	of     []int          // the rows that it was of
	banned banned         // of the last Draw
}

// row is what is known of a row of tokens.
type row struct {
	read  Stretch // without pixels
	delta int     // of the next token's index
}

// NewDecoder is one for so many rows, all of them empty. What o says of arithmetic must be
// what the trainer's tape has, for the same bits.
func (m *Model) NewDecoder(pool *tensor.Pool, o autograd.Options, rows int) *Decoder {
	tape := autograd.New(pool, autograd.Options{DType: o.DType, Math: o.Math})
	return &Decoder{m: m, tape: tape, cache: newCache(pool, o.DType, m.Text, rows), rows: make([]row, rows)}
}

// Close gives all memory back.
func (d *Decoder) Close() {
	d.tape.Reset()
	d.dropLogits()
	d.banned.free()
	d.cache.free()
}

// Rows is how many rows there are.
func (d *Decoder) Rows() int { return len(d.rows) }

// Len is the number of tokens of a row.
func (d *Decoder) Len(row int) int { return len(d.rows[row].read.IDs) }

// IDs are a row's tokens; they are the decoder's.
func (d *Decoder) IDs(row int) []int32 { return d.rows[row].read.IDs }

// Clear empties a row.
func (d *Decoder) Clear(r int) { d.rows[r] = row{} }

// Copy makes a row the same as another: answers of a group share their prompt's reading.
func (d *Decoder) Copy(to, from int) {
	if to == from {
		return
	}
	if n := d.Len(from); n > 0 {
		d.cache.duplicate(to, from, n)
	}
	d.rows[to] = row{read: Stretch{}.joined(d.rows[from].read), delta: d.rows[from].delta}
}

// Extend reads a stretch behind a row, and gives the logits of what follows it.
func (d *Decoder) Extend(r int, s Stretch) ([]float32, error) {
	logits, err := d.ExtendAll([]int{r}, []Stretch{s})
	if err != nil {
		return nil, err
	}
	return logits[0], nil
}

// ExtendAll is Read, and gives the logits of what follows, a slice a row.
func (d *Decoder) ExtendAll(rows []int, stretches []Stretch) ([][]float32, error) {
	if err := d.Read(rows, stretches); err != nil {
		return nil, err
	}
	return d.Logits(), nil
}

// Read reads a stretch behind each of several rows at once. Nothing is read where one of them is refused.
func (d *Decoder) Read(rows []int, stretches []Stretch) error {
	if err := d.checkRows(rows, len(stretches)); err != nil {
		return err
	}
	defer d.tape.Reset()
	m, tp, most := d.m, d.tape, 0
	before := make([]Stretch, len(rows))
	for i, r := range rows {
		before[i] = d.rows[r].read
	}
	in, err := m.input(tp, before, stretches, onTape{})
	if err != nil {
		if r, ok := err.(Refused); ok && len(rows) > 1 {
			return fmt.Errorf("row %d: %w", rows[r.At], r.Err)
		}
		return alone(err)
	}
	parts, last := make([]part, len(rows)), make([]int32, len(rows))
	for i, s := range stretches {
		parts[i] = part{row: rows[i], past: d.Len(rows[i]), first: in.ends[i] - len(s.IDs), n: len(s.IDs)}
		last[i] = int32(in.ends[i] - 1)
		most = max(most, parts[i].past+parts[i].n)
	}
	d.cache.reserve(most)
	hidden := m.run(tp, in, last, looks{func(layer int, q, k, v *autograd.Value) *autograd.Value {
		return d.behind(tp, parts, layer, q, k, v)
	}, d.runs(parts)}, nil)
	for i, r := range rows {
		d.rows[r] = row{read: d.rows[r].read.joined(stretches[i]), delta: in.deltas[i]}
	}
	d.keep(rows, m.Logits(tp, hidden))
	return nil
}

// part is the tokens of one row among those that are read at once.
type part struct{ row, past, first, n int }

// runs are the parts as layers that keep a state read them.
func (d *Decoder) runs(parts []part) func(layer int) []run {
	return func(layer int) []run {
		all := make([]run, len(parts))
		for i, p := range parts {
			left := &d.cache.memories[layer][p.row]
			if p.past == 0 {
				*left = d.m.layers[layer].delta.empty()
			}
			all[i] = run{p.first, p.n, left}
		}
		return all
	}
}

// behind is attention of each part to what its row holds, and to itself. The last layer's queries
// are of each part's last token.
func (d *Decoder) behind(tp *autograd.Tape, parts []part, layer int, q, k, v *autograd.Value) *autograd.Value {
	queries := []*autograd.Value{q}
	if len(parts) > 1 {
		lengths := make([]int, len(parts))
		for i, p := range parts {
			if lengths[i] = p.n; q.Dim(1) == len(parts) {
				lengths[i] = 1
			}
		}
		queries = tp.Split(q, 1, lengths...)
	}
	seen := make([]*autograd.Value, len(parts))
	for i, p := range parts {
		d.cache.store(layer, p.row, p.past, k.Tensor(), v.Tensor(), p.first, p.n)
		keys, values := d.cache.row(d.cache.keys[layer], p.row, p.past+p.n), d.cache.row(d.cache.values[layer], p.row, p.past+p.n)
		seen[i] = tp.Attention(queries[i], tp.Input(keys), tp.Input(values), autograd.Attend{Heads: d.m.Text.Heads, KVHeads: d.m.Text.KVHeads, Causal: true})
		keys.Free()
		values.Free()
	}
	return joined(tp, seen)
}

// MarkSaid is the error of a mark that is read as a word: marks come with their pictures.
type MarkSaid struct{ ID int32 }

func (e MarkSaid) Error() string {
	return fmt.Sprintf("token %d stands for a picture, and cannot be said: ban it from sampling (Banned)", e.ID)
}

// Banned are the tokens that only pictures bring.
func (c Config) Banned() []int { return []int{int(c.Picture), int(c.Clip)} }

// keep holds the logits [rows, vocabulary] of the last reading.
func (d *Decoder) keep(rows []int, logits *autograd.Value) {
	d.dropLogits()
	d.of = append(d.of[:0], rows...)
	d.logits = logits.Tensor().Reshape(logits.Tensor().Rows(), d.m.Text.Vocabulary)
}

func (d *Decoder) dropLogits() {
	if d.logits != nil {
		d.logits.Free()
		d.logits = nil
	}
}

// LogProbs are the log-probabilities of tokens by the logits of the last Extend (one) or Step
// (one a row), with the bits of Model.LogProbs.
func (d *Decoder) LogProbs(tokens []int32, temperature float32) ([]float32, error) {
	if d.logits == nil || len(tokens) != d.logits.Rows() {
		return nil, fmt.Errorf("log-probabilities of %d tokens: the last step had another number of rows", len(tokens))
	}
	for i, id := range tokens {
		if int(id) >= d.m.Text.Vocabulary {
			return nil, UnknownToken{i, id, d.m.Text.Vocabulary}
		}
	}
	pool := d.tape.Pool()
	at, y, lse := pool.FromI32(tokens, len(tokens)), pool.New(kernels.F32, len(tokens)), pool.New(kernels.F32, len(tokens))
	defer at.Free()
	defer y.Free()
	defer lse.Free()
	pool.Backend().LogSoftmaxGather(&kernels.LogSoftmaxGather{X: d.logits.Mat(), Index: at.Span(), Temperature: temperature, Out: y.Span(), LSE: lse.Span()})
	return y.F32(), nil
}
