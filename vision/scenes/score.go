package scenes

import (
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/portable"
)

// Score is how well a picture shows a scene, each between 0 and 1, with no learnt model: the benchmark's PyTorch peer
// computes the same, number for number.
type Score struct {
	Task   float64 // layout, or for words OCR
	Strict bool    // everything right
	Clean  float64 // crisp colours, and the border in the background's
	Total  float64 // 0.8 Task + 0.2 Clean
}

// Score judges a picture of Size x Size x 3.
func (s Scene) Score(px []uint8) Score {
	seg := segment(px)
	var r Score
	if s.Family == Word {
		r.Task, r.Strict = seg.ocr(s)
	} else {
		r.Task, r.Strict = seg.layout(s)
	}
	r.Clean = seg.clean(s)
	r.Total = float64(0.8*r.Task) + float64(0.2*r.Clean)
	return r
}

// segments is a picture by the palette.
type segments struct {
	near [Size * Size]uint8   // the nearest colour of the palette, the first of equals
	far  [Size * Size]float32 // and how far it is
}

func segment(px []uint8) *segments {
	s := &segments{}
	for i := range s.near {
		best := math.MaxInt
		for k, c := range palette {
			d := 0
			for j, v := range c {
				e := int(px[i*3+j]) - int(v)
				d += e * e
			}
			if d < best {
				best, s.near[i] = d, uint8(k)
			}
		}
		s.far[i] = float32(math.Sqrt(float64(best)))
	}
	return s
}

// minArea is the fewest pixels of a component.
const minArea = 12

// component is a connected region of a colour: pixels that share a side.
type component struct {
	color          int
	x0, y0, x1, y1 int
	in             []bool // over the box
}

func (c component) box() Box {
	return Box{float64(c.x0), float64(c.y0), float64(c.x1), float64(c.y1)}
}

// components are the regions of the foreground colours: by colour, then as rows are read.
func (s *segments) components() []component {
	var out []component
	var seen [Size * Size]bool
	for k := range Colors {
		for i := range s.near {
			if seen[i] || int(s.near[i]) != k {
				continue
			}
			seen[i] = true
			region := []int{i}
			for at := 0; at < len(region); at++ {
				x, y := region[at]%Size, region[at]/Size
				for _, d := range [4][2]int{{1, 0}, {-1, 0}, {0, 1}, {0, -1}} {
					u, v := x+d[0], y+d[1]
					if j := v*Size + u; u >= 0 && u < Size && v >= 0 && v < Size && !seen[j] && int(s.near[j]) == k {
						seen[j] = true
						region = append(region, j)
					}
				}
			}
			if len(region) >= minArea {
				out = append(out, boxed(k, region))
			}
		}
	}
	return out
}

func boxed(color int, region []int) component {
	c := component{color: color, x0: Size, y0: Size}
	for _, i := range region {
		x, y := i%Size, i/Size
		c.x0, c.y0, c.x1, c.y1 = min(c.x0, x), min(c.y0, y), max(c.x1, x+1), max(c.y1, y+1)
	}
	c.in = make([]bool, (c.x1-c.x0)*(c.y1-c.y0))
	for _, i := range region {
		c.in[(i/Size-c.y0)*(c.x1-c.x0)+i%Size-c.x0] = true
	}
	return c
}

// overlap is two boxes' intersection over union.
func overlap(a, b Box) float64 {
	i := float64(max(0, min(a[2], b[2])-max(a[0], b[0])) * max(0, min(a[3], b[3])-max(a[1], b[1])))
	u := float64((a[2]-a[0])*(a[3]-a[1])) + float64((b[2]-b[0])*(b[3]-b[1])) - i
	if u <= 0 {
		return 0
	}
	return i / u
}

// likeness is the region's intersection over union with a shape that fills its box.
func (c component) likeness(shape string) float64 {
	w, h := c.x1-c.x0, c.y1-c.y0
	both, either := 0, 0
	for i, in := range c.in {
		x, y := (float64(i%w)+0.5)/float64(w), (float64(i/w)+0.5)/float64(h)
		ideal := true
		switch shape {
		case "circle":
			ideal = float64((y-0.5)*(y-0.5))+float64((x-0.5)*(x-0.5)) <= 0.25
		case "triangle":
			ideal = math.Abs(x-0.5) <= y/2
		}
		if in && ideal {
			both++
		}
		if in || ideal {
			either++
		}
	}
	return float64(both) / float64(either)
}

// layout is the mean over the objects asked for of (box IoU + shape IoU)/2, times
// n/(n + components too many). The shape's counts 0.3 where another shape fits better: without
// this, training drifts to blobs between square and circle. Strict wants every box IoU above
// 0.3, every shape the best fit, and nothing too many.
func (s *segments) layout(scene Scene) (reward float64, strict bool) {
	found := s.components()
	used := make([]bool, len(found))
	extra := len(found)
	total := 0.0
	strict = true
	for _, o := range scene.Objects {
		best, at := 0.0, -1
		for i, c := range found {
			if used[i] || Colors[c.color] != o.Color {
				continue
			}
			if v := overlap(c.box(), o.Box); v > best {
				best, at = v, i
			}
		}
		if at < 0 || best < 0.1 {
			strict = false
			continue
		}
		used[at] = true
		extra--
		like := make([]float64, len(Shapes))
		for i, shape := range Shapes {
			like[i] = found[at].likeness(shape)
		}
		asked := slices.Index(Shapes, o.Shape)
		right := slices.Index(like, slices.Max(like)) == asked
		factor := 0.3
		if right {
			factor = 1
		}
		total += float64(0.5*best) + float64(0.5*like[asked]*factor)
		strict = strict && best > 0.3 && right
	}
	n := float64(len(scene.Objects))
	return total / n * n / (n + float64(extra)), strict && extra == 0
}

// clean is half the mean crispness, exp(-distance to the palette / 24), half the share of
// border pixels in the background asked for.
func (s *segments) clean(scene Scene) float64 {
	k := uint8(len(Colors) + slices.Index(Backgrounds, scene.Background))
	crisp, edge := 0.0, 0
	for i, d := range s.far {
		crisp += portable.Exp(-float64(d) / 24)
		// Corners count twice: the border is four strips.
		for _, at := range [2]int{i % Size, i / Size} {
			if (at < border || at >= Size-border) && s.near[i] == k {
				edge++
			}
		}
	}
	return float64(0.5*crisp/(Size*Size)) + float64(0.5*float64(edge)/(4*border*Size))
}

// border is the width of the strips that clean looks at.
const border = 3

// A Thing is a region of one of Colors, and the shape that it is most like.
type Thing struct {
	Color, Shape string
	Box          Box
	Likeness     float64 // intersection over union with that shape in its box
}

// Find returns all things in a picture of Size x Size x 3: by colour, then as rows are read. Regions of fewer than
// minArea pixels are specks.
func Find(px []uint8) ([]Thing, error) {
	if err := sized(px); err != nil {
		return nil, err
	}
	var things []Thing
	for _, c := range segment(px).components() {
		like := make([]float64, len(Shapes))
		for i, shape := range Shapes {
			like[i] = c.likeness(shape)
		}
		best := slices.Index(like, slices.Max(like))
		things = append(things, Thing{Colors[c.color], Shapes[best], c.box(), like[best]})
	}
	return things, nil
}

// sized refuses pictures of another size.
func sized(px []uint8) error {
	if len(px) != Size*Size*3 {
		return fmt.Errorf("a picture of %d bytes is no scene: %d x %d pixels of three were expected", len(px), Size, Size)
	}
	return nil
}

// Ground is the share of pixels of the background's colour, of all that have a background's: Score's formulas hardly
// look at it. It sees backgrounds that drift while the objects become better.
func (s Scene) Ground(px []uint8) float64 {
	k := uint8(len(Colors) + slices.Index(Backgrounds, s.Background))
	right, all := 0, 0
	for _, near := range segment(px).near {
		if int(near) >= len(Colors) {
			all++
		}
		if near == k {
			right++
		}
	}
	return float64(right) / float64(max(1, all))
}

// Shade is how near the background's colour is to the one asked for, over the pixels that have a background's or
// hardly any colour: 1 at it, 0 where the nearest other background is, linear between. Ground counts a pixel as right
// until it is half-way to another; this sees a drift from its first level on. (Half-way from black to gray the
// palette's nearest colour is green, so that the nearest colour does not decide alone.)
func (s Scene) Shade(px []uint8) float64 {
	asked := background(s.Background)
	far := math.Inf(1)
	for _, b := range Backgrounds {
		if b != s.Background {
			far = min(far, apart(asked[:], background(b)))
		}
	}
	sum, all := 0.0, 0
	for i, near := range segment(px).near {
		if p := px[3*i : 3*i+3]; int(near) >= len(Colors) || slices.Max(p)-slices.Min(p) < colourless {
			sum += max(0, 1-apart(p, asked)/far)
			all++
		}
	}
	return sum / float64(max(1, all))
}

// colourless is a range of a pixel's channels: a third of the palest colour's.
const colourless = 40

// apart is the distance of two colours.
func apart(a []uint8, b [3]uint8) float64 {
	sum := 0
	for j, v := range b {
		d := int(a[j]) - int(v)
		sum += d * d
	}
	return math.Sqrt(float64(sum))
}
