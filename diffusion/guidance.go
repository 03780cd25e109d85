package diffusion

import "math"

// Guidance combines what a network says with the prompt and without it (Ho and Salimans,
// 2022), v = u + w·(c - u), and two ways to keep the result's size:
//
//	norm     v·|c|/|v| over the last axis (Qwen-Image)
//	rescale  r·v·std(c)/std(v) + (1-r)·v over a sample, deviation with n-1 (Lin et al., 2023)

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

// Rescale gives one guided sample the deviation of the conditional one, to the degree r.
func Rescale(guided, cond []float64, r float64) []float64 {
	scale := deviation(cond) / deviation(guided)
	v := make([]float64, len(guided))
	for i, g := range guided {
		v[i] = float64(r*g*scale) + float64((1-r)*g)
	}
	return v
}

func deviation(x []float64) float64 {
	mean, squares := 0.0, 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		squares += float64((v - mean) * (v - mean))
	}
	return math.Sqrt(squares / float64(len(x)-1))
}

// NoisedVP is a clean sample noised to a share a of signal, and the velocity there:
// √a·x0 + √(1-a)·e and √a·e - √(1-a)·x0.
func NoisedVP(clean, noise []float64, a float64) (x, velocity []float64) {
	signal, sigma := math.Sqrt(a), math.Sqrt(1-a)
	for i, c := range clean {
		x = append(x, float64(signal*c)+float64(sigma*noise[i]))
		velocity = append(velocity, float64(signal*noise[i])-float64(sigma*c))
	}
	return x, velocity
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
