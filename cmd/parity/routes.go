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
				to := real[at]
				at++
				copy(logits[to*n:], widened(row.Logits[t*n:(t+1)*n]))
				copy(weights[to*k:], widened(row.Weights[t]))
				for j, i := range row.Chosen[t] {
					chosen[to*k+j] = float64(i)
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
		c.Put("aux_loss", Array{Shape: []int{1}, Data: []float64{vlm.Imbalance(all)}})
	}
}
