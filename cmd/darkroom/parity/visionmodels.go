package parity

import (
	"math"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Vision-language networks: logits, log-probabilities, gradients.

var visionModelOps = map[string]Op{
	"vlm.forward":   vlmForward,
	"vlm.multiturn": vlmForward,
}

func vlmForward(c *Case) error {
	return runFolder(c, c.Dir(), how{}, func(n *network) error {
		config, err := vlm.ReadConfig(c.Dir())
		if err != nil {
			return err
		}
		m := vlm.New(n.params, config)
		if err := n.params.Check(); err != nil {
			return err
		}
		ids := c.Array("input_ids")
		batch, length := ids.Shape[0], ids.Shape[1]
		flat := c.Ints("input_ids")
		mask := make([]int, len(flat))
		for i := range mask {
			mask[i] = 1
		}
		if c.Has("attention_mask") {
			mask = c.Ints("attention_mask")
		}
		states := map[string]*autograd.Value{}
		grids := map[string][]vlm.Grid{}
		for _, kind := range [][3]string{{"image_grid_thw", "pixel_values", "image_embeds"}, {"video_grid_thw", "pixel_values_videos", "video_embeds"}} {
			if !c.Has(kind[0]) {
				continue
			}
			grids[kind[0]] = gridsOf(c, kind[0])
			if states[kind[0]], err = m.Tower.Forward(n.tape, n.value(kind[1]), grids[kind[0]]); err != nil {
				return err
			}
			v := states[kind[0]]
			c.Put(kind[2], n.array(v.Shape()[1:], v.F32(), false))
		}
		var at [3][]int
		var deltas []int
		all := Array{Shape: []int{batch, length, config.Text.Vocabulary}, Data: make([]float64, batch*length*config.Text.Vocabulary)}
		entropy := make([]float64, batch*length)
		logprobs := make([]float64, batch*(length-1))
		var seeds []autograd.Seed
		used := map[string][2]int{}
		for b := range batch {
			row := flat[b*length : (b+1)*length]
			s := vlm.Sequence{Kinds: make([]int, length), Real: make([]bool, length)}
			var in vlm.Input
			var real []int
			for i, id := range row {
				s.Real[i] = mask[b*length+i] != 0
				if s.Real[i] {
					real = append(real, i)
					in.IDs = append(in.IDs, int32(id))
				}
				switch int32(id) {
				case config.Picture:
					s.Kinds[i] = vlm.PictureToken
				case config.Clip:
					s.Kinds[i] = vlm.ClipToken
				}
			}
			take := func(key string, kind int) ([]vlm.Grid, *autograd.Value) {
				need := 0
				for i, k := range s.Kinds {
					if k == kind && s.Real[i] {
						need++
					}
				}
				from := used[key]
				have, rows := from, []int32(nil)
				for ; need > 0 && have[0] < len(grids[key]); have[0]++ {
					t := grids[key][have[0]].Tokens(config.Vision.Merge)
					for range t {
						rows = append(rows, int32(have[1]))
						have[1]++
					}
					need -= t
				}
				used[key] = have
				if rows == nil {
					return nil, nil
				}
				return grids[key][from[0]:have[0]], n.tape.Gather(states[key], rows, 1, len(rows))
			}
			s.Pictures, in.Pictures = take("image_grid_thw", vlm.PictureToken)
			s.Clips, in.Clips = take("video_grid_thw", vlm.ClipToken)
			if c.Has("second_per_grid_ts") {
				s.Seconds = c.Floats("second_per_grid_ts")
			}
			places, delta, err := vlm.PositionRule{Merge: config.Vision.Merge, PerSecond: config.Vision.PerSecond}.Positions(s)
			if err != nil {
				return err
			}
			deltas = append(deltas, delta)
			for axis := range at {
				at[axis] = append(at[axis], places[axis]...)
				for _, i := range real {
					in.Positions[axis] = append(in.Positions[axis], places[axis][i])
				}
			}
			logits, err := m.Forward(n.tape, in)
			if err != nil {
				return err
			}
			v := config.Text.Vocabulary
			x := logits.F32()
			seed := make([]float32, len(x))
			index := make([]int32, len(real))
			grad := make([]float32, len(real))
			for k, i := range real {
				z := x[k*v : (k+1)*v]
				for j, e := range z {
					all.Data[(b*length+i)*v+j] = float64(e)
				}
				entropy[b*length+i] = entropyOf(z)
				if c.Has("cotangent") {
					copy(seed[k*v:], toF32(c.Floats("cotangent")[(b*length+i)*v:][:v]))
				}
				index[k] = -1
				if k+1 < len(real) && real[k+1] == i+1 {
					index[k] = in.IDs[k+1]
					if c.Has("logprob_cotangent") {
						grad[k] = float32(c.Floats("logprob_cotangent")[b*(length-1)+i])
					}
				}
			}
			lp := n.tape.LogProbs(logits, index, 1)
			for k, p := range lp.F32() {
				if index[k] >= 0 {
					logprobs[b*(length-1)+real[k]] = float64(p)
				}
			}
			if c.Has("cotangent") {
				seeds = append(seeds, autograd.Seed{Of: logits, Grad: seed})
			}
			if c.Has("logprob_cotangent") {
				seeds = append(seeds, autograd.Seed{Of: lp, Grad: grad})
			}
		}
		c.Put("position_ids", at[:])
		c.Put("rope_deltas", deltas)
		c.Put("logits", all)
		c.Put("entropy", entropy)
		c.Put("token_logprobs", logprobs)
		n.tape.Backward(seeds...)
		for name := range c.want {
			weight, ok := strings.CutPrefix(name, "grad.")
			if !ok {
				continue
			}
			if in, ok := n.inputs[weight]; ok {
				c.Put(name, n.array(in.v.Grad().Shape(), in.v.Grad().F32(), false))
				continue
			}
			g, err := n.params.Grad(weight)
			if err != nil {
				return err
			}
			x, err := g.Float32(nil)
			if err != nil {
				return err
			}
			c.Put(name, Array{Shape: g.Shape, Data: widened(x)})
		}
		return nil
	})
}

func entropyOf(z []float32) float64 {
	most, sum, mean := math.Inf(-1), 0.0, 0.0
	for _, e := range z {
		most = max(most, float64(e))
	}
	for _, e := range z {
		p := math.Exp(float64(e) - most)
		sum += p
		mean += p * (float64(e) - most)
	}
	return math.Log(sum) - mean/sum
}
