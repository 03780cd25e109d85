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

// LoRA says where adapters go and what they are.
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
		values = safetensors.FromF32(name, shape, init.draw(k.With(rng.Purpose(name)), product(shape)))
	}
	var err error
	e.param, err = r.make(e, values, matrix, conv, true)
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

// Tensors are the pairs for writing, in fp32, named prefix + module + ".lora_A.weight":
// the prefix is "base_model.model." in PEFT's files and "transformer." or "unet." in
// diffusers'.
func (s *Adapters) Tensors(prefix string) []safetensors.Tensor {
	var all []safetensors.Tensor
	for _, ad := range s.list {
		all = append(all, ad.a.export(prefix+ad.a.name, ad.a.param.Value), ad.b.export(prefix+ad.b.name, ad.b.param.Value))
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
