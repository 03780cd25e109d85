package nn

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// LoRA (Hu et al., 2021, "LoRA: Low-rank adaptation of large language models"), as PEFT
// has it: y = x Wᵀ + b + s·(dropout(x) Aᵀ) Bᵀ, with s = alpha/r, or alpha/sqrt(r) (rsLoRA).
//
// A linear layer's sum is one product with a pair (kernels.Pair); before an activation, the sum before it is kept in
// fp32. A convolution's is made by residuals: t = s·h Bᵀ + residual in fp32, then the convolution + t.
//
// Invariants (tests): with B = 0 the layer has the bits of the layer without adapter;
// switching off gives the base exactly; the gradients are those of finite differences.

// LoRA sets the places and the form of adapters.
type LoRA struct {
	Rank    int
	Alpha   float32
	RSLoRA  bool
	Dropout float32
	// Targets are module names, or their ends after a dot: "to_q", "attn.to_q". The single
	// target "all-linear" is every linear layer. Pattern, in its place, is a regular
	// expression for whole names.
	Targets []string
	Pattern string
	// Exclude and ExcludePattern leave out modules by the same rules.
	Exclude        []string
	ExcludePattern string
	Gaussian       bool    // A is normal with deviation 1/r (PEFT's init_lora_weights = "gaussian"); else uniform
	Key            rng.Key // draws A
}

// Scale is s.
func (c LoRA) Scale() float32 {
	if c.RSLoRA {
		return float32(float64(c.Alpha) / math.Sqrt(float64(c.Rank)))
	}
	return c.Alpha / float32(c.Rank)
}

// begin is how A begins, PEFT's ways: uniform within 1/sqrt(inputs), or normal.
func (c LoRA) begin(inputs int) initial {
	if c.Gaussian {
		return initial{sigma: 1 / float32(c.Rank)}
	}
	return fanIn(inputs)
}

// Adapters are the low-rank pairs of one AddLoRA.
type Adapters struct {
	On     bool // off: layers compute the base model
	root   *root
	list   []*adapter
	merged bool
}

// adapter is the pair of one module.
type adapter struct {
	set     *Adapters
	module  module
	a, b    *entry
	scale   float32
	dropout float32
}

// AddLoRA puts an adapter on every layer that matches. A is drawn as PEFT draws it, B is
// zero: the model does not change yet. The pairs count as trained parameters.
func (p *Params) AddLoRA(c LoRA) (*Adapters, error) {
	if c.Rank <= 0 {
		return nil, fmt.Errorf("LoRA: the rank is %d; it must be at least 1", c.Rank)
	}
	match, err := c.matcher()
	if err != nil {
		return nil, err
	}
	set := &Adapters{On: true, root: p.root}
	for _, m := range p.root.modules {
		if !match(m) {
			continue
		}
		ad, err := set.newAdapter(m, c)
		if err != nil {
			return nil, err
		}
		set.list = append(set.list, ad)
	}
	if len(set.list) == 0 {
		names := p.Layers()
		asked := c.Pattern + strings.Join(c.Targets, ", ")
		return nil, fmt.Errorf("LoRA: %q matches no layer%s", asked, nearHint(asked, names))
	}
	for _, ad := range set.list { // nothing is put in place unless all can be
		ad.put()
	}
	return set, nil
}

// Layers are the names of those that an adapter can sit on.
func (p *Params) Layers() []string {
	var all []string
	for _, m := range p.root.modules {
		all = append(all, m.name)
	}
	return all
}

// matcher is PEFT's rule for names.
func (c LoRA) matcher() (func(m module) bool, error) {
	in, err := nameRule(c.Targets, c.Pattern)
	if err != nil {
		return nil, fmt.Errorf("LoRA: which layers: %w", err)
	}
	out, err := nameRule(c.Exclude, c.ExcludePattern)
	if err != nil {
		return nil, fmt.Errorf("LoRA: which layers to leave out: %w", err)
	}
	all := c.Pattern == "all-linear" || len(c.Targets) == 1 && c.Targets[0] == "all-linear"
	return func(m module) bool { return (all && m.linear != nil || in(m.name)) && !out(m.name) }, nil
}

func nameRule(ends []string, pattern string) (func(name string) bool, error) {
	var re *regexp.Regexp
	if pattern != "" {
		var err error
		if re, err = whole(pattern); err != nil {
			return nil, err
		}
	}
	return func(name string) bool {
		return re != nil && re.MatchString(name) ||
			slices.ContainsFunc(ends, func(end string) bool { return name == end || strings.HasSuffix(name, "."+end) })
	}, nil
}

func (set *Adapters) newAdapter(m module, c LoRA) (*adapter, error) {
	base := m.weight()
	switch {
	case base == nil:
		return nil, fmt.Errorf("LoRA: %s was not loaded", m.name)
	case base.Trained:
		return nil, fmt.Errorf("LoRA: %s is trained itself; train the one or the other", m.name)
	case m.adapter() != nil:
		return nil, fmt.Errorf("LoRA: %s has an adapter already", m.name)
	}
	ad := &adapter{set: set, module: m, scale: c.Scale(), dropout: c.Dropout}
	if m.experts != nil {
		return ad, ad.stack(c)
	}
	out, inputs := base.Shape[0], 1
	for _, d := range base.Shape[1:] {
		inputs *= d
	}
	shapeA, shapeB, conv := []int{c.Rank, inputs}, []int{out, c.Rank}, kernels.ConvShape{}
	if m.conv != nil {
		conv = base.Conv
		conv.Out = c.Rank
		shapeA, shapeB = []int{c.Rank, conv.In, conv.KH, conv.KW}, []int{out, c.Rank, 1, 1}
	}
	var err error
	r := set.root
	if stored := r.entries[base.Name].stored; m.linear != nil && len(stored) == 4 { // a linear layer that the disk has as a 1x1 convolution
		shapeA, shapeB = append(shapeA, 1, 1), append(shapeB, 1, 1)
	}
	if ad.a, err = r.drawn(m.name+".lora_A.weight", shapeA, c.begin(inputs), conv, c.Key); err == nil {
		ad.b, err = r.drawn(m.name+".lora_B.weight", shapeB, initial{}, kernels.ConvShape{}, c.Key)
	}
	return ad, err
}

// drawn is a trained parameter that no file has.
func (r *root) drawn(name string, shape []int, init initial, conv kernels.ConvShape, k rng.Key) (*entry, error) {
	e := &entry{name: name, stored: shape, init: init}
	var values safetensors.Tensor
	if r.Values[name] == nil {
		values = r.made(name, shape, func() []float32 { return init.draw(k.With(rng.Purpose(name)), product(shape)) })
	}
	var err error
	e.param, err = r.make(e, values, matrix, conv, true)
	if err == nil {
		e.param.Products = false // a pair's matrices are read where they lie
	}
	return e, err
}

func (m module) weight() *autograd.Param {
	switch {
	case m.conv != nil:
		return m.conv.W
	case m.experts != nil:
		return m.experts.Layers[0].W
	}
	return m.linear.W
}

func (m module) adapter() *adapter {
	switch {
	case m.conv != nil:
		return m.conv.lora
	case m.experts != nil:
		return m.experts.lora
	}
	return m.linear.lora
}

// Params are the pairs' parameters.
func (s *Adapters) Params() []*autograd.Param {
	var all []*autograd.Param
	for _, ad := range s.list {
		all = append(all, ad.a.param, ad.b.param)
	}
	return all
}

// Modules are the names of the layers that have a pair.
func (s *Adapters) Modules() []string {
	var all []string
	for _, ad := range s.list {
		all = append(all, ad.module.name)
	}
	return all
}

// Tensors are the pairs for writing, in fp32, named prefix + module + ".lora_A.weight": the prefix is
// "base_model.model." in PEFT's files and "transformer." or "unet." in diffusers'. Their values are read when they are
// written.
func (s *Adapters) Tensors(prefix string) []safetensors.Tensor {
	var all []safetensors.Tensor
	for _, ad := range s.list {
		all = append(all, ad.a.later(prefix+ad.a.name), ad.b.later(prefix+ad.b.name))
	}
	return all
}

// Load reads all pairs from files that Tensors' names fit.
func (s *Adapters) Load(src Source, prefix string) error {
	names := src.Names()
	for _, ad := range s.list {
		for _, e := range []*entry{ad.a, ad.b} {
			if !slices.Contains(names, prefix+e.name) {
				return fmt.Errorf("LoRA: %s%s: missing%s", prefix, e.name, nearHint(prefix+e.name, names))
			}
			if err := s.root.reload(e, src, prefix); err != nil {
				return fmt.Errorf("LoRA: %w", err)
			}
		}
	}
	return nil
}

// reload puts other values into a trained parameter.
func (r *root) reload(e *entry, src Source, prefix string) error {
	t, err := src.Tensor(prefix + e.name)
	if err != nil {
		return err
	}
	if !slices.Equal(squeeze(t.Shape), squeeze(e.stored)) {
		return fmt.Errorf("%s: its shape is %v, the adapter's %v", t.Name, t.Shape, e.stored)
	}
	u, err := r.upload(t, e.param.Shape, e.param.Conv, true)
	if err != nil {
		return err
	}
	defer u.Free()
	n := u.Len()
	r.Pool.Backend().Copy(&kernels.Copy{Src: u.Span(), Dst: e.param.Value.Span(), Shape: [5]int{1, 1, 1, 1, n},
		SrcStride: [5]int{4: 1}, DstStride: [5]int{4: 1}})
	e.param.Updated()
	return nil
}

// Join takes the pairs of another set of the same model in: they are switched and merged
// together from now on.
func (s *Adapters) Join(o *Adapters) {
	for _, ad := range o.list {
		ad.set = s
	}
	s.list = append(s.list, o.list...)
	o.list = nil
}

// An adapter's effect on its layer's output (lora.go).

// put makes the layer use the adapter.
func (ad *adapter) put() {
	switch m := ad.module; {
	case m.conv != nil:
		m.conv.lora = ad
	case m.experts != nil:
		m.experts.lora = ad
	default:
		m.linear.lora = ad
	}
	r := ad.set.root
	for _, e := range []*entry{ad.a, ad.b} {
		r.entries[e.name] = e
		r.order = append(r.order, e)
	}
}

func (ad *adapter) active() bool { return ad != nil && ad.set.On && !ad.set.merged }

// linear is the layer with its adapter.
func (ad *adapter) linear(tp *autograd.Tape, l *Linear, x *autograd.Value, o autograd.With) *autograd.Value {
	alpha := ad.scale
	if o.Alpha != 0 {
		alpha *= o.Alpha
	}
	last := o
	if o.Act != kernels.Identity {
		o.Gate, o.Residual, o.Act, o.Wide = nil, nil, kernels.Identity, true
		o.Leave() // the steps after the activation are made elsewhere
		o.Place = autograd.Place{}
	}
	y := tp.Adapted(x, l.W, autograd.LowRank{A: ad.a.param, B: ad.b.param, Scale: alpha, X: ad.drop(tp, x)}, o)
	if last.Act == kernels.Identity {
		return y
	}
	return finish(tp, y, last)
}

// finish is the rest after the sum where there is an activation.
func finish(tp *autograd.Tape, y *autograd.Value, o autograd.With) *autograd.Value {
	z := tp.Unary(o.Act, y)
	tp.Release(y)
	switch {
	case o.Gate != nil && o.Residual != nil:
		return tp.Gated(z, o.Gate, o.Residual)
	case o.Residual != nil:
		return tp.Add(z, o.Residual)
	case o.Gate != nil || o.Wide:
		panic("nn: a layer with an adapter and an activation has no gate of its own, nor an f32 result")
	}
	return z
}

// conv is the layer with its adapter: A has the layer's kernel, B is 1x1.
func (ad *adapter) conv(tp *autograd.Tape, c *Conv, x *autograd.Value, o autograd.ConvWith) *autograd.Value {
	h := tp.Conv(ad.drop(tp, x), ad.a.param, autograd.ConvWith{})
	o.Residual = tp.Linear(h, ad.b.param, autograd.With{Alpha: ad.scale, Residual: o.Residual, Wide: true})
	y := tp.Conv(x, c.W, o)
	tp.Release(h, o.Residual)
	return y
}

func (ad *adapter) drop(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	return tp.Dropout(x, ad.dropout, rng.Purpose(ad.module.name))
}

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

// stacked is the pair's addition to rows that are sorted by their expert.
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

// Merging: W + s·B A takes the place of the packed base weight. Nothing of the base is
// kept aside: Unmerge reads the stored weight again and packs it, which gives the bytes
// that it had (packing is a function of the stored weight). So the source must be open.
//
// Invariant (tests): after Unmerge every packed byte is as before.

// Merge folds the adapters into the base. Layers then cost as much as the base's.
func (s *Adapters) Merge() error {
	if s.merged {
		return nil
	}
	if err := s.rebuild(true); err != nil {
		return err
	}
	s.merged = true
	return nil
}

// Unmerge restores the base exactly, with its adapters beside it.
func (s *Adapters) Unmerge() error {
	if !s.merged {
		return nil
	}
	if err := s.rebuild(false); err != nil {
		return err
	}
	s.merged = false
	return nil
}

// rebuild packs each base weight anew from storage, with the adapter's product or
// without. All are read before the first is replaced: an error leaves nothing half done
// (at the price of a second packed copy of these layers for that moment).
func (s *Adapters) rebuild(with bool) error {
	for _, ad := range s.list {
		if ad.module.experts != nil {
			return fmt.Errorf("LoRA: %s: an adapter on experts cannot be merged", ad.module.name)
		}
	}
	fresh := make([]*kernels.Packed, len(s.list))
	for i, ad := range s.list {
		w, err := ad.packed(with)
		if err != nil {
			for _, f := range fresh[:i] {
				s.root.Pool.Drop(f)
			}
			return err
		}
		fresh[i] = w
	}
	for i, ad := range s.list {
		ad.module.weight().Repack(fresh[i])
	}
	return nil
}

func (ad *adapter) packed(with bool) (*kernels.Packed, error) {
	r, base := ad.set.root, ad.module.weight()
	src, err := r.read(r.entries[base.Name])
	if err != nil {
		return nil, err
	}
	t, err := r.upload(src, base.Shape, base.Conv, with)
	if err != nil {
		return nil, err
	}
	defer t.Free()
	if with {
		n := base.Shape[0]
		a, b := ad.a.param, ad.b.param
		k := a.Value.Len() / a.Shape[0]
		r.Pool.Backend().Gemm(&kernels.Gemm{Layout: kernels.NN, Math: kernels.MathF32, A: kernels.NewMat(b.Value.Span(), n, a.Shape[0]),
			B: kernels.NewMat(a.Value.Span(), a.Shape[0], k), C: kernels.NewMat(t.Span(), n, k), Alpha: ad.scale, Accumulate: true})
	}
	return r.pack(t, base.Conv), nil
}
