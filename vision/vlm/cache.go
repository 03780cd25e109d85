package vlm

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// cache is the keys and values of rows of tokens, [rows, room, KVHeads HeadDim] a layer. Room
// is the same for all rows and grows by steps; what lies beyond a row's length is never read.
type cache struct {
	pool         *tensor.Pool
	dtype        kernels.DType
	width        int // of a token's keys
	rows, room   int
	keys, values []*tensor.Tensor // a layer; nil of layers that keep a state
	memories     [][]memory       // a layer, a row: of layers that keep a state
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

// reserve makes room for so many tokens of a row.
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

// copy takes runs of tokens from one tensor to another: n tokens, so many times, that lie
// apart by strides in tokens.
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
