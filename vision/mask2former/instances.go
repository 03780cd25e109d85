package mask2former

import (
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/detr"
)

// Card: from logits to objects. Of all pairs of a query and a class the likeliest are kept, as many as Most says;
// the score is the class's probability times the mean probability of the mask's pixels, those above 0. Two
// published ways differ:
//
//	Transformers   masks go to 384 x 384, then the nearest of their pixels to the picture; padding is not cut off
//	mmdet          masks go to the prepared size, padding is cut off, then to the picture, bilinear both times; a box
//	               spans the mask's first to its last pixel, edges included
//
// Boxes here are the mask's in both: transformers has none. Held to eyes.mask2former and eyes.geneval.

// An Instance is an object that was found.
type Instance struct {
	Label int
	Score float64
	Box   [4]float64 // x0, y0, x1, y1, in the picture's pixels; zeros for an empty mask
	Mask  []bool     // of the picture's pixels
}

// A Reading says how objects are made.
type Reading struct {
	// Published reads pictures and masks as GenEval does: by mmdet's pipeline and its way to boxes.
	Published bool
	// Exchanged hands the network pictures whose red and blue are exchanged, as flow_grpo's server does.
	Exchanged bool
	// Scale is the size that mmdet's pipeline fits pictures into, the longer and the shorter side; zeros: 1333 and
	// 800. Mean and Std are of its bytes; zeros: ImageNet's.
	Scale     [2]int
	Mean, Std [3]float32
	// Least is a bound: scores are above it.
	Least float64
	// Most is how many pairs are looked at; 0: as many as there are queries.
	Most int
}

// side is that of masks on their way, in transformers.
const side = 384

// A pair is a query and a class.
type pair struct {
	query, label int
	score        float64
}

// pairs are the likeliest, as torch's topk has them: equal ones in the order of queries and classes.
func (a Answer) pairs(most int) []pair {
	var all []pair
	for q, row := range a.Classes {
		for k, p := range portable.Softmax(row)[:len(row)-1] {
			all = append(all, pair{q, k, p})
		}
	}
	slices.SortStableFunc(all, func(x, y pair) int {
		switch {
		case x.score > y.score:
			return -1
		case x.score < y.score:
			return 1
		}
		return 0
	})
	if most == 0 {
		most = len(a.Classes)
	}
	return all[:min(most, len(all))]
}

// query is the logits of one query's mask.
func (a Answer) query(q int) []float32 {
	n := len(a.Classes)
	out := make([]float32, a.Size.H*a.Size.W)
	for i := range out {
		out[i] = a.Masks[i*n+q]
	}
	return out
}

// surety is the mean probability of the pixels above 0; floor is added to how many they are.
func surety(logits []float32, floor float64) float64 {
	sum, n := 0.0, 0
	for _, v := range logits {
		if v > 0 {
			sum += 1 / (1 + portable.Exp(-float64(v)))
			n++
		}
	}
	return sum / (float64(n) + floor)
}

// floor keeps the mean of an empty mask from being no number, upstream as here.
const floor = 1e-6

// Instances are the objects of a picture of size shown that was prepared to fill inside of a batch's size, the
// surest first.
func (a Answer) Instances(batch, inside, shown detr.Size, r Reading) []Instance {
	var found []Instance
	masks := map[int][]float32{} // of queries, and their surety
	sure := map[int]float64{}
	for _, p := range a.pairs(r.Most) {
		if p.score <= r.Least { // the mask's share is at most 1
			continue
		}
		if masks[p.query] == nil {
			masks[p.query], sure[p.query] = a.picture(p.query, batch, inside, shown, r)
		}
		i := Instance{Label: p.label, Score: p.score * sure[p.query], Mask: make([]bool, shown.H*shown.W)}
		for at, v := range masks[p.query] {
			i.Mask[at] = v > 0
		}
		if i.Score <= r.Least {
			continue
		}
		i.Box = boxOf(i.Mask, shown.W)
		found = append(found, i)
	}
	slices.SortStableFunc(found, func(x, y Instance) int {
		switch {
		case x.Score > y.Score:
			return -1
		case x.Score < y.Score:
			return 1
		}
		return 0
	})
	return found
}

// picture is a query's mask in the picture's pixels, and how sure it is.
func (a Answer) picture(q int, batch, inside, shown detr.Size, r Reading) ([]float32, float64) {
	logits := a.query(q)
	if !r.Published {
		square := detr.Size{H: side, W: side}
		x := detr.Resized(logits, 1, a.Size, square, 1)
		return nearest(x, square, shown), surety(x, floor)
	}
	x := detr.Resized(logits, 1, a.Size, batch, 1)
	cut := make([]float32, 0, inside.H*inside.W)
	for y := range inside.H {
		cut = append(cut, x[y*batch.W:][:inside.W]...)
	}
	x = detr.Resized(cut, 1, inside, shown, 1)
	return x, surety(x, floor)
}

// nearest is torch's: pixel floor(i · from/to), in fp32.
func nearest(x []float32, from, to detr.Size) []float32 {
	at := func(i, from, to int) int {
		return min(int(math.Floor(float64(float32(i)*(float32(from)/float32(to))))), from-1)
	}
	out := make([]float32, 0, to.H*to.W)
	for y := range to.H {
		for k := range to.W {
			out = append(out, x[at(y, from.H, to.H)*from.W+at(k, from.W, to.W)])
		}
	}
	return out
}

// boxOf spans a mask.
func boxOf(mask []bool, width int) (b [4]float64) {
	first := true
	for at, on := range mask {
		if !on {
			continue
		}
		x, y := float64(at%width), float64(at/width)
		if first {
			b, first = [4]float64{x, y, x + 1, y + 1}, false
		}
		b = [4]float64{min(b[0], x), min(b[1], y), max(b[2], x+1), max(b[3], y+1)}
	}
	return b
}

// Card: mmdet's pipeline. A picture is fitted into Scale, sides int(side · factor + 1/2), with OpenCV's bilinear
// resizing; the rest up to multiples of 32 is 128; numbers are (byte - mean)/deviation of ImageNet's times 255.
// A folder whose preprocessing says other edges, or another mean and deviation, is read with these.
// GenEval's own programs read files and hand the network the order of its training; flow_grpo's server hands it RGB
// for BGR, so that red and blue are exchanged (Exchanged).

var mmdetMean, mmdetStd = [3]float32{123.675, 116.28, 103.53}, [3]float32{58.395, 57.12, 57.375}

// padded is the byte that fills a picture up.
const padded = 128

// trained takes the edges, mean and deviation of a folder's own preprocessing, where it says edges, and other numbers
// than ImageNet's.
func (r *Reading) trained(p detr.Processor) {
	if r.Scale == [2]int{} && p.Shortest > 0 {
		r.Scale = [2]int{p.Longest, p.Shortest}
	}
	if usual := detr.EdgeProcessor(groups); p.Mean != usual.Mean || p.Std != usual.Std {
		for c := range r.Std {
			r.Mean[c], r.Std[c] = float32(float64(p.Mean[c])/p.Scale), float32(float64(p.Std[c])/p.Scale)
		}
	}
}

// Published is a picture prepared by mmdet's pipeline.
func Published(m *vision.Image, r Reading) (detr.Batch, error) {
	long, short := float64(max(r.Scale[0], r.Scale[1])), float64(min(r.Scale[0], r.Scale[1]))
	if r.Scale == [2]int{} {
		long, short = 1333, 800
	}
	mean, std := mmdetMean, mmdetStd
	if r.Std != [3]float32{} {
		mean, std = r.Mean, r.Std
	}
	factor := min(long/float64(max(m.Width, m.Height)), short/float64(min(m.Width, m.Height)))
	part := func(n int) int { return max(int(float64(float64(n)*factor)+0.5), 1) }
	small, err := m.ResizeOpenCV(part(m.Width), part(m.Height))
	if err != nil {
		return detr.Batch{}, err
	}
	up := func(n int) int { return (n + groups - 1) / groups * groups }
	b := detr.Batch{Size: detr.Size{H: up(small.Height), W: up(small.Width)}, Inside: []detr.Size{{H: small.Height, W: small.Width}}, Shown: []detr.Size{{H: m.Height, W: m.Width}}}
	for y := range b.Size.H {
		for x := range b.Size.W {
			for c := range 3 {
				from := c
				if r.Exchanged {
					from = 2 - c
				}
				v := float32(padded)
				if y < small.Height && x < small.Width {
					v = float32(small.Pix[3*(y*small.Width+x)+from])
				}
				b.Pixels = append(b.Pixels, (v-mean[c])/std[c])
			}
		}
	}
	return b, nil
}

func (m *Model) published(picture *vision.Image, r Reading) ([]Instance, error) {
	r.trained(m.Prepare)
	b, err := Published(picture, r)
	if err != nil {
		return nil, err
	}
	answers, err := m.Forward(b.Pixels, 1, b.Size)
	if err != nil {
		return nil, err
	}
	return answers[0].Instances(b.Size, b.Inside[0], b.Shown[0], r), nil
}
