package ppocr

import (
	"cmp"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/portable"
)

// Card: boxes of a map of probabilities (differentiable binarization, Liao et al. 2020), by PaddleOCR's rules: pixels
// above Threshold; outlines of regions, and of the holes in them; the smallest rectangle around each; the mean of the
// map within it, at least Score; grown by area · Unclip / outline with round corners; the smallest rectangle again;
// scaled to the picture and cut to it. rapidocr's numbers and PaddleOCR's differ. Held to eyes.db_boxes.

// Boxes are the settings of DB.
type Boxes struct {
	Threshold, Score float64
	Most             int
	Unclip           float64
	Dilate, Slow     bool // Slow: the mean within the outline, not the rectangle
}

// A Found is a box of a picture, and how sure the map is.
type Found struct {
	Box   Quad
	Score float64
}

// An outline is the border of a region or of a hole.
type outline struct {
	start  int     // where a scan by rows meets it
	points []Point // on it
	inside []int   // pixels that it surrounds, and its own
}

// A Step is an outline on its way to a box. Grown is set where the score is enough.
type Step struct {
	Box, Grown      Quad
	Side, GrownSide float64
	Score           float64
	Distance        float64 // that the box grows by
	Enough          bool
}

// Steps are the outlines of a map whose rectangles are three pixels wide, among the first ones; and how many outlines
// there are.
func (b Boxes) Steps(m []float32, width, height, most int) (steps []Step, outlineCount int) {
	all := outlines(b.bitmap(m, width, height), width, height)
	for _, o := range all[:min(len(all), most)] {
		s := Step{}
		if s.Box, s.Side = smallest(o.points); s.Side < 3 {
			continue
		}
		if b.Slow {
			for _, i := range o.inside {
				s.Score += float64(m[i])
			}
			s.Score /= float64(len(o.inside))
		} else {
			s.Score = within(m, width, height, s.Box)
		}
		area, around := s.Box.area()
		s.Distance = area * b.Unclip / around
		if s.Enough = s.Score >= b.Score; s.Enough {
			s.Grown, s.GrownSide = smallest(grown(s.Box, s.Distance))
		}
		steps = append(steps, s)
	}
	return steps, len(all)
}

// Of finds boxes in a map of a width and a height, of a picture of another.
func (b Boxes) Of(m []float32, width, height, toWidth, toHeight int) []Found {
	var found []Found
	steps, _ := b.Steps(m, width, height, b.Most)
	for _, s := range steps {
		if !s.Enough || s.GrownSide < 5 {
			continue
		}
		if f, ok := placed(s.Grown, width, height, toWidth, toHeight); ok {
			found = append(found, Found{f, s.Score})
		}
	}
	return found
}

// bitmap is the pixels above the threshold, each grown to the right and below where Dilate is set.
func (b Boxes) bitmap(m []float32, width, height int) []bool {
	bits := make([]bool, len(m))
	for i, v := range m {
		if v > float32(b.Threshold) {
			bits[i] = true
			if !b.Dilate {
				continue
			}
			x, y := i%width, i/width
			for _, d := range [3][2]int{{1, 0}, {0, 1}, {1, 1}} {
				if x+d[0] < width && y+d[1] < height {
					bits[(y+d[1])*width+x+d[0]] = true
				}
			}
		}
	}
	return bits
}

// outlines are those of regions whose pixels touch at sides or corners, and of holes, whose pixels touch at sides:
// those that a scan by rows meets last come first, as OpenCV lists them.
func outlines(bits []bool, width, height int) []outline {
	label := make([]int, len(bits))
	var all []outline
	flood := func(start int, is bool, diagonal bool, mark int) (region []int, edge bool) {
		label[start] = mark
		region = []int{start}
		for k := 0; k < len(region); k++ {
			x, y := region[k]%width, region[k]/width
			edge = edge || x == 0 || y == 0 || x == width-1 || y == height-1
			for dy := -1; dy <= 1; dy++ {
				for dx := -1; dx <= 1; dx++ {
					nx, ny := x+dx, y+dy
					if !diagonal && dx*dy != 0 || nx < 0 || ny < 0 || nx >= width || ny >= height {
						continue
					}
					if n := ny*width + nx; bits[n] == is && label[n] == 0 {
						label[n] = mark
						region = append(region, n)
					}
				}
			}
		}
		return region, edge
	}
	type hole struct {
		region []int
		around int
	}
	regions, holes := map[int][]int{}, []hole{}
	mark := 0
	for i, is := range bits {
		if label[i] != 0 {
			continue
		}
		mark++
		region, edge := flood(i, is, is, mark)
		if is {
			regions[mark] = region
			all = append(all, outline{start: i, points: border(region, bits, width, height), inside: region})
		} else if !edge {
			holes = append(holes, hole{region, mark})
		}
	}
	for _, h := range holes {
		o := outline{start: h.region[0] - 1, inside: slices.Clone(h.region)}
		seen := map[int]bool{}
		for _, i := range h.region {
			for _, n := range [4]int{i - 1, i + 1, i - width, i + width} {
				if bits[n] && !seen[n] {
					seen[n] = true
					o.points = append(o.points, Point{float64(n % width), float64(n / width)})
					o.inside = append(o.inside, n)
				}
			}
		}
		all = append(all, o)
	}
	// Inside an outer outline also lie the holes.
	for k := range all {
		if !bits[all[k].inside[0]] {
			continue
		}
		all[k].inside = filled(all[k].inside, width)
	}
	slices.SortStableFunc(all, func(a, b outline) int { return cmp.Compare(b.start, a.start) })
	return all
}

// border are the pixels of a region beside others.
func border(region []int, bits []bool, width, height int) []Point {
	var out []Point
	for _, i := range region {
		x, y := i%width, i/width
		if x == 0 || y == 0 || x == width-1 || y == height-1 || !bits[i-1] || !bits[i+1] || !bits[i-width] || !bits[i+width] {
			out = append(out, Point{float64(x), float64(y)})
		}
	}
	return out
}

// filled is a region with the holes in it: all pixels that no way by sides reaches from outside.
func filled(region []int, width int) []int {
	x0, y0, x1, y1 := math.MaxInt, math.MaxInt, 0, 0
	for _, i := range region {
		x0, x1, y0, y1 = min(x0, i%width), max(x1, i%width), min(y0, i/width), max(y1, i/width)
	}
	w, h := x1-x0+3, y1-y0+3 // with a margin
	wall := make([]bool, w*h)
	for _, i := range region {
		wall[(i/width-y0+1)*w+i%width-x0+1] = true
	}
	seen, queue := make([]bool, w*h), []int{0}
	seen[0] = true
	for k := 0; k < len(queue); k++ {
		x, y := queue[k]%w, queue[k]/w
		for _, d := range [4][2]int{{1, 0}, {-1, 0}, {0, 1}, {0, -1}} {
			nx, ny := x+d[0], y+d[1]
			if nx < 0 || ny < 0 || nx >= w || ny >= h {
				continue
			}
			if n := ny*w + nx; !wall[n] && !seen[n] {
				seen[n] = true
				queue = append(queue, n)
			}
		}
	}
	var out []int
	for i, reached := range seen {
		if !reached {
			out = append(out, (i/w-1+y0)*width+i%w-1+x0)
		}
	}
	return out
}

// within is the mean of the map in a rectangle, whose corners are cut to whole pixels of its frame.
func within(m []float32, width, height int, q Quad) float64 {
	x0, y0, x1, y1 := math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	for _, p := range q {
		x0, x1, y0, y1 = min(x0, p.X), max(x1, p.X), min(y0, p.Y), max(y1, p.Y)
	}
	hold := func(v float64, n int) int { return min(max(int(v), 0), n-1) }
	left, right, top, bottom := hold(math.Floor(x0), width), hold(math.Ceil(x1), width), hold(math.Floor(y0), height), hold(math.Ceil(y1), height)
	corners := make([]Point, 4)
	for i, p := range q {
		corners[i] = Point{math.Trunc(p.X - float64(left)), math.Trunc(p.Y - float64(top))}
	}
	sum, n := 0.0, 0
	fill(corners, right-left+1, bottom-top+1, func(x, y int) {
		sum, n = sum+float64(m[(top+y)*width+left+x]), n+1
	})
	return sum / float64(max(n, 1))
}

// placed is a rectangle of the map in the picture, cut to it; false where it is too small.
func placed(q Quad, width, height, toWidth, toHeight int) (Quad, bool) {
	for i, p := range q {
		q[i] = Point{math.Trunc(min(max(math.RoundToEven(p.X/float64(width)*float64(toWidth)), 0), float64(toWidth))),
			math.Trunc(min(max(math.RoundToEven(p.Y/float64(height)*float64(toHeight)), 0), float64(toHeight)))}
	}
	p := q[:]
	slices.SortStableFunc(p, func(a, b Point) int { return cmp.Compare(a.X, b.X) })
	left, right := p[:2], p[2:]
	byY := func(a, b Point) int { return cmp.Compare(a.Y, b.Y) }
	slices.SortStableFunc(left, byY)
	slices.SortStableFunc(right, byY)
	q = Quad{left[0], right[0], right[1], left[1]}
	for i, p := range q {
		q[i] = Point{min(max(p.X, 0), float64(toWidth-1)), min(max(p.Y, 0), float64(toHeight-1))}
	}
	side := func(a, b Point) int { return int(portable.Hypot(a.X-b.X, a.Y-b.Y)) }
	return q, side(q[0], q[1]) > 3 && side(q[0], q[3]) > 3
}

// InOrder puts boxes into reading order: rows, whose boxes are less than ten pixels below the one before, from the
// left.
func InOrder(boxes []Quad) []Quad {
	boxes = slices.Clone(boxes)
	slices.SortStableFunc(boxes, func(a, b Quad) int { return cmp.Compare(a[0].Y, b[0].Y) })
	for from := 0; from < len(boxes); {
		to := from + 1
		for to < len(boxes) && boxes[to][0].Y-boxes[to-1][0].Y < 10 {
			to++
		}
		slices.SortStableFunc(boxes[from:to], func(a, b Quad) int { return cmp.Compare(a[0].X, b[0].X) })
		from = to
	}
	return boxes
}
