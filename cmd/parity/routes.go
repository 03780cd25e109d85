package main

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// routes is where layers of experts sent the tokens of a case's rows, row by row.
type routes struct {
	tokens int // of all rows, padded ones included
	of     map[int][]vlm.Routing
}

// put records every layer's routes, with zeros for padded tokens, and the loss of all.
func (r routes) put(c *Case) {
	var all []vlm.Routing
	for layer, rows := range r.of {
		var real []int // places of tokens that are not padding
		for i := range r.tokens {
			if !c.Has("attention_mask") || c.Ints("attention_mask")[i] != 0 {
				real = append(real, i)
			}
		}
		first := rows[0]
		n, k := len(first.Logits)/len(first.Chosen), len(first.Weights[0])
		logits, weights, chosen := make([]float64, r.tokens*n), make([]float64, r.tokens*k), make([]float64, r.tokens*k)
		at := 0
		for _, row := range rows {
			for t := range row.Chosen {
				place := real[at]
				at++
				copy(logits[place*n:], to[float64](row.Logits[t*n:(t+1)*n]))
				copy(weights[place*k:], to[float64](row.Weights[t]))
				for j, i := range row.Chosen[t] {
					chosen[place*k+j] = float64(i)
				}
			}
		}
		name := func(what string) string { return fmt.Sprintf("router.%d.%s", layer, what) }
		c.Put(name("logits"), Array{Shape: []int{r.tokens, n}, Data: logits})
		c.Put(name("weights"), Array{Shape: []int{r.tokens, k}, Data: weights})
		c.Put(name("experts"), Array{Shape: []int{r.tokens, k}, Data: chosen})
		all = append(all, rows...)
	}
	slices.SortStableFunc(all, func(a, b vlm.Routing) int { return a.Layer - b.Layer })
	if all != nil {
		c.Put("aux_loss", Array{Shape: []int{1}, Data: []float64{imbalance(all)}})
	}
}

// imbalance is the loss of routers that send tokens to few experts (Switch, as transformers adds
// it up over layers): experts times Σ over experts of the share of choices and the mean probability.
func imbalance(all []vlm.Routing) float64 {
	var counts, sums []float64
	rows := 0
	for _, r := range all {
		n := len(r.Logits) / max(1, len(r.Chosen))
		if counts == nil {
			counts, sums = make([]float64, n), make([]float64, n)
		}
		for t, chosen := range r.Chosen {
			p, _ := softmax(to[float64](r.Logits[t*n : (t+1)*n]))
			for i := range p {
				sums[i] += p[i]
			}
			for _, i := range chosen {
				counts[i]++
			}
		}
		rows += len(r.Chosen)
	}
	loss := 0.0
	for i := range counts {
		loss += counts[i] / float64(rows) * sums[i] / float64(rows)
	}
	return loss * float64(len(counts))
}
