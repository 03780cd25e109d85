package pretrain

import (
	"math"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/vision/clip"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// contrast is what one update of two towers sees.
type contrast struct {
	pictures, damaged [][]uint8 // as drawn, and each once more, damaged
	captions, wrong   []string  // right ones, and each once more with a wrong attribute
	kinds             []string  // of damage
}

// batch is what update step sees: pictures differ in place and size whenever they come again.
func (t *Towers) batch(d dataset, seen *order, step int) contrast {
	var c contrast
	for i := range t.Train.Batch {
		n, epoch := seen.at((step-1)*t.Train.Batch + i)
		s, k := d.scene(n), d.key.Iteration(epoch).Sample(n)
		px := s.Draw(scenes.Jitter(k.With("jitter").Draw()))
		c.add(s, px, k)
	}
	return c
}

// add takes a picture in, with its foils.
func (c *contrast) add(s scenes.Scene, px []uint8, k rng.Key) {
	r := k.With("damage").Draw()
	kind := scenes.Degradations[r.Intn(len(scenes.Degradations))]
	damaged, err := scenes.Degrade(px, kind, r.Float64(), r)
	if err != nil {
		panic(err) // kinds and strengths are its own
	}
	c.pictures, c.damaged = append(c.pictures, px), append(c.damaged, damaged)
	c.captions, c.wrong = append(c.captions, s.Prompt), append(c.wrong, scenes.Corrupt(s.Prompt, k.With("wrong").Draw()))
	c.kinds = append(c.kinds, kind)
}

// pass leaves the gradient of an update in the parameters and returns both losses.
func (g *pair) pass(s *stage, quality float64, c contrast) (matching, ranking float64) {
	tp := s.tape()
	n := len(c.pictures)
	pictures := g.embedPictures(tp, append(append([][]uint8(nil), c.pictures...), c.damaged...))
	captions := g.embedCaptions(tp, append(append([]string(nil), c.captions...), c.wrong...))
	scale := g.Scale(tp)
	x, y := rows(pictures), rows(captions)
	like := clip.Similarity(x[:n], y, float64(scale.F32()[0]))
	matching, slopes := crossEntropies(like.Logits)
	dx, dy, dScale := like.Gradients(slopes)

	// The head reads unit vectors, and so do those who use it.
	units, norms := clip.Units(x)
	ranks := g.ranks(tp, units)
	r := ranks.F32()
	dRanks := make([]float32, 2*n)
	for i := range n {
		l, slope := ranked(float64(r[i]) - float64(r[n+i]))
		ranking += l / float64(n)
		dRanks[i], dRanks[n+i] = float32(quality*slope/float64(n)), float32(-quality*slope/float64(n))
	}
	weight := g.head.W.Value.F32()
	for i := range x {
		if i >= n {
			dx = append(dx, make([]float64, len(x[i])))
		}
		along := 0.0
		for k, u := range units[i] {
			along += float64(u * float64(weight[k]))
		}
		for k, u := range units[i] {
			dx[i][k] += float64(dRanks[i]) * (float64(weight[k]) - float64(along*u)) / norms[i]
		}
	}
	tp.Backward(autograd.Seed{Of: pictures, Grad: flat(dx)}, autograd.Seed{Of: captions, Grad: flat(dy)},
		autograd.Seed{Of: scale, Grad: []float32{float32(dScale)}}, autograd.Seed{Of: ranks, Grad: dRanks})
	tp.Reset()
	return matching, ranking
}

// ranks is the head's number for every unit vector.
func (g *pair) ranks(tp *autograd.Tape, units [][]float64) *autograd.Value {
	return g.head.Apply(tp, tp.Upload("unit vectors", flat(units), len(units), len(units[0])), autograd.With{Wide: true})
}

// crossEntropies is half the mean of -log p(caption i | picture i) over all captions, and half
// that of -log p(picture i | caption i), with the slopes at the logits [pictures][captions].
// Captions beyond the pictures' number belong to none.
func crossEntropies(logits [][]float64) (loss float64, slopes [][]float64) {
	n := len(logits)
	slopes = make([][]float64, n)
	share := 0.5 / float64(n)
	for i, row := range logits {
		slopes[i] = make([]float64, len(row))
		p, l := softmaxAt(row, i)
		loss += float64(share * l)
		for j := range row {
			slopes[i][j] += float64(share * p[j])
		}
		slopes[i][i] -= share
	}
	column := make([]float64, n)
	for j := range n {
		for i := range n {
			column[i] = logits[i][j]
		}
		p, l := softmaxAt(column, j)
		loss += float64(share * l)
		for i := range n {
			slopes[i][j] += float64(share * p[i])
		}
		slopes[j][j] -= share
	}
	return loss, slopes
}

// softmaxAt is the softmax of x, and -log of its value at i.
func softmaxAt(x []float64, i int) (p []float64, loss float64) {
	top, sum := math.Inf(-1), 0.0
	for _, v := range x {
		top = max(top, v)
	}
	p = make([]float64, len(x))
	for k, v := range x {
		p[k] = portable.Exp(v - top)
		sum += p[k]
	}
	for k := range p {
		p[k] /= sum
	}
	return p, portable.Log(sum) + top - x[i]
}

// ranked is log(1 + exp(-d)) and its slope.
func ranked(d float64) (loss, slope float64) {
	e := portable.Exp(-math.Abs(d))
	return portable.Log1p(e) + max(-d, 0), -1 / (1 + portable.Exp(d))
}

// rows is a matrix's rows in float64.
func rows(v *autograd.Value) [][]float64 {
	x, n := v.F32(), v.Dim(1)
	out := make([][]float64, v.Dim(0))
	for i := range out {
		out[i] = make([]float64, n)
		for k := range n {
			out[i][k] = float64(x[i*n+k])
		}
	}
	return out
}

func flat(rows [][]float64) []float32 {
	var out []float32
	for _, r := range rows {
		for _, v := range r {
			out = append(out, float32(v))
		}
	}
	return out
}
