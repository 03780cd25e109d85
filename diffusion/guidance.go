// Package diffusion is the pipelines: from a prompt to a trajectory to pixels.
//
// guidance and pack.go are its arithmetic in float64; the networks are one package a
// family below it.
package diffusion

import "math"

// Guidance combines a network's outputs with the prompt and without it (Ho and Salimans, 2022), v = u + w·(c - u),
// and the ways to keep the result's size:
//
//	norm     v·|c|/|v| over the last axis (Qwen-Image)
//	most     v·min(1, k·|c|/|v|) over the whole sample (Z-Image's cfg_normalization k)

// Guide is v = u + scale·(c - u).
func Guide(uncond, cond []float64, scale float64) []float64 {
	v := make([]float64, len(cond))
	for i, c := range cond {
		v[i] = uncond[i] + float64(scale*(c-uncond[i]))
	}
	return v
}

// GuideNorm is Guide with every row of width as long as the conditional one; a row of zeros stays, and has no gradient.
func GuideNorm(uncond, cond []float64, scale float64, width int) []float64 {
	v := Guide(uncond, cond, scale)
	for at := 0; at+width <= len(v); at += width {
		var own, want float64
		for i := at; i < at+width; i++ {
			own, want = own+float64(v[i]*v[i]), want+float64(cond[i]*cond[i])
		}
		for i := at; i < at+width && own > 0; i++ {
			v[i] *= math.Sqrt(want) / math.Sqrt(own)
		}
	}
	return v
}

// GuideMost is Guide, no longer than a multiple of the conditional prediction.
func GuideMost(uncond, cond []float64, scale, most float64) []float64 {
	v := Guide(uncond, cond, scale)
	own, want := length(v), most*length(cond)
	if own > want {
		for i := range v {
			v[i] *= want / own
		}
	}
	return v
}

// GuideMostGrad takes a gradient at GuideMost's result to the two outputs: GuideGrad's of one row where the bound
// holds, with |c| times most, and of Guide where it does not.
func GuideMostGrad(uncond, cond []float64, scale, most float64, g []float64) (du, dc []float64) {
	if length(Guide(uncond, cond, scale)) <= most*length(cond) {
		return GuideGrad(uncond, cond, scale, 0, g)
	}
	du, dc = GuideGrad(uncond, cond, scale, len(g), g)
	for i := range du {
		du[i], dc[i] = most*du[i], most*dc[i]
	}
	return du, dc
}

func length(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += float64(v * v)
	}
	return math.Sqrt(sum)
}

// GuideGrad takes a gradient at Guide's result, or at GuideNorm's where width is not 0, to
// the two outputs. With m = u + w·(c - u) and, row by row, v = m·|c|/|m|,
//
//	dm = |c|/|m| · (g - <g, m>·m/|m|²),  dc = w·dm + <g, m>/|m| · c/|c|,  du = (1-w)·dm
//
// Invariant (test): finite differences agree.
func GuideGrad(uncond, cond []float64, scale float64, width int, g []float64) (du, dc []float64) {
	du, dc = make([]float64, len(g)), make([]float64, len(g))
	if width == 0 {
		for i, v := range g {
			du[i], dc[i] = (1-scale)*v, scale*v
		}
		return du, dc
	}
	m := Guide(uncond, cond, scale)
	for at := 0; at+width <= len(g); at += width {
		var own, want, along float64
		for i := at; i < at+width; i++ {
			own, want = own+float64(m[i]*m[i]), want+float64(cond[i]*cond[i])
			along += float64(g[i] * m[i])
		}
		own, want = math.Sqrt(own), math.Sqrt(want)
		for i := at; i < at+width && own > 0 && want > 0; i++ {
			dm := want / own * (g[i] - along*m[i]/(own*own))
			du[i], dc[i] = (1-scale)*dm, float64(scale*dm)+along/own*cond[i]/want
		}
	}
	return du, dc
}
