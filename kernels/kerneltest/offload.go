package kerneltest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
)

// RunOffloader holds products of weights that are stored elsewhere to those of the same weights kept on the backend,
// bit for bit: for rings of several sizes, orders of weights as a pass has them, and weights released in other orders.
func RunOffloader(t *testing.T, b kernels.Offloader, home kernels.Home) {
	for _, math := range []kernels.Math{kernels.MathF32, kernels.MathBF16} {
		t.Run(math.String(), func(t *testing.T) {
			p := newOffloadPass(b, math)
			defer p.close()
			if err := p.store(home); err != nil {
				t.Fatal(err)
			}
			if _, err := b.StoreCodes(p.codes[1], kernels.Packed{Math: math}, kernels.F16, home); err == nil {
				t.Error("codes of another type than that of the products are stored")
			}
			for i, ring := range []int{1, 2, 3, 16} {
				b.Reserve(ring * p.largest)
				for j, o := range offloadOrders {
					ahead := 1 + (i+j)%4
					if err := p.run(o, ahead); err != nil {
						t.Errorf("ring of %d, %d ahead, %s: %v", ring, ahead, o.name, err)
					}
				}
			}
			b.Reserve(0)
		})
	}
}

// offloadOrder is the order in which a pass reads weights, and how many it holds before it releases one of them.
type offloadOrder struct {
	name   string
	order  []int
	holds  int
	random bool // the one that is released is any of them
}

var offloadOrders = []offloadOrder{
	{"forward", []int{0, 1, 2, 3, 4, 5, 6}, 1, false},
	{"forward and backward", []int{0, 1, 2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1, 0}, 2, false},
	{"one weight again", []int{3, 3, 3, 0, 3, 3}, 1, false},
	{"any", []int{2, 6, 1, 1, 5, 0, 4, 3, 2, 0, 6, 5}, 3, true},
}

// offloadPass is a few weights, and their products.
type offloadPass struct {
	e       *Env
	b       kernels.Offloader
	stored  []*kernels.Stored
	packed  []*kernels.Packed
	gemms   [][2]*kernels.Gemm // a weight's NT and NN
	want    [][2][]byte
	codes   map[int]codes // of weights that are compressed
	largest int
}

func newOffloadPass(b kernels.Offloader, math kernels.Math) *offloadPass {
	p := &offloadPass{e: &Env{B: b, seed: hash("Offloader")}, b: b, codes: map[int]codes{}}
	for i, s := range [][2]int{{64, 96}, {96, 64}, {33, 40}, {80, 128}, {1, 8}, {72, 72}, {128, 72}} {
		n, k := s[0], s[1]
		const rows = 5
		w := b.Pack(p.e.Mat(kernels.F32, n, k, 0, 1), math)
		if i%2 == 1 {
			b.Free(w.Buf)
			w = p.compressed(n, k, math)
		}
		forward := &kernels.Gemm{Layout: kernels.NT, Math: math, A: p.e.Mat(kernels.F32, rows, k, 0, 1), W: w, C: p.e.JunkMat(kernels.F32, rows, n, 0)}
		back := &kernels.Gemm{Layout: kernels.NN, Math: math, A: p.e.Mat(kernels.F32, rows, n, 0, 1), W: w, C: p.e.JunkMat(kernels.F32, rows, k, 0)}
		p.packed, p.gemms = append(p.packed, w), append(p.gemms, [2]*kernels.Gemm{forward, back})
		p.want = append(p.want, p.products(len(p.gemms)-1, w))
		p.largest = max(p.largest, 2*kernels.Room(w.Buf.Bytes))
	}
	return p
}

// codes are random ones of 4 bits, and a scale for each run of 64 elements: a table of 64 bytes, the scales, the codes.
type codes struct {
	rows, cols int
	memory     []byte
}

func (c codes) Size() int           { return len(c.memory) }
func (c codes) Write(memory []byte) { copy(memory, c.memory) }

func (c codes) In(memory *kernels.Buffer, from int, dst kernels.Mat) *kernels.Unpack {
	runs, behind := c.runs()
	span := func(at, n int, d kernels.DType) kernels.Span {
		return kernels.Span{Buf: memory, Off: (from + at) / d.Size(), Len: n, DType: d}
	}
	return &kernels.Unpack{Codes: span(behind, len(c.memory)-behind, kernels.U8), Bits: 4, Table: span(0, 16, kernels.F32),
		Scale: kernels.Blocks{Values: span(64, runs, kernels.F32), Flat: 64}, Dst: dst}
}

// runs is their number, and the place of the codes.
func (c codes) runs() (n, behind int) {
	n = (c.rows*c.cols + 63) / 64
	return n, 64 + (4*n+63)/64*64
}

// compressed draws the codes of the next weight, and packs it in full.
func (p *offloadPass) compressed(n, k int, math kernels.Math) *kernels.Packed {
	c := codes{rows: n, cols: k}
	runs, behind := c.runs()
	c.memory = make([]byte, behind+(n*k+1)/2)
	copy(c.memory, p.e.Bytes(p.e.Floats(kernels.F32, 16, 1)))
	copy(c.memory[64:], p.e.Bytes(p.e.Floats(kernels.F32, runs, 1)))
	for i, r := behind, p.e.rand(); i < len(c.memory); i++ {
		c.memory[i] = byte(r.Uint32())
	}
	p.codes[len(p.packed)] = c
	w := &kernels.Packed{Math: math}
	in, full := p.b.Alloc(len(c.memory)), p.e.Junk(w.DType(), n*k)
	p.b.Upload(kernels.Span{Buf: in, Len: len(c.memory), DType: kernels.U8}, c.memory)
	m := kernels.NewMat(full, n, k)
	p.b.Unpack(c.In(in, 0, m))
	p.b.Free(in)
	return p.b.Pack(m, math)
}

// products are the results of a weight's products, which begin as NaNs.
func (p *offloadPass) products(i int, w *kernels.Packed) (out [2][]byte) {
	for j, g := range p.gemms[i] {
		g.W = w
		p.b.Fill(g.C.Span, -1)
		p.b.Gemm(g)
		out[j] = p.e.Bytes(g.C.Span)
	}
	return out
}

func (p *offloadPass) store(home kernels.Home) error {
	for i, w := range p.packed {
		c, ok := p.codes[i]
		if !ok {
			s, err := p.b.Store(w, home)
			if err != nil {
				return err
			}
			p.stored = append(p.stored, s)
			continue
		}
		p.b.Free(w.Buf)
		s, err := p.b.StoreCodes(c, kernels.Packed{Math: w.Math, N: w.N, K: w.K}, w.DType(), home)
		if err != nil {
			return err
		}
		p.stored = append(p.stored, s)
	}
	return nil
}

// run reads weights in an order, each fetched up to ahead places ahead, and compares their products. Results are read
// at the end alone: the program waits for nothing before.
func (p *offloadPass) run(o offloadOrder, ahead int) error {
	r := rand.New(rand.NewPCG(1, uint64(len(o.order))))
	type held struct {
		i int
		w *kernels.Packed
	}
	own := len(p.e.owned)
	defer func() {
		for _, o := range p.e.owned[own:] {
			p.b.Free(o.buf)
		}
		p.e.owned = p.e.owned[:own]
	}()
	var results []kernels.Span
	var fetched, read []held
	next := 0
	for at := range o.order {
		for next < len(o.order) && next <= at+ahead {
			w := p.b.Fetch(p.stored[o.order[next]])
			if w == nil {
				if next > at {
					break
				}
				if len(read) == 0 {
					return fmt.Errorf("nothing is held, and no room for weight %d", o.order[next])
				}
				p.b.Release(read[0].w)
				read = read[1:]
				continue
			}
			fetched = append(fetched, held{o.order[next], w})
			next++
		}
		x := fetched[0]
		fetched = fetched[1:]
		p.b.Await(x.w)
		for _, g := range p.gemms[x.i] {
			c := *g
			c.W = x.w
			c.C.Span = p.e.Junk(kernels.F32, g.C.Len)
			p.b.Gemm(&c)
			results = append(results, c.C.Span)
		}
		read = append(read, x)
		if len(read) >= o.holds {
			i := 0
			if o.random {
				i = r.IntN(len(read))
			}
			p.b.Release(read[i].w)
			read = slices.Delete(read, i, i+1)
		}
	}
	for _, x := range read {
		p.b.Release(x.w)
	}
	for at, i := range o.order {
		for j := range 2 {
			if !bytes.Equal(p.e.Bytes(results[2*at+j]), p.want[i][j]) {
				return fmt.Errorf("weight %d, read %d: the product %s is another than that of the weight kept", i, at, p.gemms[i][j].Layout)
			}
		}
	}
	return nil
}

func (p *offloadPass) close() {
	p.b.Sync()
	for _, s := range p.stored {
		p.b.Discard(s)
	}
	for _, o := range p.e.owned {
		p.b.Free(o.buf)
	}
}
