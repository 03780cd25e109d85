package vlm

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Step is Next, and gives the logits of what follows, a slice a row.
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

// abreast are rows that follow each other and hold as many tokens: the first of n, what each holds, and the first one's
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

// Logits are those of what follows the last reading, a slice a row.
func (d *Decoder) Logits() [][]float32 {
	all, logits := d.logits.F32(), make([][]float32, len(d.of))
	for i := range logits {
		logits[i] = all[i*d.m.Text.Vocabulary:][:d.m.Text.Vocabulary]
	}
	return logits
}

// checkRows refuses rows that are none, or are named twice.
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
			return MarkSaid{id}
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
