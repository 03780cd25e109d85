package nn

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
)

// Card: LoRA on n experts whose weights lie in one tensor, as PEFT has it (target_parameters): A is
// [n r, in] and B [out, r n]; expert e has rows e r to e r + r - 1 of A, and columns e, n + e,
// 2 n + e, ... of B. Plain Go computes it in fp32: the ranks are small.
//
// The invariant: a row's numbers depend on the row and its expert alone. Golden: vlm.lora.

// stack draws the pair of all experts.
func (ad *adapter) stack(c LoRA) (err error) {
	if c.Dropout > 0 {
		return fmt.Errorf("LoRA: %s: PEFT has no dropout on experts; write dropout = 0", ad.module.name)
	}
	layers := ad.module.experts.Layers
	n, out, in := len(layers), layers[0].W.Shape[0], layers[0].W.Shape[1]
	r := ad.set.root
	if ad.a, err = r.drawn(ad.module.name+".lora_A.weight", []int{n * c.Rank, in}, c.begin(in), kernels.ConvShape{}, c.Key); err == nil {
		ad.b, err = r.drawn(ad.module.name+".lora_B.weight", []int{out, c.Rank * n}, initial{}, kernels.ConvShape{}, c.Key)
	}
	return err
}

// stacked is what the pair adds to rows that are sorted by their expert.
func (ad *adapter) stacked(tp *autograd.Tape, v *autograd.Value, counts []int) *autograd.Value {
	n, in, out := len(counts), ad.a.stored[1], ad.b.stored[0]
	p := lowRank{n: n, r: ad.a.stored[0] / n, in: in, out: out, scale: ad.scale}
	var expert []int
	for e, rows := range counts {
		for range rows {
			expert = append(expert, e)
		}
	}
	return tp.Host(autograd.Host{Name: ad.module.name + " adapter", In: []*autograd.Value{v}, Params: []*autograd.Param{ad.a.param, ad.b.param},
		Shape: []int{1, len(expert), out},
		Forward: func(x, w [][]float32) []float32 {
			y := make([]float32, len(expert)*out)
			for row, e := range expert {
				p.forward(y[row*out:][:out], x[0][row*in:][:in], w[0], w[1], e)
			}
			return y
		},
		Backward: func(x, w [][]float32, dy []float32, sums [][]float32) [][]float32 {
			dx := make([]float32, len(x[0]))
			da, db := make([]float32, len(sums[0])), make([]float32, len(sums[1]))
			for row, e := range expert {
				p.backward(dx[row*in:][:in], x[0][row*in:][:in], dy[row*out:][:out], w[0], w[1], da, db, e)
			}
			for i := range da {
				sums[0][i] += da[i]
			}
			for i := range db {
				sums[1][i] += db[i]
			}
			return [][]float32{dx}
		}})
}

// lowRank is the sizes of a pair.
type lowRank struct {
	n, r, in, out int
	scale         float32
}

// down is A x of an expert.
func (p lowRank) down(x, a []float32, e int) []float32 {
	h := make([]float32, p.r)
	for j := range h {
		for i, w := range a[(e*p.r+j)*p.in:][:p.in] {
			h[j] += float32(w * x[i])
		}
	}
	return h
}

func (p lowRank) forward(y, x, a, b []float32, e int) {
	h := p.down(x, a, e)
	for o := range y {
		var sum float32
		for j, v := range h {
			sum += float32(b[o*p.r*p.n+j*p.n+e] * v)
		}
		y[o] = float32(sum * p.scale)
	}
}

func (p lowRank) backward(dx, x, dy, a, b, da, db []float32, e int) {
	h, dh := p.down(x, a, e), make([]float32, p.r)
	for o, d := range dy {
		d = float32(d * p.scale)
		for j := range dh {
			at := o*p.r*p.n + j*p.n + e
			dh[j] += float32(b[at] * d)
			db[at] += float32(h[j] * d)
		}
	}
	for j, d := range dh {
		row := (e*p.r + j) * p.in
		for i := range dx {
			dx[i] += float32(a[row+i] * d)
			da[row+i] += float32(x[i] * d)
		}
	}
}
