package detr

import (
	"fmt"
	"math"
	"runtime"
	"sync"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
)

// Card: attention of queries to few places of several maps (Deformable DETR, Zhu et al., 2021). Head h of query q
// reads its points p of every level l,
//
//	y[q, h] = Σ over l, p of weight[q, h, l, p] · value_h(place[q, h, l, p])
//	place   = reference + offset / (W_l, H_l)             references that are places: (x, y)
//	place   = centre + offset · Spread[p] · (w, h)        references that are boxes: (cx, cy, w, h)
//
// where a map is read between its pixels, bilinear, zero outside; Nearest takes one pixel, floor(place · size + 1/2),
// the border's where it lies outside (RT-DETRv2's "discrete"). Values are fp32, sums float64.
// Invariants (tests): the naive formula; gradients are those of finite differences.

// A Size is that of a map.
type Size struct{ H, W int }

// Sizes are of maps [B, H, W, C].
func Sizes(maps ...*autograd.Value) []Size {
	s := make([]Size, len(maps))
	for i, m := range maps {
		s[i] = Size{m.Dim(1), m.Dim(2)}
	}
	return s
}

// Pixels is how many the maps have together.
func Pixels(levels []Size) (n int) {
	for _, l := range levels {
		n += l.H * l.W
	}
	return n
}

// Places is such an attention.
type Places struct {
	Levels      []Size
	Heads       int
	Points      []int     // of each level
	Refs        []float32 // [B, Q, levels, Coordinates], as shares of the map
	Coordinates int       // 2: places, 4: boxes
	Spread      []float32 // of boxes: a factor for each point of a head
	Nearest     bool
}

// Apply attends from queries with offsets [B, Q, heads · points · 2] and weights [B, Q, heads · points] to value
// [B, pixels, C], whose pixels are those of the levels, one after the other.
func (p Places) Apply(tp *autograd.Tape, value, offsets, weights *autograd.Value) *autograd.Value {
	b, q, c := offsets.Dim(0), offsets.Dim(1), value.Dim(2)
	each := p.each()
	if value.Dim(1) != Pixels(p.Levels) || weights.Dim(2) != p.Heads*each || len(p.Refs) != b*q*len(p.Levels)*p.Coordinates {
		panic(fmt.Sprintf("detr: %d pixels, %d weights and %d references for levels %v of %d heads", value.Dim(1), weights.Dim(2), len(p.Refs), p.Levels, p.Heads))
	}
	g := gaze{Places: p, batch: b, queries: q, width: c, points: each}
	return tp.Host(autograd.Host{Name: "places", In: []*autograd.Value{value, offsets, weights}, Shape: []int{b, q, c},
		Forward: func(in, _ [][]float32) []float32 { return g.forward(in) },
		Backward: func(in, _ [][]float32, dy []float32, _ [][]float32) [][]float32 {
			return g.backward(in, dy)
		}})
}

// each is how many points a head has.
func (p Places) each() (n int) {
	for _, k := range p.Points {
		n += k
	}
	return n
}

// gaze is an attention with the sizes of its operands.
type gaze struct {
	Places
	batch, queries, width, points int
}

// A tap is a pixel that a point reads, and its share.
type tap struct {
	at     int // of the pixel among all levels'
	share  float64
	dx, dy float64 // how the share changes with the place, in pixels
}

// place is the point's place, in pixels, and its change with an offset of one.
func (g *gaze) place(offsets []float32, row, head, level, point int) (x, y, sx, sy float64) {
	at := (row*g.Heads+head)*g.points + point
	dx, dy := float64(offsets[2*at]), float64(offsets[2*at+1])
	w, h := float64(g.Levels[level].W), float64(g.Levels[level].H)
	ref := g.Refs[(row*len(g.Levels)+level)*g.Coordinates:][:g.Coordinates]
	sx, sy = 1, 1
	if g.Coordinates == 4 {
		spread := float64(g.Spread[point])
		sx, sy = float64(spread*float64(ref[2]))*w, float64(spread*float64(ref[3]))*h
	}
	return float64(float64(ref[0])*w) + float64(dx*sx), float64(float64(ref[1])*h) + float64(dy*sy), sx, sy
}

// taps are the pixels that a point at a place reads; from is the level's first pixel.
func (g *gaze) taps(into []tap, x, y float64, level, from int) []tap {
	h, w := g.Levels[level].H, g.Levels[level].W
	if !(math.Abs(x) < 1e9 && math.Abs(y) < 1e9) { // far off, or no number
		return into[:0]
	}
	if g.Nearest {
		i, j := min(max(int(math.Floor(x+0.5)), 0), w-1), min(max(int(math.Floor(y+0.5)), 0), h-1)
		return append(into[:0], tap{at: from + j*w + i, share: 1})
	}
	x, y = x-0.5, y-0.5
	x0, y0 := math.Floor(x), math.Floor(y)
	fx, fy := x-x0, y-y0
	into = into[:0]
	for j := range 2 {
		for i := range 2 {
			px, py := int(x0)+i, int(y0)+j
			if px < 0 || px >= w || py < 0 || py >= h {
				continue
			}
			wx, wy, sx, sy := 1-fx, 1-fy, -1.0, -1.0
			if i == 1 {
				wx, sx = fx, 1
			}
			if j == 1 {
				wy, sy = fy, 1
			}
			into = append(into, tap{at: from + py*w + px, share: wx * wy, dx: sx * wy, dy: sy * wx})
		}
	}
	return into
}

// points calls f for every point of a query's head, in order.
func (g *gaze) point(offsets []float32, row, head int, scratch []tap, f func(at int, sx, sy float64, taps []tap)) {
	from, point := 0, 0
	for level, n := range g.Points {
		for range n {
			x, y, sx, sy := g.place(offsets, row, head, level, point)
			f((row*g.Heads+head)*g.points+point, sx, sy, g.taps(scratch, x, y, level, from))
			point++
		}
		from += g.Levels[level].H * g.Levels[level].W
	}
}

func (g *gaze) forward(in [][]float32) []float32 {
	value, offsets, weights := in[0], in[1], in[2]
	pixels, each := Pixels(g.Levels), g.width/g.Heads
	out := make([]float32, g.batch*g.queries*g.width)
	Share(g.batch*g.queries, func(row int) {
		var scratch [4]tap
		sum := make([]float64, each)
		sample := value[row/g.queries*pixels*g.width:][:pixels*g.width]
		for head := range g.Heads {
			clear(sum)
			g.point(offsets, row, head, scratch[:0], func(at int, _, _ float64, taps []tap) {
				for _, t := range taps {
					share := t.share * float64(weights[at])
					for d, v := range sample[t.at*g.width+head*each:][:each] {
						sum[d] += float64(share * float64(v))
					}
				}
			})
			for d, v := range sum {
				out[row*g.width+head*each+d] = float32(v)
			}
		}
	})
	return out
}

func (g *gaze) backward(in [][]float32, dy []float32) [][]float32 {
	value, offsets, weights := in[0], in[1], in[2]
	pixels, each := Pixels(g.Levels), g.width/g.Heads
	dvalue, doffsets, dweights := make([]float32, len(value)), make([]float32, len(offsets)), make([]float32, len(weights))
	Share(g.batch, func(sample int) {
		var scratch [4]tap
		from := sample * pixels * g.width
		for q := range g.queries {
			row := sample*g.queries + q
			for head := range g.Heads {
				d := dy[row*g.width+head*each:][:each]
				g.point(offsets, row, head, scratch[:0], func(at int, sx, sy float64, taps []tap) {
					var dw, dx, dyy float64
					w := float64(weights[at])
					for _, t := range taps {
						to := dvalue[from+t.at*g.width+head*each:][:each]
						dot, share := 0.0, t.share*w
						for k, v := range value[from+t.at*g.width+head*each:][:each] {
							dot += float64(float64(d[k]) * float64(v))
							to[k] = float32(float64(to[k]) + float64(share*float64(d[k])))
						}
						dw += float64(dot * t.share)
						dx += float64(dot * t.dx)
						dyy += float64(dot * t.dy)
					}
					dweights[at] = float32(dw)
					doffsets[2*at], doffsets[2*at+1] = float32(dx*w*sx), float32(dyy*w*sy)
				})
			}
		}
	})
	return [][]float32{dvalue, doffsets, dweights}
}

// Share calls f for 0 to n-1, on all processors. The calls touch nothing in common.
func Share(n int, f func(i int)) {
	workers := min(runtime.GOMAXPROCS(0), n)
	if workers <= 1 {
		for i := range n {
			f(i)
		}
		return
	}
	var done sync.WaitGroup
	for w := range workers {
		done.Go(func() {
			for i := w * n / workers; i < (w+1)*n/workers; i++ {
				f(i)
			}
		})
	}
	done.Wait()
}

// Grid are references at the middles of the pixels of maps, the same for all levels: [B, pixels, levels, 2].
func Grid(levels []Size, batch int) []float32 {
	one := make([]float32, 0, Pixels(levels)*len(levels)*2)
	for _, l := range levels {
		for y := range l.H {
			for x := range l.W {
				for range levels {
					one = append(one, float32((float64(x)+0.5)/float64(l.W)), float32((float64(y)+0.5)/float64(l.H)))
				}
			}
		}
	}
	return Repeat(one, batch)
}

// Repeat is x, some times in a row.
func Repeat(x []float32, times int) []float32 {
	all := make([]float32, 0, len(x)*times)
	for range times {
		all = append(all, x...)
	}
	return all
}
