package vlm

import (
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/portable"
)

// Card: rotary embeddings. Pair i of a head's n numbers turns by at · f[i], f[i] = 1 / theta^(2i/n), every step of it
// rounded to fp32 as in transformers' modeling_rope_utils. "linear" divides every frequency by the factor. "yarn"
// (Peng et al., 2023, arXiv 2309.00071) divides those that turn less than beta_slow times within the original context,
// keeps those that turn more than beta_fast times, mixes those between, and multiplies cosines and sines by
// 1 + 0.1 ln(factor). A tower's frequencies are plain.

// rope is rope_parameters of transformers 5, and rope_scaling of the versions before.
type rope struct {
	Sections    []int    `json:"mrope_section"`
	Interleaved *bool    `json:"mrope_interleaved"`
	Theta       *float64 `json:"rope_theta"`
	Turning     *float64 `json:"partial_rotary_factor"`
	Type        string   `json:"rope_type"`
	OldType     string   `json:"type"`

	Factor    *float64 `json:"factor"`
	Original  *float64 `json:"original_max_position_embeddings"`
	Attention *float64 `json:"attention_factor"`
	Fast      *float64 `json:"beta_fast"`
	Slow      *float64 `json:"beta_slow"`
	Scale     *float64 `json:"mscale"`
	ScaleAll  *float64 `json:"mscale_all_dim"`
	Truncate  *bool    `json:"truncate"`
}

// Kinds of frequencies.
const (
	linearRope = "linear"
	yarnRope   = "yarn"
)

// kind is "" for plain frequencies.
func (r *rope) kind() string {
	if r == nil {
		return ""
	}
	kind := r.Type
	if kind == "" {
		kind = r.OldType
	}
	if kind == linearRope || kind == yarnRope {
		return kind
	}
	return ""
}

// rope is the one of both forms that counts.
func (t TextConfig) rope() *rope {
	if t.Parameters != nil {
		return t.Parameters
	}
	return t.Scaling
}

// settleRope adds settings that older files have at their top level.
func (t *TextConfig) settleRope() {
	for _, r := range []*rope{t.Scaling, t.Parameters} {
		if r == nil {
			continue
		}
		if r.Sections != nil {
			t.Sections = r.Sections
		}
		if r.Theta != nil {
			t.Theta = *r.Theta
		}
		if r.Turning != nil {
			t.Turning = *r.Turning
		}
	}
}

// checkRope refuses frequencies of other kinds.
func (t TextConfig) checkRope(l *hub.Limits) {
	l.Float("rope_theta", t.Theta, 1, 1e12)
	known := []string{"", "default", "mrope", linearRope, yarnRope}
	for _, r := range []*rope{t.Scaling, t.Parameters} {
		if r == nil {
			continue
		}
		for _, kind := range []string{r.Type, r.OldType} {
			l.Must(slices.Contains(known, kind), `"rope_type" is %q; "default", "mrope", "linear" and "yarn" are known`, kind)
		}
	}
	r := t.rope()
	if r.kind() == "" {
		return
	}
	l.Must(r.Factor != nil, `"factor" of "rope_parameters" is missing; %q divides frequencies by it`, r.kind())
	l.Float("rope_parameters.factor", or(r.Factor, 1), 1, 1e6)
	if r.kind() == linearRope {
		return
	}
	l.Must(t.Theta > 1, `"rope_theta" is %v; "yarn" divides by its logarithm`, t.Theta)
	l.Float("rope_parameters.original_max_position_embeddings", t.original(), 1, 1e9)
	l.Float("rope_parameters.attention_factor", or(r.Attention, 1), 0, 1e6)
	l.Float("rope_parameters.beta_fast", or(r.Fast, 32), 1e-6, 1e6)
	l.Float("rope_parameters.beta_slow", or(r.Slow, 1), 1e-6, 1e6)
	l.Float("rope_parameters.mscale", or(r.Scale, 1), 0, 1e6)
	l.Float("rope_parameters.mscale_all_dim", or(r.ScaleAll, 1), 0, 1e6)
}

// original is the length of context that the frequencies were trained at.
func (t TextConfig) original() float64 { return or(t.rope().Original, float64(t.Longest)) }

func or(v *float64, otherwise float64) float64 {
	if v == nil || *v == 0 {
		return otherwise
	}
	return *v
}

// frequencies are those of the language model's pairs, and the factor of cosines and sines.
func (t TextConfig) frequencies() (f []float32, scale float32) {
	f, scale = frequencies(t.Theta, t.turning()), 1
	r := t.rope()
	switch factor := 0.0; r.kind() {
	case linearRope:
		factor = *r.Factor
		for i := range f {
			f[i] /= float32(factor)
		}
	case yarnRope:
		factor = *r.Factor
		low, high := t.ramp()
		width := float32(high - low)
		if low == high {
			width = 0.001
		}
		for i, power := range powers(t.Theta, t.turning()) {
			slow := min(max((float32(i)-float32(low))/width, 0), 1)
			fast := 1 - slow
			f[i] = float32(1/float32(float32(factor)*power)*(1-fast)) + float32(f[i]*fast)
		}
		scale = float32(r.attention(factor))
	}
	return f, scale
}

// ramp is the pairs that mixed frequencies lie between.
func (t TextConfig) ramp() (low, high float64) {
	r, n := t.rope(), float64(t.turning())
	at := func(turns float64) float64 {
		return n * portable.Log(t.original()/(turns*2*math.Pi)) / (2 * portable.Log(t.Theta))
	}
	low, high = at(or(r.Fast, 32)), at(or(r.Slow, 1))
	if r.Truncate == nil || *r.Truncate {
		low, high = math.Floor(low), math.Ceil(high)
	}
	return max(low, 0), min(high, n-1)
}

// attention is yarn's factor of cosines and sines.
func (r *rope) attention(factor float64) float64 {
	scaled := func(by float64) float64 {
		if factor <= 1 {
			return 1
		}
		return float64(0.1*by*portable.Log(factor)) + 1
	}
	switch {
	case r.Attention != nil:
		return *r.Attention
	case or(r.Scale, 0) != 0 && or(r.ScaleAll, 0) != 0:
		return scaled(*r.Scale) / scaled(*r.ScaleAll)
	}
	return scaled(1)
}

// angles are the cosines and sines of tokens' pairs, [tokens, pairs] on the tape.
type angles struct{ cos, sin *autograd.Value }

// powers are theta^(2i/n) of n/2 pairs.
func powers(theta float64, n int) []float32 {
	f := make([]float32, n/2)
	for i := range f {
		f[i] = float32(portable.Pow(theta, float64(float32(2*i)/float32(n))))
	}
	return f
}

// frequencies are 1 / theta^(2i/n) of n/2 pairs.
func frequencies(theta float64, n int) []float32 {
	f := powers(theta, n)
	for i := range f {
		f[i] = 1 / f[i]
	}
	return f
}

// turned makes angles of rows of (place, frequency), cosines and sines times scale.
func turned(tp *autograd.Tape, tokens, pairs int, scale float32, angle func(token, pair int) float32) angles {
	cos, sin := make([]float32, 0, tokens*pairs), make([]float32, 0, tokens*pairs)
	for t := range tokens {
		for p := range pairs {
			s, c := nn.Sincos(float64(angle(t, p)))
			cos, sin = append(cos, float32(c)*scale), append(sin, float32(s)*scale)
		}
	}
	upload := func(x []float32) *autograd.Value {
		t := tp.Pool().FromF32(kernels.F32, x, tokens, pairs)
		defer t.Free()
		return tp.Input(t)
	}
	return angles{upload(cos), upload(sin)}
}

// part turns the first numbers of each head of [1, tokens, heads n], as many as there are angles for.
func (a angles) part(tp *autograd.Tape, x *autograd.Value, heads int) *autograd.Value {
	tokens, n, turning := x.Dim(1), x.Dim(2)/heads, 2*a.cos.Dim(-1)
	if turning == n {
		return a.apply(tp, x, heads)
	}
	parts := tp.Split(tp.Reshape(x, 1, tokens, heads, n), 3, turning, n-turning)
	turned := a.apply(tp, tp.Reshape(parts[0], 1, tokens, heads*turning), heads)
	return tp.Reshape(tp.Concat(3, tp.Reshape(turned, 1, tokens, heads, turning), parts[1]), 1, tokens, heads*n)
}

func (a angles) apply(tp *autograd.Tape, x *autograd.Value, heads int) *autograd.Value {
	return tp.Rope(x, heads, a.cos, a.sin, kernels.RopeHalves)
}
