package sampling

import (
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/portable"
)

// From logits to the probabilities that a token is drawn with, in the order of Hugging
// Face's generate: the repetition penalty (divides a logit above 0 of a token that was
// seen, multiplies one below), banned tokens, temperature, top-k (all that tie with the
// k-th stay), top-p (from the least likely up, dropped while their sum is at most 1-p; the
// likeliest stays), min-p (dropped below this share of the likeliest), softmax.
//
// A sampler's log-probability is that of these probabilities; a trainer that takes it from
// the bare logits compares two different policies.
//
// Invariant (test): without options the probabilities are the softmax, and every filter
// keeps the likeliest token.

// Options say how tokens are drawn.
type Options struct {
	Temperature float64 `toml:"temperature" range:"(0,inf)" doc:"logits are divided by this"`
	TopK        int     `toml:"top_k" range:"[0,inf)" doc:"only the k likeliest tokens; 0: all"`
	TopP        float64 `toml:"top_p" range:"(0,1]" doc:"only the likeliest tokens that hold this share"`
	MinP        float64 `toml:"min_p" range:"[0,1]" doc:"no token below this share of the likeliest"`
	Repetition  float64 `toml:"repetition_penalty" range:"(0,inf)" doc:"logits of tokens seen are divided (above 0) or multiplied (below) by this"`
	Arithmetic  string  `toml:"arithmetic" enum:"float32,float64" doc:"float32: tokens are drawn on the device; float64: on the host, slower, as runs of earlier versions drew them"`
}

// The arithmetics. Draws in one of them and in the other differ once in some millions of tokens, and log-probabilities
// differ in their last digits.
const (
	Float32 = "float32" // kernels.Draw
	Float64 = "float64" // Probabilities
)

// Default draws from the network's own distribution.
func Default() Options {
	return Options{Temperature: 1, TopP: 1, Repetition: 1, Arithmetic: Float32}
}

// Recorded is the arithmetic of a file that writes every other key of the table and not that one: the resolved file of
// a run that an earlier version began. written says whether the file has a key.
func (o Options) Recorded(written func(key string) bool) string {
	for _, key := range []string{"temperature", "top_k", "top_p", "min_p", "repetition_penalty"} {
		if !written(key) {
			return o.Arithmetic
		}
	}
	if written("arithmetic") {
		return o.Arithmetic
	}
	return Float64
}

// Check reports settings that leave nothing to learn from.
func (o Options) Check(report func(key, problem, hint string)) {
	if o.TopK == 1 {
		report("top_k", "1 always draws the likeliest token, so no answers of a group differ", "0 leaves all tokens")
	}
}

// Probabilities are those of all tokens, after some tokens were seen and with others banned.
func (o Options) Probabilities(logits []float64, seen, banned []int) ([]float64, error) {
	x := slices.Clone(logits)
	for _, ids := range [][]int{seen, banned} {
		for _, id := range ids {
			if id < 0 || id >= len(x) {
				return nil, fmt.Errorf("token %d is none of the vocabulary's %d", id, len(x))
			}
		}
	}
	for _, id := range seen { // from the logits: a token seen twice is punished once
		if l := logits[id]; l < 0 {
			x[id] = l * o.Repetition
		} else {
			x[id] = l / o.Repetition
		}
	}
	for _, id := range banned {
		x[id] = math.Inf(-1)
	}
	for i := range x {
		x[i] /= o.Temperature
	}
	if len(x) > 0 && !(slices.Max(x) < math.Inf(1)) {
		return nil, kernels.NotFiniteError("the logits hold numbers that are infinite or none")
	}
	if len(x) == 0 || math.IsInf(slices.Max(x), -1) {
		return nil, fmt.Errorf("no token is left to be drawn: %d of %d are banned", len(banned), len(x))
	}
	o.keepTopK(x)
	o.keepTopP(x)
	o.keepMinP(x)
	return softmax(x), nil
}

func (o Options) keepTopK(x []float64) {
	if o.TopK == 0 || o.TopK >= len(x) {
		return
	}
	sorted := slices.Clone(x)
	slices.Sort(sorted)
	drop(x, func(i int) bool { return x[i] < sorted[len(x)-o.TopK] })
}

func (o Options) keepTopP(x []float64) {
	if o.TopP == 1 {
		return
	}
	p := softmax(x)
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case x[a] < x[b]:
			return -1
		case x[a] > x[b]:
			return 1
		}
		return 0
	})
	below := 0.0
	for _, i := range order[:len(order)-1] {
		if below += p[i]; below > 1-o.TopP {
			return
		}
		x[i] = math.Inf(-1)
	}
}

func (o Options) keepMinP(x []float64) {
	if o.MinP == 0 {
		return
	}
	p := softmax(x)
	least := o.MinP * slices.Max(p)
	drop(x, func(i int) bool { return p[i] < least })
}

// drop makes tokens impossible. It decides on all before it changes one.
func drop(x []float64, is func(i int) bool) {
	var gone []int
	for i := range x {
		if is(i) {
			gone = append(gone, i)
		}
	}
	for _, i := range gone {
		x[i] = math.Inf(-1)
	}
}

func softmax(x []float64) []float64 {
	top, total := slices.Max(x), 0.0
	p := make([]float64, len(x))
	for i, v := range x {
		p[i] = portable.Exp(v - top)
		total += p[i]
	}
	for i := range p {
		p[i] /= total
	}
	return p
}
