package autograd

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Param is a named parameter: frozen (packed once, no gradient) or trained (fp32, with an fp32
// gradient, and, where products are bf16, a packed working copy: keepOne says for how long).
type Param struct {
	Name string
	// A linear weight is [out, in]; a convolution's [out, KH, KW, in], over time [KT, out, KH, KW, in].
	Shape []int
	// Value is the stored form. It is nil for a weight that only products read: frozen, or trained with its values
	// elsewhere (Part).
	Value   *tensor.Tensor
	Trained bool
	// Products says that products alone read a trained weight. Math is their arithmetic.
	Products bool
	Math     kernels.Math
	Conv     kernels.ConvShape // the geometry of a convolution's weight; zero for others

	pool   *tensor.Pool
	packed [2]*kernels.Packed   // by arithmetic, made when first needed
	taps   [2][]*kernels.Packed // the same of a convolution over time, one a frame of its kernel
	sums   []*tensor.Tensor     // gradients of the shard under way, one for each use in a pass
	shard  int                  // its number
	shards [][]*tensor.Tensor   // gradients of the other shards

	changes int // calls of Updated

	ring   *Ring // of a streamed weight; nil: the weight is kept
	source Source
}

// NewParam is a parameter with its values in t, which it takes over. A trained one is F32.
func NewParam(name string, t *tensor.Tensor, trained bool) *Param {
	if trained && t.DType() != kernels.F32 {
		panic(fmt.Sprintf("autograd: the trained parameter %s is %s, not f32", name, t.DType()))
	}
	t.Lasts()
	return &Param{Name: name, Shape: t.Shape(), Value: t.Named(name), Trained: trained, pool: t.Pool()}
}

// NewPacked is a frozen weight that exists only in packed form.
func NewPacked(name string, shape []int, pool *tensor.Pool, w *kernels.Packed) *Param {
	p := &Param{Name: name, Shape: shape, pool: pool, Conv: w.Conv}
	p.packed[w.Math] = w
	return p
}

// Repack puts another packed form in the place of a frozen weight's, which is freed. A streamed weight is kept from now
// on.
func (p *Param) Repack(w *kernels.Packed) {
	p.dropPacked()
	p.leave()
	p.packed[w.Math] = w
}

// Updated says that Value was changed: packed copies are made anew when next needed.
func (p *Param) Updated() {
	if p.Value == nil {
		panic("autograd: Updated: " + p.Name + " has no values of its own")
	}
	p.changes++
	p.dropPacked()
}

// Len is the number of values.
func (p *Param) Len() int {
	n := 1
	for _, side := range p.Shape {
		n *= side
	}
	return n
}

// Packs reports whether a trained weight can do without Value: a packed copy is all that products read.
func (p *Param) Packs() bool {
	return p.Trained && p.Products && p.Math == kernels.MathBF16 && p.Conv.KH == 0 && p.Len() > smallWeight
}

// Part frees Value, and leaves the packed copy. The values lie elsewhere, and Set brings other ones.
func (p *Param) Part() {
	if !p.Packs() {
		panic("autograd: Part: more than products read " + p.Name)
	}
	p.Set(p.Value)
	p.Value.Free()
	p.Value = nil
}

// Set makes values in p's shape those that the network computes with: they are packed where Value is nil or t, and
// copied into Value otherwise.
func (p *Param) Set(t *tensor.Tensor) {
	p.changes++
	p.dropPacked()
	if p.Value != nil && p.Value != t {
		p.pool.Backend().Axpby(&kernels.Axpby{A: 1, X: t.Span(), Y: p.Value.Span()})
		return
	}
	n := p.Shape[0]
	p.packed[p.Math] = p.pool.Pack(kernels.NewMat(t.Span(), n, t.Len()/n), p.Math)
}

// Pool is where the parameter's memory comes from.
func (p *Param) Pool() *tensor.Pool { return p.pool }

// Changes is how often Value was changed.
func (p *Param) Changes() int { return p.changes }

func (p *Param) dropPacked() {
	p.ring.drop(p)
	for m, w := range p.packed {
		if w != nil {
			p.pool.Drop(w)
			p.packed[m] = nil
		}
	}
	for m, taps := range p.taps {
		for _, w := range taps {
			p.pool.Drop(w)
		}
		p.taps[m] = nil
	}
}

// leave ends the use of a ring.
func (p *Param) leave() {
	if p.ring != nil {
		p.ring.leave()
		p.ring = nil
	}
}

// Free gives all memory back.
func (p *Param) Free() {
	p.dropPacked()
	p.leave()
	if p.source != nil {
		p.source.Close()
		p.source = nil
	}
	p.ZeroGrad()
	if p.Value != nil {
		p.Value.Free()
		p.Value = nil
	}
}

// smallWeight is the number of elements up to which a trained weight is read where it
// lies: a packed copy, made anew after each update, would cost more than it saves.
const smallWeight = 1 << 16

// operand is p's on this tape, which may keep one packed copy of trained weights.
func (tp *Tape) operand(p *Param) (kernels.Mat, *kernels.Packed) {
	if p.ring != nil {
		tp.reads.add(p)
	}
	w, packed := p.operand(tp.Math)
	if packed != nil {
		tp.keepOne(p)
	}
	return w, packed
}

// operand is the weight as the second operand of a product. F32 products read fp32
// values of trained weights where they lie; bf16 ones, and those with a frozen table that is
// a head, too, read a packed copy.
func (p *Param) operand(m kernels.Math) (kernels.Mat, *kernels.Packed) {
	if p.ring != nil {
		p.ring.load(p)
	}
	if w := p.packed[m]; w != nil {
		return kernels.Mat{}, w
	}
	if p.Value == nil {
		panic(fmt.Sprintf("autograd: %s was packed for other arithmetic than %s", p.Name, m))
	}
	n := p.Shape[0]
	w := kernels.NewMat(p.Value.Span(), n, p.Value.Len()/n)
	small := p.Trained && p.Conv.KH == 0 && p.Value.Len() <= smallWeight
	if m == kernels.MathF32 && p.Value.DType() == kernels.F32 && (p.Trained || p.Conv.KH > 0) || small {
		return w, nil
	}
	if p.Conv.KH > 0 {
		p.packed[m] = p.pool.PackConv(p.Value.Span(), p.Conv, m)
	} else {
		p.packed[m] = p.pool.Pack(w, m)
	}
	return kernels.Mat{}, p.packed[m]
}

// span is a vector parameter's memory; nil is absent.
func (p *Param) span() kernels.Span {
	if p == nil {
		return kernels.Span{}
	}
	return p.Value.Span()
}

// wantsGrad reports whether backward must form the parameter's gradient.
func (p *Param) wantsGrad() bool { return p != nil && p.Trained }

// sum is where this use of the parameter adds its gradient. A parameter that is used
// several times in a pass has a sum for each: added sample by sample through all passes
// of a step, and to each other at its end. With one sum the order of additions would
// depend on the size of the micro-batch.
func (tp *Tape) sum(p *Param) kernels.Span {
	use := tp.uses[p]
	tp.uses[p]++
	if use == len(p.sums) {
		p.sums = append(p.sums, p.pool.LastingZeros(kernels.F32, p.Shape...).Named("gradient of "+p.Name))
	}
	return p.sums[use].Span()
}

// sumIf is sum for a parameter that may be absent or frozen.
func (tp *Tape) sumIf(p *Param) kernels.Span {
	if !p.wantsGrad() {
		return kernels.Span{}
	}
	return tp.sum(p)
}

// Grad is the gradient so far, f32, in the parameter's shape; nil if no backward
// reached it. Call it once the step's passes are done: it adds up the uses.
func (p *Param) Grad() *tensor.Tensor {
	if len(p.sums) == 0 {
		return nil
	}
	for _, s := range p.sums[1:] {
		z := p.sums[0].Span()
		p.pool.Backend().Binary(&kernels.Binary{Op: kernels.Add, X: z, Y: s.Span(), Z: z})
		s.Free()
	}
	p.sums = p.sums[:1]
	return p.sums[0]
}

// AnyGrad is Grad, and zeros where no backward reached the parameter: of devices that add up their
// gradients every one needs one.
func (p *Param) AnyGrad() *tensor.Tensor {
	if len(p.sums) == 0 {
		p.sums = append(p.sums, p.pool.LastingZeros(kernels.F32, p.Shape...).Named("gradient of "+p.Name))
	}
	return p.Grad()
}

// Shard sums further gradients as those of shard k, apart from other shards'. Without a call all are those of shard 0.
func (p *Param) Shard(k int) {
	if k == p.shard {
		return
	}
	for len(p.shards) <= max(k, p.shard) {
		p.shards = append(p.shards, nil)
	}
	p.shards[p.shard] = p.sums
	p.sums, p.shards[k], p.shard = p.shards[k], nil, k
}

// Reached reports whether a backward reached the parameter in any shard.
func (p *Param) Reached() bool {
	return len(p.sums) > 0 || slices.ContainsFunc(p.shards, func(sums []*tensor.Tensor) bool { return len(sums) > 0 })
}

// Fold adds the gradients of shards lo to hi-1 in a binary tree, the lower half to the upper one. The sum is AnyGrad
// from then on, and no shard has a gradient of its own.
func (p *Param) Fold(lo, hi int) *tensor.Tensor {
	return p.Graft(lo, hi, func(lo, hi int) ([]float32, bool) { return nil, hi-lo == 1 })
}

// Graft is Fold where sums of subtrees come from elsewhere: given returns that of a subtree, nil for the gradient that
// shard lo has here, or false where the subtree is parted further.
func (p *Param) Graft(lo, hi int, given func(lo, hi int) (sum []float32, whole bool)) *tensor.Tensor {
	if sum, whole := given(lo, hi); whole {
		p.Shard(lo)
		g := p.AnyGrad()
		if sum != nil {
			g.UploadF32(sum)
		}
		return g
	}
	mid := exchange.Middle(lo, hi)
	upper := p.Graft(mid, hi, given)
	p.sums = p.sums[:0] // it is freed below
	lower := p.Graft(lo, mid, given)
	p.pool.Backend().Binary(&kernels.Binary{Op: kernels.Add, X: lower.Span(), Y: upper.Span(), Z: lower.Span()})
	upper.Free()
	return lower
}

// ZeroGrad forgets the gradient, of all shards.
func (p *Param) ZeroGrad() {
	for _, s := range p.sums {
		s.Free()
	}
	p.sums = p.sums[:0]
	for k, sums := range p.shards {
		for _, s := range sums {
			s.Free()
		}
		p.shards[k] = nil
	}
}

// A tape that trains and is Lean keeps one packed copy of the weights that are trained, that of the product under way:
// copies of all would lie beside the values and their gradients until the update, which makes them stale. So a pass
// packs each weight twice, once in either direction. Other tapes keep the copies, for the passes of a roll or of an
// update.

// keepOne lets the packed copy of a trained weight take the place of the one before it.
func (tp *Tape) keepOne(p *Param) {
	if tp.Lean && tp.Train && p.Trained && p.Value != nil && tp.lean != p {
		tp.dropLean()
		tp.lean = p
	}
}

func (tp *Tape) dropLean() {
	if tp.lean != nil {
		tp.lean.dropPacked()
		tp.lean = nil
	}
}
