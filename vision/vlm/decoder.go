package vlm

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Card: decoding with kept keys and values. Rows of one batch have lengths of their own; a stretch of tokens,
// pictures among them, is read behind a row's tokens (Extend, ExtendAll), or one token each behind many rows (Step).
// Indices continue those of the whole row: a picture moves the following ones. The invariants: logits have the bits
// of Model.Hidden and Logits over the whole row, however it was cut into stretches, whatever other rows there are and
// in which order they are named.

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

// row is the state of a row of tokens.
type row struct {
	read  Stretch // without pixels
	delta int     // of the next token's index
}

// NewDecoder is one with this number of rows, all of them empty. o must have the arithmetic of the trainer's tape,
// for the same bits.
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

// Extend reads a stretch behind a row, and gives the logits of the next token.
func (d *Decoder) Extend(r int, s Stretch) ([]float32, error) {
	logits, err := d.ExtendAll([]int{r}, []Stretch{s})
	if err != nil {
		return nil, err
	}
	return logits[0], nil
}

// ExtendAll is Read, and gives the logits of the next tokens, a slice a row.
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

// behind is attention of each part to its row's keys, and to itself. The last layer's queries are of each part's last
// token.
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

// MarkAsWord is the error of a mark that is read as a word: marks come with their pictures.
type MarkAsWord struct{ ID int32 }

func (e MarkAsWord) Error() string {
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

// Step is Next, and gives the logits of the next tokens, a slice a row.
func (d *Decoder) Step(rows []int, ids []int32) ([][]float32, error) {
	if err := d.Next(rows, ids); err != nil {
		return nil, err
	}
	return d.Logits(), nil
}

// Next reads one token behind each of several rows.
func (d *Decoder) Next(rows []int, ids []int32) error {
	if err := d.checkStep(rows, ids); err != nil {
		return err
	}
	defer d.tape.Reset()
	m, tp, n := d.m, d.tape, len(rows)
	in := input{x: tp.Embedding(m.tokens, ids, 1, n)}
	for axis := range in.positions {
		in.positions[axis] = make([]int, n)
		for i, r := range rows {
			in.positions[axis][i] = d.Len(r) + d.rows[r].delta
		}
	}
	b, stores := d.batch(rows), d.stores(rows)
	parts := make([]part, n)
	for i, r := range rows {
		parts[i] = part{row: r, past: d.Len(r), first: i, n: 1}
	}
	hidden := m.run(tp, in, nil, looks{func(layer int, q, k, v *autograd.Value) *autograd.Value {
		for _, s := range stores {
			d.cache.storeEach(layer, s, k.Tensor(), v.Tensor())
		}
		return b.attention(tp, d.m.Text, q, d.cache.keys[layer], d.cache.values[layer])
	}, d.runs(parts)}, nil)
	for i, r := range rows {
		d.rows[r].read.IDs = append(d.rows[r].read.IDs, ids[i])
	}
	d.keep(rows, m.Logits(tp, hidden))
	return nil
}

// abreast are rows that follow each other and hold as many tokens: the first of n, their length, and the first one's
// place among the rows of a step. A group's answers to one prompt are, and one copy a layer writes all of their keys.
type abreast struct{ row, at, first, n int }

// stores are a step's rows as they are abreast.
func (d *Decoder) stores(rows []int) (all []abreast) {
	for i, r := range rows {
		if n := len(all) - 1; n >= 0 && all[n].row+all[n].n == r && all[n].at == d.Len(r) {
			all[n].n++
			continue
		}
		all = append(all, abreast{r, d.Len(r), i, 1})
	}
	return all
}

// Logits are those of the tokens after the last reading, a slice a row.
func (d *Decoder) Logits() [][]float32 {
	all, logits := d.logits.F32(), make([][]float32, len(d.of))
	for i := range logits {
		logits[i] = all[i*d.m.Text.Vocabulary:][:d.m.Text.Vocabulary]
	}
	return logits
}

// checkRows refuses invalid rows and repeated ones.
func (d *Decoder) checkRows(rows []int, things int) error {
	if len(rows) != things || len(rows) == 0 {
		return fmt.Errorf("%d rows are to be read, and there is something for %d", len(rows), things)
	}
	seen := make([]bool, len(d.rows))
	for _, r := range rows {
		if r < 0 || r >= len(d.rows) || seen[r] {
			return fmt.Errorf("row %d of %d, or it is named twice", r, len(d.rows))
		}
		seen[r] = true
	}
	return nil
}

func (d *Decoder) checkStep(rows []int, ids []int32) error {
	if err := d.checkRows(rows, len(ids)); err != nil {
		return err
	}
	most := 0
	for i, r := range rows {
		switch id := ids[i]; {
		case d.Len(r) == 0:
			return fmt.Errorf("row %d is empty: Extend it first", r)
		case id < 0 || int(id) >= d.m.Text.Vocabulary:
			return UnknownToken{i, id, d.m.Text.Vocabulary}
		case id == d.m.Picture || id == d.m.Clip:
			return MarkAsWord{id}
		}
		most = max(most, d.Len(r)+1)
	}
	d.cache.reserve(most)
	return nil
}

// batch is how the rows of a step lie in the cache.
type batch struct {
	lengths []int32 // keys of each row of the cache: none of a row that has no part
	in, out []int32 // which query each row of the cache has, and back; nil: as they are
}

func (d *Decoder) batch(rows []int) batch {
	b := batch{lengths: make([]int32, len(d.rows)), in: make([]int32, len(d.rows)), out: make([]int32, len(rows))}
	same := len(rows) == len(d.rows)
	for i, r := range rows {
		b.lengths[r] = int32(d.Len(r) + 1)
		b.in[r], b.out[i] = int32(i), int32(r)
		same = same && i == r
	}
	if same {
		b.in, b.out = nil, nil
	}
	return b
}

// attention is that of one query a row.
func (b batch) attention(tp *autograd.Tape, t TextConfig, q *autograd.Value, keys, values *tensor.Tensor) *autograd.Value {
	n, width := q.Dim(1), q.Dim(2)
	if b.in != nil {
		q = tp.Gather(q, b.in, len(b.in), 1)
	} else {
		q = tp.Reshape(q, n, 1, width)
	}
	y := tp.Attention(q, tp.Input(keys), tp.Input(values), autograd.Attend{Heads: t.Heads, KVHeads: t.KVHeads, KeyLens: b.lengths})
	if b.out != nil {
		return tp.Gather(y, b.out, 1, n)
	}
	return tp.Reshape(y, 1, n, width)
}

// cache is the keys and values of rows of tokens, [rows, room, KVHeads HeadDim] a layer. Room is the same for all
// rows and grows by steps; places beyond a row's length are never read.
type cache struct {
	pool         *tensor.Pool
	dtype        kernels.DType
	width        int // of a token's keys
	rows, room   int
	keys, values []*tensor.Tensor // a layer; nil of layers that keep a state
	memories     [][]memory       // a layer, a row: of layers that keep a state
}

// RowBytes is about the most that a row of a decoder takes: keys and values, with the room that grows ahead of tokens,
// and the states of layers that do not attend.
func (t TextConfig) RowBytes(tokens int, d kernels.DType) int {
	bytes := 0
	for i := range t.Layers {
		if t.attends(i) {
			bytes += 2 * (tokens + tokens/2) * t.KVHeads * t.HeadDim * d.Size()
		} else {
			r := t.delta()
			bytes += 4 * ((t.Taps-1)*r.qkv() + r.state())
		}
	}
	return bytes
}

// roomStep is by how many tokens room grows: a stretch that attention rescales by.
const roomStep = kernels.KeyBlock

func newCache(pool *tensor.Pool, d kernels.DType, t TextConfig, rows int) *cache {
	c := &cache{pool: pool, dtype: d, width: t.KVHeads * t.HeadDim, rows: rows,
		keys: make([]*tensor.Tensor, t.Layers), values: make([]*tensor.Tensor, t.Layers), memories: make([][]memory, t.Layers)}
	for i := range t.Layers {
		if !t.attends(i) {
			c.memories[i] = make([]memory, rows)
		}
	}
	return c
}

// reserve makes room for tokens more of a row.
func (c *cache) reserve(tokens int) {
	if tokens <= c.room {
		return
	}
	room := (max(tokens, c.room+c.room/2) + roomStep - 1) / roomStep * roomStep
	for _, list := range [][]*tensor.Tensor{c.keys, c.values} {
		for i, old := range list {
			if c.memories[i] != nil {
				continue
			}
			list[i] = c.pool.New(c.dtype, c.rows, room, c.width).Named("keys or values")
			if old == nil {
				continue
			}
			c.copy(list[i], 0, room, old, 0, c.room, c.room, c.rows)
			old.Free()
		}
	}
	c.room = room
}

// copy takes runs of tokens from one tensor to another: n tokens, times times, that lie apart by strides in tokens.
func (c *cache) copy(dst *tensor.Tensor, to, dstStride int, src *tensor.Tensor, from, srcStride, n, times int) {
	d, s := dst.Span(), src.Span()
	c.pool.Backend().Copy(&kernels.Copy{
		Dst: d.Slice(to*c.width, d.Len), Src: s.Slice(from*c.width, s.Len), Shape: [5]int{1, 1, 1, times, n * c.width},
		DstStride: [5]int{0, 0, 0, dstStride * c.width, 1}, SrcStride: [5]int{0, 0, 0, srcStride * c.width, 1}})
}

// store writes tokens of a layer behind the first at of a row: n of keys and values, from the
// row first on.
func (c *cache) store(layer, row, at int, k, v *tensor.Tensor, first, n int) {
	c.copy(c.keys[layer], row*c.room+at, 0, k, first, 0, n, 1)
	c.copy(c.values[layer], row*c.room+at, 0, v, first, 0, n, 1)
}

// storeEach writes a token to each of several rows that follow each other, behind the first at of each.
func (c *cache) storeEach(layer int, s abreast, k, v *tensor.Tensor) {
	c.copy(c.keys[layer], s.row*c.room+s.at, c.room, k, s.first, 1, 1, s.n)
	c.copy(c.values[layer], s.row*c.room+s.at, c.room, v, s.first, 1, 1, s.n)
}

// duplicate copies the first n tokens of a row to another.
func (c *cache) duplicate(to, from, n int) {
	for i := range c.keys {
		if m := c.memories[i]; m != nil {
			m[to] = m[from].clone()
			continue
		}
		c.copy(c.keys[i], to*c.room, 0, c.keys[i], from*c.room, 0, n, 1)
		c.copy(c.values[i], to*c.room, 0, c.values[i], from*c.room, 0, n, 1)
	}
}

// row is the first n tokens of a row, [1, n, width].
func (c *cache) row(t *tensor.Tensor, row, n int) *tensor.Tensor {
	all := t.Reshape(c.rows*c.room, c.width)
	defer all.Free()
	part := all.Slice(row*c.room, row*c.room+n)
	defer part.Free()
	return part.Reshape(1, n, c.width)
}

func (c *cache) free() {
	for _, list := range [][]*tensor.Tensor{c.keys, c.values} {
		for i, t := range list {
			if t != nil {
				t.Free()
				list[i] = nil
			}
		}
	}
	c.room = 0
}
