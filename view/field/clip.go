package field

import (
	"context"
	"math"

	"github.com/darkroom-rl/darkroom/rewards/motion"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/video/flow"
	"github.com/darkroom-rl/darkroom/vision"
)

// Card: a clip with its flow over the frames. On a grid of about sixteen points a side an arrow leads from a pixel to
// where the flow says that it is three frames later, if it went on so: yellow where the way back leads home, red where
// it does not, and frames are not borne out there. Arrows of less than half a pixel a frame are left out.

const (
	arrowsBeside = 16
	arrowFrames  = 3
	arrowSide    = 384 // of small frames, whose pixels are repeated
)

var (
	confirmed = [3]uint8{255, 210, 0}
	refuted   = [3]uint8{230, 40, 40}
)

// Clip is a copy of a clip with its flow, by DIS, drawn over the frames; the last frame has none.
func Clip(ctx context.Context, c *video.Clip) (*video.Clip, error) {
	m, err := motion.Of(ctx, c, flow.DIS{})
	if err != nil {
		return nil, err
	}
	times := max(1, arrowSide/max(c.Width, c.Height))
	out := &video.Clip{Width: c.Width * times, Height: c.Height * times, Rate: c.Rate}
	for t, px := range c.Frames {
		s := sketch{width: out.Width, height: out.Height, pix: (&vision.Image{Width: c.Width, Height: c.Height, Pix: px}).Enlarge(times).Pix}
		if t < len(m.Forward) {
			s.arrows(m, t, times)
		}
		out.Frames = append(out.Frames, s.pix)
	}
	return out, nil
}

// arrows draws those of frame t.
func (s *sketch) arrows(m *motion.Motion, t, times int) {
	f := m.Forward[t]
	home, _ := m.Home(t)
	every := max(1, max(f.Width, f.Height)/arrowsBeside)
	for y := every / 2; y < f.Height; y += every {
		for x := every / 2; x < f.Width; x += every {
			i := y*f.Width + x
			if f.Length(i) < 0.5 {
				continue
			}
			ink := confirmed
			if !home[i] {
				ink = refuted
			}
			long := float64(arrowFrames * times)
			x0, y0 := (float64(x)+0.5)*float64(times), (float64(y)+0.5)*float64(times)
			s.arrow(x0, y0, x0+float64(long*float64(f.X[i])), y0+float64(long*float64(f.Y[i])), ink)
		}
	}
}

// sketch is a frame that is drawn on.
type sketch struct {
	width, height int
	pix           []uint8
}

// arrow draws a line with a head, on a dark rim.
func (s *sketch) arrow(x0, y0, x1, y1 float64, ink [3]uint8) {
	if !(math.Abs(x1) < 1<<20 && math.Abs(y1) < 1<<20) {
		return
	}
	dx, dy := x1-x0, y1-y0
	long := math.Sqrt(squared(dx, dy))
	head := min(6, long/2) / long
	lines := [][4]float64{{x0, y0, x1, y1}}
	for _, side := range []float64{1, -1} {
		lines = append(lines, [4]float64{x1, y1, x1 - float64(head*(dx+float64(side*dy))), y1 - float64(head*(dy-float64(side*dx)))})
	}
	for _, pen := range []struct {
		radius float64
		ink    [3]uint8
	}{{1.6, [3]uint8{20, 20, 20}}, {0.7, ink}} {
		for _, l := range lines {
			s.line(l, pen.radius, pen.ink)
		}
	}
}

// line draws a line of points that are this large.
func (s *sketch) line(l [4]float64, radius float64, ink [3]uint8) {
	n := int(2*math.Sqrt(squared(l[2]-l[0], l[3]-l[1]))) + 1
	for k := range n + 1 {
		part := float64(k) / float64(n)
		cx, cy := l[0]+float64(part*(l[2]-l[0])), l[1]+float64(part*(l[3]-l[1]))
		for y := int(cy - radius); y <= int(cy+radius); y++ {
			for x := int(cx - radius); x <= int(cx+radius); x++ {
				if x >= 0 && y >= 0 && x < s.width && y < s.height && squared(float64(x)+0.5-cx, float64(y)+0.5-cy) <= float64(radius*radius) {
					copy(s.pix[3*(y*s.width+x):], ink[:])
				}
			}
		}
	}
}

// squared is the square of a length; each product is rounded.
func squared(x, y float64) float64 { return float64(x*x) + float64(y*y) }
