package diagnosis

import (
	"math"
	"math/rand/v2"
	"testing"
)

// trial is a small problem for policy gradients: a point in four dimensions is drawn around θ, the nearer to (1, 1, 1,
// 1) the better, and θ follows by Adam and a clipped ratio. Rounding disturbs log-probabilities,
// and θ is kept in grains.
type trial struct {
	group, groups int
	exact         bool    // the reward is 1 within reach of the goal, and else 0
	noise         float64 // of the reward
	keeps         float64 // of the gradient, by the step that draws
	eps, lr, clip float64
	floor, grain  float64 // of log-probabilities; of θ
}

// soundTrial has none of the causes.
func soundTrial() trial {
	return trial{group: 12, groups: 2, keeps: 1, eps: 1e-8, lr: 0.01, clip: 0.7, floor: 1e-4}
}

const dimensions = 4

// run returns the first iteration's measurements, and how much nearer θ gets in some iterations, as a share of the
// whole way.
func (c trial) run(iterations int) (first Measured, gain float64) {
	r := rand.New(rand.NewPCG(7, 11))
	var theta, m, v [dimensions]float64
	for n := range iterations {
		var draws [][dimensions]float64
		var advantages []float64
		dead, spread := 0, 0.0
		for range c.groups {
			var totals []float64
			for range c.group {
				var e [dimensions]float64
				far := 0.0
				for i := range e {
					e[i] = r.NormFloat64() / 4
					far += (theta[i] + e[i] - 1) * (theta[i] + e[i] - 1)
				}
				total := -math.Sqrt(far)
				if c.exact {
					total = map[bool]float64{true: 1}[far < 0.01]
				}
				draws, totals = append(draws, e), append(totals, total+c.noise*r.NormFloat64())
			}
			a, deviation := standardised(totals)
			advantages, spread = append(advantages, a...), spread+deviation/float64(c.groups)
			if deviation == 0 {
				dead++
			}
		}
		var logs []float64
		before := theta
		for u := range 2 { // two updates, so that the clip has something to cut
			var g [dimensions]float64
			for k, e := range draws {
				log := c.floor * r.NormFloat64()
				for i := range e {
					log += c.keeps * 16 * e[i] * (theta[i] - before[i])
				}
				if ratio := math.Exp(log); advantages[k] > 0 && ratio > 1+c.clip || advantages[k] < 0 && ratio < 1-c.clip {
					continue
				}
				for i := range e {
					g[i] += advantages[k] * c.keeps * 16 * e[i] / float64(len(draws))
				}
			}
			size := 0.0
			for i := range theta {
				m[i], v[i] = 0.9*m[i]+0.1*g[i], 0.99*v[i]+0.01*g[i]*g[i]
				size += g[i] * g[i] / dimensions
				at := float64(2*n + u + 1)
				next := theta[i] + c.lr*m[i]/(1-math.Pow(0.9, at))/(math.Sqrt(v[i]/(1-math.Pow(0.99, at)))+c.eps)
				if c.grain > 0 {
					next = math.Round(next/c.grain) * c.grain
				}
				theta[i] = next
			}
			if size = math.Sqrt(size); n == 0 && u == 0 {
				first.Element = &size
			}
		}
		if n == 0 {
			for _, e := range draws {
				log := 0.0
				for i := range e {
					log += c.keeps * 16 * e[i] * (theta[i] - before[i])
				}
				logs = append(logs, log)
			}
			first.Group, first.Groups, first.Dead, first.Spread = c.group, c.groups, dead, spread
			first.Noise, first.Floor, first.Clip, first.Eps, first.Rate = &c.noise, &c.floor, c.clip, c.eps, c.lr
			first.Ratios = RatiosOf(logs, c.clip)
		}
	}
	left := 0.0
	for _, x := range theta {
		left += (x - 1) * (x - 1)
	}
	return first, 1 - math.Sqrt(left)/2
}

// standardised are totals less their mean, by their deviation.
func standardised(x []float64) (out []float64, deviation float64) {
	mean := 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		deviation += (v - mean) * (v - mean) / float64(len(x))
	}
	deviation = math.Sqrt(deviation)
	for _, v := range x {
		out = append(out, (v-mean)/(deviation+1e-9))
	}
	return out, deviation
}

// TestRemedies: each cause that is planted is found, and nothing else; with its remedy it is not found any more, and
// the reward rises as it did not before.
func TestRemedies(t *testing.T) {
	if m, gain := soundTrial().run(20); len(m.Findings()) > 0 || gain < 0.3 {
		t.Errorf("nothing was planted: %v, gain %.2f", m.Findings(), gain)
	}
	for _, c := range []struct {
		cause         string
		plant, remedy func(c *trial)
		most          float64 // of the gain with the remedy, without it
	}{
		{"dead", func(c *trial) { c.exact = true }, func(c *trial) { c.exact = false }, 0.02},
		{"noise", func(c *trial) { c.noise = 3 }, func(c *trial) { c.noise = 0.02 }, 0.4},
		// As many samples, of fewer prompts: pairs cost little where prompts are alike and a step averages over many.
		{"group", func(c *trial) { c.group, c.groups = 2, 12 }, func(c *trial) { c.group, c.groups = GroupFor(0.1, 1, 0), 2 }, 0.95},
		{"vanishing", func(c *trial) { c.keeps, c.eps, c.floor = 1e-9, 1e-5, 0 }, func(c *trial) { c.eps = 1e-12 }, 0.02},
		{"clip", func(c *trial) { c.clip = 1e-6 }, func(c *trial) { c.clip = 0.7 }, 0.75},
		{"swallowed", func(c *trial) { c.grain, c.lr = 1./128, 1e-4 }, func(c *trial) { c.lr *= 100 }, 0.02},
	} {
		planted := soundTrial()
		c.plant(&planted)
		mended := planted
		c.remedy(&mended)
		m, before := planted.run(20)
		after, gain := mended.run(20)
		t.Logf("%s: of the way to the goal %.3f, with its remedy %.3f", c.cause, before, gain)
		if found := m.Findings(); len(found) != 1 || found[0].Cause != c.cause {
			t.Errorf("%s was planted, and found %v", c.cause, found)
		}
		if found := after.Findings(); len(found) > 0 {
			t.Errorf("%s was mended, and found %v", c.cause, found)
		}
		if before > c.most*gain || gain < 0.3 {
			t.Errorf("%s: %.3f without its remedy, and %.3f with it", c.cause, before, gain)
		}
	}
}
