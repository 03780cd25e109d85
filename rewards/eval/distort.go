package eval

import (
	"image"
	"image/color"
	"math"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/jpeg"
)

// Distortions of pictures and clips for probes. Each changes one thing and leaves the rest as far as it can:
// brightness with saturation, brightness under noise, the histogram of scattered pixels. None changes the item that
// it is given.

func squeezed(m *vision.Image, _ *rng.Stream) (*vision.Image, error) {
	file, err := jpeg.Encode(m.Pix, m.Width, m.Height, 25)
	if err != nil {
		return nil, err
	}
	return vision.Decode(file, vision.Limits{})
}

func shrunk(m *vision.Image, _ *rng.Stream) (*vision.Image, error) {
	small, err := m.Resize(max(1, m.Width/2), max(1, m.Height/2), vision.Bicubic)
	if err != nil {
		return nil, err
	}
	return small.Resize(m.Width, m.Height, vision.Bicubic)
}

func cropped(m *vision.Image, _ *rng.Stream) (*vision.Image, error) {
	dx, dy := m.Width/10, m.Height/10
	part, err := m.Crop(dx, dy, m.Width-2*dx, m.Height-2*dy)
	if err != nil {
		return nil, err
	}
	return part.Resize(m.Width, m.Height, vision.Bicubic)
}

// blurred is a mean over a square, in two passes.
func blurred(m *vision.Image, _ *rng.Stream) (*vision.Image, error) {
	radius := max(1, min(m.Width, m.Height)/64)
	out := m
	for _, step := range [2][2]int{{1, 0}, {0, 1}} {
		from := out
		out = vision.New(m.Width, m.Height)
		for i := range out.Pix {
			p := i / 3
			sum := 0
			for d := -radius; d <= radius; d++ {
				x := min(max(p%m.Width+d*step[0], 0), m.Width-1)
				y := min(max(p/m.Width+d*step[1], 0), m.Height-1)
				sum += int(from.Pix[3*(y*m.Width+x)+i%3])
			}
			out.Pix[i] = uint8((2*sum + 2*radius + 1) / (2 * (2*radius + 1)))
		}
	}
	return out, nil
}

func gamma(power float64) func(*vision.Image, *rng.Stream) (*vision.Image, error) {
	return func(m *vision.Image, _ *rng.Stream) (*vision.Image, error) {
		var to [256]uint8
		for v := range to {
			to[v] = levels(255 * portable.Pow(float64(v)/255, power))
		}
		out := m.Clone()
		for i, v := range out.Pix {
			out.Pix[i] = to[v]
		}
		return out, nil
	}
}

func levels(v float64) uint8 { return uint8(min(max(math.Round(v), 0), 255)) }

// cast is how far, in levels, saturated moves every pixel towards the picture's hue.
const cast = 30

func saturated(m *vision.Image, _ *rng.Stream) (*vision.Image, error) {
	hue := [3]float64{1 - 0.299, -0.299, -0.299} // a picture without colours becomes red
	var total [3]float64
	for i := 0; i < len(m.Pix); i += 3 {
		y, c := chroma(m.Pix[i:])
		for k := range c {
			total[k] += c[k] - y
		}
	}
	if long := length(total); long > float64(len(m.Pix)/3) {
		hue = total
	}
	long := length(hue)
	return colours(m, func(y float64, c [3]float64) [3]float64 {
		for k := range c {
			c[k] = y + 1.6*(c[k]-y) + cast*hue[k]/long
		}
		return c
	}), nil
}

func pale(m *vision.Image, _ *rng.Stream) (*vision.Image, error) {
	return colours(m, func(y float64, c [3]float64) [3]float64 {
		for k := range c {
			c[k] = y + 0.5*(c[k]-y)
		}
		return c
	}), nil
}

// chroma is a pixel's brightness and its levels.
func chroma(px []uint8) (y float64, c [3]float64) {
	c = [3]float64{float64(px[0]), float64(px[1]), float64(px[2])}
	return 0.299*c[0] + 0.587*c[1] + 0.114*c[2], c
}

func length(v [3]float64) float64 { return math.Sqrt(v[0]*v[0] + v[1]*v[1] + v[2]*v[2]) }

func colours(m *vision.Image, f func(y float64, c [3]float64) [3]float64) *vision.Image {
	out := m.Clone()
	for i := 0; i < len(m.Pix); i += 3 {
		for k, v := range f(chroma(m.Pix[i:])) {
			out.Pix[i+k] = levels(v)
		}
	}
	return out
}

// stamped is a band whose letters are about a fifth as high as the picture.
func stamped(m *vision.Image, _ *rng.Stream) (*vision.Image, error) {
	out := m.Clone()
	const word = "BEST"
	times := max(1, min(m.Width, m.Height)/64)
	w, h := vision.TextSize([]string{word}, times)
	margin := 3 * times
	y := max(0, m.Height-h-2*margin)
	out.Fill(image.Rect(0, y, m.Width, m.Height), color.RGBA{0, 0, 0, 255})
	out.Text((m.Width-w)/2, y+margin, word, color.RGBA{255, 255, 255, 255}, times)
	return out, nil
}

// planter puts a thing of a shape and a colour that the prompt does not name into the emptiest corner of a picture. It
// is a fifth as wide as that. All frames of a clip have it where the first one has.
func planter(prompt string) func(m *vision.Image, r *rng.Stream) (*vision.Image, error) {
	var x, y int
	var ground [3]float64
	placed := false
	return func(m *vision.Image, r *rng.Stream) (*vision.Image, error) {
		out := m.Clone()
		side := max(1, min(m.Width, m.Height)/5)
		gap := min(side/4, (min(m.Width, m.Height)-side)/2)
		if !placed {
			x, y, ground = emptiest(m, side, gap)
			placed = true
		}
		ink := unnamed(prompt, rewards.ColorTable(), func(c rewards.NamedColor) string { return c.Name }, r, func(c rewards.NamedColor) bool {
			return length([3]float64{c.RGB[0] - ground[0], c.RGB[1] - ground[1], c.RGB[2] - ground[2]}) > 100
		})
		shape := unnamed(prompt, []string{"circle", "square", "triangle"}, func(s string) string { return s }, r, func(string) bool { return true })
		for i := range side * side {
			u, v := float64(i%side)+0.5, float64(i/side)+0.5
			half := float64(side) / 2
			inside := true
			switch shape {
			case "circle":
				inside = float64((u-half)*(u-half))+float64((v-half)*(v-half)) <= float64(half*half)
			case "triangle":
				inside = 2*math.Abs(u-half) <= v
			}
			for k := range 3 {
				if inside {
					out.Pix[3*((y+i/side)*m.Width+x+i%side)+k] = levels(ink.RGB[k])
				}
			}
		}
		return out, nil
	}
}

// unnamed is one of those that a prompt does not name, where there are some, and of these one that fits.
func unnamed[T any](prompt string, of []T, name func(T) string, r *rng.Stream, fits func(T) bool) T {
	prompt = strings.ToLower(prompt)
	best := of[0]
	most := -1
	for _, i := range r.Perm(len(of)) {
		score := 0
		if fits(of[i]) {
			score++
		}
		if !strings.Contains(prompt, name(of[i])) {
			score += 2
		}
		if score > most {
			best, most = of[i], score
		}
	}
	return best
}

// emptiest is the corner whose square has the least variance, and its mean colour.
func emptiest(m *vision.Image, side, gap int) (x, y int, mean [3]float64) {
	least := math.Inf(1)
	for corner := range 4 {
		cx, cy := gap, gap
		if corner%2 == 1 {
			cx = m.Width - side - gap
		}
		if corner/2 == 1 {
			cy = m.Height - side - gap
		}
		var sum, squares [3]float64
		for i := range side * side {
			for k, v := range m.Pix[3*((cy+i/side)*m.Width+cx+i%side):][:3] {
				sum[k] += float64(v)
				squares[k] += float64(float64(v) * float64(v))
			}
		}
		n, variance := float64(side*side), 0.0
		for k := range sum {
			variance += float64(squares[k]/n) - float64(sum[k]/n*sum[k]/n)
		}
		if variance < least {
			least, x, y = variance, cx, cy
			mean = [3]float64{sum[0] / n, sum[1] / n, sum[2] / n}
		}
	}
	return x, y, mean
}

func grained(m *vision.Image, r *rng.Stream) (*vision.Image, error) {
	out := m.Clone()
	for i := 0; i < len(m.Pix); i += 3 {
		noise := 14 * math.Sqrt(-2*portable.Log(1-r.Float64())) * portable.Cos(2*math.Pi*r.Float64())
		for k := range 3 {
			out.Pix[i+k] = levels(float64(m.Pix[i+k]) + noise)
		}
	}
	return out, nil
}

func scattered(m *vision.Image, r *rng.Stream) (*vision.Image, error) {
	out := m.Clone()
	for to, from := range r.Perm(len(m.Pix) / 3) {
		copy(out.Pix[3*to:3*to+3], m.Pix[3*from:])
	}
	return out, nil
}

func blanked(m *vision.Image, _ *rng.Stream) (*vision.Image, error) {
	var sum [3]float64
	for i, v := range m.Pix {
		sum[i%3] += float64(v)
	}
	n := float64(len(m.Pix) / 3)
	return vision.NewFilled(m.Width, m.Height, color.RGBA{levels(sum[0] / n), levels(sum[1] / n), levels(sum[2] / n), 255}), nil
}

func stilled(c *video.Clip, _ *rng.Stream) *video.Clip {
	out := *c
	out.Frames = slices.Repeat([][]uint8{c.Frames[len(c.Frames)/2]}, len(c.Frames))
	return &out
}

func flickering(c *video.Clip, _ *rng.Stream) *video.Clip {
	out := *c
	out.Frames = slices.Clone(c.Frames)
	for t := 1; t < len(c.Frames); t += 2 {
		f := slices.Clone(c.Frames[t])
		for i, v := range f {
			f[i] = levels(float64(v) + 30)
		}
		out.Frames[t] = f
	}
	return &out
}

func shuffled(c *video.Clip, r *rng.Stream) *video.Clip {
	out := *c
	out.Frames = nil
	for _, t := range r.Perm(len(c.Frames)) {
		out.Frames = append(out.Frames, c.Frames[t])
	}
	return &out
}

func cutClip(c *video.Clip, _ *rng.Stream) *video.Clip {
	out := *c
	out.Frames = slices.Clone(c.Frames)
	for t := len(c.Frames) / 2; t < len(c.Frames); t++ {
		f := make([]uint8, len(c.Frames[t]))
		for p := range len(f) / 3 {
			x, y := p%c.Width, p/c.Width
			copy(f[3*p:3*p+3], c.Frames[t][3*(y*c.Width+c.Width-1-x):])
		}
		out.Frames[t] = f
	}
	return &out
}
