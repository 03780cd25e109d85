package main

import (
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/trainer/sampling"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Vision-language networks that write: greedy answers through kept keys and values; and the
// language model alone, as pipelines read prompts with it.

func vlmGreedy(c *Case) {
	runFolder(c, c.Dir(), how{frozen: true, forwardOnly: true}, func(n *network) {
		r := newReader(n)
		ids := c.Array("input_ids")
		batch, length, steps := ids.Shape[0], ids.Shape[1], c.Int("max_new_tokens")
		d := r.m.NewDecoder(n.tape.Pool(), n.tape.Options, batch)
		defer d.Close()
		logits, rows := make([][]float32, batch), make([]int, batch)
		wholes := make([]vlm.Stretch, batch)
		for b := range batch {
			real := times(length, func(i int) int { return i })
			rows[b] = b
			wholes[b], _ = r.row(c.Ints("input_ids")[b*length:(b+1)*length], real)
			logits[b] = must(d.Extend(b, wholes[b]))
		}
		said, raw := make([][]int, batch), make([][][]float64, batch)
		for step := range steps {
			next := make([]int32, batch)
			for b, z := range logits {
				raw[b] = append(raw[b], to[float64](z))
				p := must(sampling.Default().Probabilities(to[float64](z), nil, c.Ints("suppress_tokens")))
				next[b] = int32(likeliest(p))
				said[b] = append(said[b], int(next[b]))
			}
			if step+1 < steps {
				logits = must(d.Step(rows, next))
			}
		}
		var positions [3][]int
		var deltas []int
		for b, s := range wholes {
			for _, id := range said[b] {
				s.IDs = append(s.IDs, int32(id))
			}
			at, delta := must2(r.m.Positions(s))
			deltas = append(deltas, delta)
			for axis := range at {
				positions[axis] = append(positions[axis], at[axis]...)
			}
		}
		c.Put("generated_ids", said, "step_logits", raw, "position_ids_full", positions[:], "rope_deltas", deltas)
	})
}

func likeliest(p []float64) int {
	best := 0
	for i, x := range p {
		if x > p[best] {
			best = i
		}
	}
	return best
}

// qwenText reads prompts alone: states behind the first layer and the last, 0 where padding is.
func qwenText(c *Case) {
	runNetwork(c, c.Dir(), func(n *network) {
		config := must(vlm.ReadConfig(c.Dir()))
		m := vlm.New(n.params, config)
		check(n.params.Check())
		ids, mask := c.Array("in.input_ids"), c.Ints("in.attention_mask")
		batch, length := ids.Shape[0], ids.Shape[1]
		rows := map[string][]*autograd.Value{}
		for b := range batch {
			var s vlm.Stretch
			for i, id := range c.Ints("in.input_ids")[b*length : (b+1)*length] {
				if mask[b*length+i] != 0 {
					s.IDs = append(s.IDs, int32(id))
				}
			}
			states := must(m.States(n.tape, s))
			for name, x := range map[string]*autograd.Value{"out.hidden_1": states[1], "out.last": states[len(states)-1]} {
				if rest := length - len(s.IDs); rest > 0 {
					x = n.tape.Concat(1, x, n.tape.Upload("padding", make([]float32, rest*config.Text.Width), 1, rest, config.Text.Width))
				}
				rows[name] = append(rows[name], x)
			}
		}
		for name, x := range rows {
			n.out(name, n.tape.Concat(0, x...))
		}
	})
}
