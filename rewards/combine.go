package rewards

import (
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/portable"
)

// Several rewards of a sample become one:
//
//	sum       Σ w·x            x is a part's score, scaled; where its gate is closed, x is the gate's else
//	product   Π x^w            scores below 0 count as 0: one bad part spoils the sample
//	least     min w·x          the weakest part decides
//	harmonic  Σw / Σ(w/x)      near the weakest part; 0 where one is at most 0
//	ensemble  m - λ·Σw(x-m)²/Σw, m = Σw·x/Σw: judges of one thing, who are believed where they agree (Coste et al.,
//	          2024, whose other rule is least); a sample that only one of them likes, such as a hack, is worth less
//
//	own      a prompt may have weights of its own for some parts. A part that it gives the weight 0 does not
//	         count for it, and is not missing
//	weights  as they are given (flow_grpo, Flow-Factory, Pref-GRPO), or with Shares divided by
//	         their sum, all zero meaning all equal (MixGRPO)
//	scale    the values that become 0 and 1 (a known range), or the batch's mean and deviation; comparing
//	         every reward within its group comes after, as combine = "advantages"
//	gate     a part counts only where another reward is good enough: style once the words are
//	         right
//	missing  a sample with any of its rewards missing has none; with Partial it has the sum of
//	         those that are there (TRL). Upstreams train on 0 (MixGRPO) or -1 (DanceGRPO); here
//	         neither can be asked for
//
// Invariants (tests): one part of weight 1 is that reward; the order of parts does not matter;
// a missing reward changes no other sample.
type Combination struct {
	Parts []Part
	By    string // "sum", "product", "least", "harmonic" or "ensemble"; "": sum

	Disagreement float64 // λ of ensemble
	Shares       bool    `toml:"shares" doc:"weights are divided by their sum"`
	Partial      bool    `toml:"partial" doc:"add up the rewards that are there"`
}

// A Part is one reward of a combination.
type Part struct {
	Name   string  `toml:"name"`
	Weight float64 `toml:"weight" doc:"share of the sum"`
	Scale  Scale   `toml:"scale"`
	Gate   Gate    `toml:"gate"`
}

// Scale brings rewards of different sizes together.
type Scale struct {
	Kind  string  `toml:"kind" enum:"none,range,batch" doc:"range: low becomes 0 and high 1; batch: mean 0 and deviation 1"`
	Low   float64 `toml:"low" doc:"of range"`
	High  float64 `toml:"high" doc:"of range"`
	Clamp bool    `toml:"clamp" doc:"of range: nothing below 0 nor above 1"`
}

// Gate closes a part where another reward is too low.
type Gate struct {
	By      string  `toml:"by" doc:"name of the reward that must be good enough; empty: always open"`
	AtLeast float64 `toml:"at_least" doc:"what it must reach, before it is scaled"`
	Else    float64 `toml:"else" doc:"what the part counts where it does not"`
}

// Check reports settings that contradict each other.
func (c Combination) Check(report func(key, problem, hint string)) {
	for i, p := range c.Parts {
		key := fmt.Sprintf("parts[%d].", i)
		if p.Scale.Kind == "range" && !(p.Scale.Low < p.Scale.High) {
			report(key+"scale.low|scale.high", "the range is empty", "low is what becomes 0, high what becomes 1")
		}
		switch {
		case p.Gate.By == "":
		case p.Gate.By == p.Name:
			report(key+"gate.by", "a reward cannot be its own gate", `scale = { kind = "range", clamp = true } cuts it`)
		case c.place(p.Gate.By) < 0:
			report(key+"gate.by", fmt.Sprintf("no reward is called %q", p.Gate.By), "")
		}
	}
	for i, p := range c.Parts {
		if !c.Adds() && p.Weight < 0 {
			report(fmt.Sprintf("parts[%d].weight", i), fmt.Sprintf("rewards that are combined by %q have no weights below 0", c.By), `combine = "sum" takes them off`)
			return
		}
	}
	if _, err := c.Weights(); err != nil {
		report("shares", err.Error(), "")
	}
}

// Of combines scores[part][sample]; NaN is missing.
func (c Combination) Of(scores [][]float64) ([]float64, error) { return c.For(nil, scores) }

// For is Of where samples have weights of their own, by the names of parts; own[sample] may be nil.
func (c Combination) For(own []map[string]float64, scores [][]float64) ([]float64, error) {
	join, err := c.join()
	if err != nil {
		return nil, err
	}
	parts, err := c.Each(scores)
	if err != nil {
		return nil, err
	}
	usual, err := c.Weights()
	if err != nil {
		return nil, err
	}
	all := make([]float64, len(scores[0]))
	for i := range all {
		weights, left := usual, func(int) bool { return false }
		if i < len(own) && own[i] != nil {
			if weights, err = c.WeightsFor(own[i]); err != nil {
				return nil, err
			}
			left = func(k int) bool { v, ok := own[i][c.Parts[k].Name]; return ok && v == 0 }
		}
		var x, w []float64
		for k, part := range parts {
			if left(k) || c.Partial && math.IsNaN(part[i]) {
				continue
			}
			x, w = append(x, part[i]), append(w, weights[k])
		}
		if all[i] = math.NaN(); len(x) > 0 && !slices.ContainsFunc(x, math.IsNaN) {
			all[i] = join(x, w)
		}
	}
	return all, nil
}

// Each is every part by itself, scaled and gated, for those who compare before they add up.
func (c Combination) Each(scores [][]float64) ([][]float64, error) {
	if len(scores) != len(c.Parts) || len(scores) == 0 {
		return nil, fmt.Errorf("%d rewards were given for the %d of the combination", len(scores), len(c.Parts))
	}
	var all [][]float64
	for k, p := range c.Parts {
		if len(scores[k]) != len(scores[0]) {
			return nil, fmt.Errorf("reward %q has %d values, reward %q %d", p.Name, len(scores[k]), c.Parts[0].Name, len(scores[0]))
		}
		part, err := c.gated(k, scores)
		if err != nil {
			return nil, err
		}
		all = append(all, part)
	}
	return all, nil
}

// Weights are those of parts.
func (c Combination) Weights() ([]float64, error) { return c.WeightsFor(nil) }

// WeightsFor are those of parts for a sample that has some weights of its own.
func (c Combination) WeightsFor(own map[string]float64) ([]float64, error) {
	weights, total := make([]float64, len(c.Parts)), 0.0
	for k, p := range c.Parts {
		if weights[k] = p.Weight; own != nil {
			if w, ok := own[p.Name]; ok {
				weights[k] = w
			}
		}
		total += weights[k]
	}
	if !c.Shares {
		return weights, nil
	}
	if !slices.ContainsFunc(weights, func(w float64) bool { return w != 0 }) {
		for k := range weights {
			weights[k] = 1 / float64(len(weights))
		}
		return weights, nil
	}
	if !(total > 0) {
		return nil, fmt.Errorf("weights that add up to %v have no shares: give weights as they are (shares = false)", total)
	}
	for k := range weights {
		weights[k] /= total
	}
	return weights, nil
}

// gated is a part's scaled reward, or its replacement where its gate is closed. A gate that is missing leaves the
// part missing.
func (c Combination) gated(k int, scores [][]float64) ([]float64, error) {
	p := c.Parts[k]
	out := p.Scale.of(scores[k])
	if p.Gate.By == "" {
		return out, nil
	}
	by := c.place(p.Gate.By)
	if by < 0 {
		return nil, fmt.Errorf("the gate of reward %q is %q, which is not among the rewards", p.Name, p.Gate.By)
	}
	for i, v := range scores[by] {
		switch {
		case math.IsNaN(v):
			out[i] = v
		case v < p.Gate.AtLeast:
			out[i] = p.Gate.Else
		}
	}
	return out, nil
}

func (c Combination) place(name string) int {
	return slices.IndexFunc(c.Parts, func(p Part) bool { return p.Name == name })
}

// of is x scaled, in a copy.
func (s Scale) of(x []float64) []float64 {
	out := slices.Clone(x)
	low, high := 0.0, 1.0
	switch s.Kind {
	case "range":
		low, high = s.Low, s.High
	case "batch":
		low, high = moments(x)
	}
	if low == 0 && high == 1 && !s.Clamp {
		return out
	}
	for i, v := range out {
		if out[i] = (v - low) / (high - low); s.Kind == "range" && s.Clamp {
			out[i] = math.Min(math.Max(out[i], 0), 1)
		}
	}
	return out
}

// moments are the mean of the present values, and the mean plus a deviation; where nothing deviates, plus 1.
func moments(x []float64) (mean, above float64) {
	n := 0.0
	for _, v := range x {
		if !math.IsNaN(v) {
			n, mean = n+1, mean+(v-mean)/(n+1)
		}
	}
	squares := 0.0
	for _, v := range x {
		if !math.IsNaN(v) {
			squares += float64((v - mean) * (v - mean))
		}
	}
	if squares == 0 {
		return mean, mean + 1
	}
	return mean, mean + math.Sqrt(squares/n)
}

// Adds reports whether parts are added up.
func (c Combination) Adds() bool { return c.By == "" || c.By == "sum" }

// join is the rule: x are a sample's parts that are there, w their weights.
func (c Combination) join() (func(x, w []float64) float64, error) {
	switch c.By {
	case "", "sum":
		return sum, nil
	case "product":
		return product, nil
	case "least":
		return least, nil
	case "harmonic":
		return harmonic, nil
	case "ensemble":
		return func(x, w []float64) float64 { return ensemble(x, w, c.Disagreement) }, nil
	}
	return nil, fmt.Errorf("rewards cannot be combined by %q: there are sum, product, least, harmonic and ensemble", c.By)
}

func sum(x, w []float64) (all float64) {
	for k, v := range x {
		all += float64(w[k] * v)
	}
	return all
}

// product is the weighted geometric mean where weights are shares.
func product(x, w []float64) float64 {
	all := 1.0
	for k, v := range x {
		switch v = max(v, 0); {
		case w[k] == 0:
		case w[k] == 1:
			all *= v
		default:
			all *= portable.Pow(v, w[k])
		}
	}
	return all
}

// least leaves parts of weight 0 out, such as gates.
func least(x, w []float64) float64 {
	all := math.Inf(1)
	for k, v := range x {
		if w[k] != 0 {
			all = min(all, float64(w[k]*v))
		}
	}
	if math.IsInf(all, 1) {
		return 0
	}
	return all
}

func harmonic(x, w []float64) float64 {
	weights, inverse := 0.0, 0.0
	for k, v := range x {
		switch {
		case w[k] == 0:
			continue
		case v <= 0:
			return 0
		}
		weights, inverse = weights+w[k], inverse+w[k]/v
	}
	if inverse == 0 {
		return 0
	}
	return weights / inverse
}

// ensemble is the mean of judges of one thing, less the penalty times their variance.
func ensemble(x, w []float64, penalty float64) float64 {
	weights, sum := 0.0, 0.0
	for k, v := range x {
		weights, sum = weights+w[k], sum+float64(w[k]*v)
	}
	if weights == 0 {
		return 0
	}
	mean, apart := sum/weights, 0.0
	for k, v := range x {
		apart += float64(w[k] * (v - mean) * (v - mean))
	}
	return mean - float64(penalty*(apart/weights))
}
