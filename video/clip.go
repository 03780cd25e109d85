package video

import (
	"errors"
	"fmt"
	"math"
)

// A Clip is frames of one size.
type Clip struct {
	Width, Height int
	Rate          Rate
	Frames        [][]uint8 // of 3 Width Height bytes each
}

// A Rate is frames a second, Num/Den. The zero value says that it is not known.
type Rate struct{ Num, Den int }

// FPS is the rate as a number; 0 where it is not known.
func (r Rate) FPS() float64 {
	if r.Num <= 0 || r.Den <= 0 {
		return 0
	}
	return float64(r.Num) / float64(r.Den)
}

// or is r where it is known.
func (r Rate) or(other Rate) Rate {
	if r.FPS() == 0 {
		return other
	}
	return r
}

// reduced divides by the greatest common factor.
func (r Rate) reduced() Rate {
	a, b := r.Num, r.Den
	for b != 0 {
		a, b = b, a%b
	}
	if a > 1 {
		r.Num, r.Den = r.Num/a, r.Den/a
	}
	return r
}

// usual is the rate of files that name none, and of clips written without one.
var usual = Rate{8, 1}

// Check refuses an invalid clip.
func (c *Clip) Check() error {
	switch {
	case c == nil || len(c.Frames) == 0:
		return errors.New("a clip without frames")
	case c.Width <= 0 || c.Height <= 0 || c.Width > maxSide || c.Height > maxSide:
		return fmt.Errorf("a clip of %d x %d pixels", c.Width, c.Height)
	}
	for i, f := range c.Frames {
		if len(f) != 3*c.Width*c.Height {
			return fmt.Errorf("frame %d of a clip of %d x %d has %d bytes", i, c.Width, c.Height, len(f))
		}
	}
	return nil
}

// Seconds is how long a clip lasts; 0 where its rate is not known.
func (c *Clip) Seconds() float64 {
	if c.Rate.FPS() == 0 {
		return 0
	}
	return float64(len(c.Frames)) / c.Rate.FPS()
}

// Pick is a clip of some frames, which it shares. Its rate is that which keeps the duration.
func (c *Clip) Pick(frames []int) (*Clip, error) {
	out := &Clip{Width: c.Width, Height: c.Height}
	for _, i := range frames {
		if i < 0 || i >= len(c.Frames) {
			return nil, fmt.Errorf("frame %d of a clip of %d", i, len(c.Frames))
		}
		out.Frames = append(out.Frames, c.Frames[i])
	}
	if c.Rate.FPS() > 0 && len(frames) > 0 && c.Rate.Num < math.MaxInt32 && c.Rate.Den < math.MaxInt32/len(c.Frames) {
		out.Rate = Rate{c.Rate.Num * len(frames), c.Rate.Den * len(c.Frames)}.reduced()
	}
	return out, nil
}

// Limits bound the cost of a clip. A zero field means its default.
type Limits struct {
	Bytes  int64 // of the file: 1 GiB
	Pixels int64 // of a frame: 2^23, 4096 x 2048
	Frames int   // 4096
	Total  int64 // pixels of all frames: 2^28, 800 MB
}

const maxSide = 1 << 16

func (l Limits) filled() Limits {
	if l.Bytes <= 0 {
		l.Bytes = 1 << 30
	}
	if l.Pixels <= 0 {
		l.Pixels = 1 << 23
	}
	if l.Frames <= 0 {
		l.Frames = 4096
	}
	if l.Total <= 0 {
		l.Total = 1 << 28
	}
	return l
}

// check refuses sizes before memory is taken for them.
func (l Limits) check(width, height, frames int) error {
	switch {
	case width <= 0 || height <= 0:
		return fmt.Errorf("frames of %d x %d pixels: there is nothing in them", width, height)
	case width > maxSide || height > maxSide || int64(width)*int64(height) > l.Pixels:
		return fmt.Errorf("frames of %d x %d pixels, more than the %d that are allowed: make them smaller, or raise Limits.Pixels", width, height, l.Pixels)
	case frames > l.Frames:
		return fmt.Errorf("more than the %d frames that are allowed: cut the clip, or raise Limits.Frames", l.Frames)
	case int64(frames) > l.Total/(int64(width)*int64(height)):
		return fmt.Errorf("%d frames of %d x %d are more than the %d pixels that are allowed: make them smaller or fewer, or raise Limits.Total", frames, width, height, l.Total)
	}
	return nil
}

// Which frames are looked at, where all are too many.

// Uniform is n frames of total, evenly, with the first and the last: round(linspace(0, total-1,
// n)) half to even in fp32, as torch computes it from both ends and Qwen's video readers use
// it. More than there are repeat; one alone is the first.
func Uniform(total, n int) []int {
	if total <= 0 || n <= 0 {
		return nil
	}
	frames := make([]int, n)
	if n == 1 {
		return frames
	}
	last := float32(total - 1)
	step := last / float32(n-1)
	for i := range frames {
		at := float32(step * float32(i))
		if i >= n/2 {
			at = last - float32(step*float32(n-1-i))
		}
		frames[i] = int(math.RoundToEven(float64(at)))
	}
	return frames
}

// Thinned is every k-th frame with k = max(1, round(rate/fps)), half to even: VBench looks at
// about 8 frames a second so.
func Thinned(total int, rate Rate, fps float64) []int {
	k := 1
	if every := math.RoundToEven(rate.FPS() / fps); fps > 0 && every > 1 {
		k = int(min(every, float64(max(total, 1))))
	}
	var frames []int
	for i := 0; i < total; i += k {
		frames = append(frames, i)
	}
	return frames
}
