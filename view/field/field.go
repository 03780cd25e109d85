// Package field draws optical flow for people: colours of directions, arrows over a frame, and arrows over a clip.
//
//	picture, err := field.Wheel(f, 0)
package field

import (
	"fmt"
	"image/color"
	"math"

	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// Pictures of motion for people. A length of most, in pixels, has the strongest colour; 0
// means Strongest, beyond which colours stay as they are.

// Strongest is the length that pictures scale to by themselves: the 99th percentile, but at
// least a pixel, so that noise does not look like motion.
func Strongest(f *video.Field) float64 {
	const steps = 4096
	most := 0.0
	for i := range f.X {
		if d := f.Length(i); d > most && !math.IsInf(d, 0) {
			most = d
		}
	}
	if most <= 1 {
		return 1
	}
	var count [steps + 1]int
	for i := range f.X {
		if d := f.Length(i); d <= most {
			count[int(d/most*steps)]++
		}
	}
	seen := 0
	for i, c := range count {
		if seen += c; float64(seen) >= 0.99*float64(len(f.X)) {
			return max(most*float64(i+1)/(steps+1), 1)
		}
	}
	return most
}

// Wheel colours directions as the Middlebury benchmark does (Baker et al., 2011): red to the
// right, yellow down, blue-green to the left, violet up; white means no motion. Motion longer than most is darker.
func Wheel(f *video.Field, most float64) (*vision.Image, error) {
	return paint(f, most, wheelColour)
}

// paint asks for each pixel's colour by its motion over most.
func paint(f *video.Field, most float64, of func(x, y float64) color.RGBA) (*vision.Image, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	own := !(most > 0)
	if own {
		most = Strongest(f)
	}
	m := vision.New(f.Width, f.Height)
	for i := range f.X {
		x, y := float64(f.X[i])/most, float64(f.Y[i])/most
		if math.IsNaN(x+y) || math.IsInf(x, 0) || math.IsInf(y, 0) {
			continue // black
		}
		if long := portable.Hypot(x, y); own && long > 1 {
			x, y = x/long, y/long
		}
		c := of(x, y)
		m.Pix[3*i], m.Pix[3*i+1], m.Pix[3*i+2] = c.R, c.G, c.B
	}
	return m, nil
}

// wheel is the circle of colours: the parts from red over yellow, green, cyan, blue and
// magenta back to red have as many steps as people tell apart.
var wheel = func() (all [][3]float64) {
	for _, part := range []struct {
		steps    int
		from, to [3]float64
	}{
		{15, [3]float64{1, 0, 0}, [3]float64{1, 1, 0}}, {6, [3]float64{1, 1, 0}, [3]float64{0, 1, 0}},
		{4, [3]float64{0, 1, 0}, [3]float64{0, 1, 1}}, {11, [3]float64{0, 1, 1}, [3]float64{0, 0, 1}},
		{13, [3]float64{0, 0, 1}, [3]float64{1, 0, 1}}, {6, [3]float64{1, 0, 1}, [3]float64{1, 0, 0}},
	} {
		for i := range part.steps {
			t := math.Floor(255*float64(i)/float64(part.steps)) / 255
			var c [3]float64
			for k := range c {
				c[k] = part.from[k] + t*(part.to[k]-part.from[k])
			}
			all = append(all, c)
		}
	}
	return all
}()

func wheelColour(x, y float64) color.RGBA {
	long := portable.Hypot(x, y)
	at := (portable.Atan2(-y, -x)/math.Pi + 1) / 2 * float64(len(wheel)-1)
	i := int(at)
	a, b, t := wheel[i%len(wheel)], wheel[(i+1)%len(wheel)], at-math.Floor(at)
	var c [3]uint8
	for k := range c {
		v := a[k] + t*(b[k]-a[k])
		if long < 1+1e-9 {
			v = 1 - min(long, 1)*(1-v)
		} else {
			v *= 0.75
		}
		c[k] = uint8(255 * v)
	}
	return color.RGBA{c[0], c[1], c[2], 255}
}

// Legend is the wheel itself, size pixels wide.
func Legend(size int) *vision.Image {
	m := vision.NewFilled(size, size, color.RGBA{255, 255, 255, 255})
	half := float64(size-1) / 2
	for i := range size * size {
		x, y := (float64(i%size)-half)/half, (float64(i/size)-half)/half
		if portable.Hypot(x, y) <= 1 {
			c := wheelColour(x, y)
			m.Pix[3*i], m.Pix[3*i+1], m.Pix[3*i+2] = c.R, c.G, c.B
		}
	}
	return m
}

// Arrows draws where every step-th pixel goes, on its frame, one pixel of motion as long as
// times pixels. The frame may be enlarged: arrows are, too. Pixels that move less than a tenth of the strongest have
// none.
func Arrows(frame *vision.Image, f *video.Field, step int, times float64) (*vision.Image, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	scale := frame.Width / f.Width
	if scale < 1 || frame.Width != scale*f.Width || frame.Height != scale*f.Height {
		return nil, fmt.Errorf("a frame of %d x %d and motion of %d x %d", frame.Width, frame.Height, f.Width, f.Height)
	}
	if step < 1 {
		return nil, fmt.Errorf("an arrow every %d pixels: 1 or more are possible", step)
	}
	m := frame.Clone()
	for i, v := range m.Pix { // so that arrows are seen
		m.Pix[i] = uint8((int(v) + 255) / 2)
	}
	most := Strongest(f)
	for y := step / 2; y < f.Height; y += step {
		for x := step / 2; x < f.Width; x += step {
			i := y*f.Width + x
			u, v := float64(f.X[i]), float64(f.Y[i])
			if long := portable.Hypot(u, v); !(long >= 0.1*most) || math.IsInf(long, 0) {
				continue
			}
			long := max(most, portable.Hypot(u, v))
			c := wheelColour(u/long, v/long)
			c.R, c.G, c.B = c.R/3*2, c.G/3*2, c.B/3*2
			k, middle := float64(scale), float64(scale-1)/2
			arrow(m, k*float64(x)+middle, k*float64(y)+middle, k*u*times, k*v*times, c)
		}
	}
	return m, nil
}

// arrow draws a line, and two short ones at its end.
func arrow(m *vision.Image, x, y, dx, dy float64, c color.RGBA) {
	stroke(m, x, y, x+dx, y+dy, c)
	long, turn := min(max(0.3*portable.Hypot(dx, dy), 2), 6), portable.Atan2(dy, dx)
	for _, side := range []float64{-1, 1} {
		back := turn + math.Pi + side*math.Pi/7
		stroke(m, x+dx, y+dy, x+dx+long*portable.Cos(back), y+dy+long*portable.Sin(back), c)
	}
}

// stroke sets the pixels between two places, and skips those outside.
func stroke(m *vision.Image, x0, y0, x1, y1 float64, c color.RGBA) {
	n := min(math.Ceil(max(math.Abs(x1-x0), math.Abs(y1-y0))), 4*float64(m.Width+m.Height))
	for i := 0.0; i <= n; i++ {
		t := i / max(n, 1)
		m.Set(int(math.Round(x0+t*(x1-x0))), int(math.Round(y0+t*(y1-y0))), c)
	}
}
