package rewards

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/video"
)

// dropped is a clip of a ball whose middle is at a place in each frame, sixteen frames of 64 x 64, before waves.
func dropped(at func(t int) (x, y float64)) *video.Clip {
	const side = 64
	ground := filmed(func(float64) view { return view{0, 0, 1, 0} }).Frames[0]
	c := &video.Clip{Width: side, Height: side, Rate: video.Rate{Num: 16, Den: 1}}
	for t := range 16 {
		px := slices.Clone(ground)
		bx, by := at(t)
		for i := range side * side {
			dx, dy := float64(i%side)-bx, float64(i/side)-by
			if dx*dx+dy*dy <= 25 {
				px[3*i], px[3*i+1], px[3*i+2] = 250, 10, 10
			}
		}
		c.Frames = append(c.Frames, px)
	}
	return c
}

// bouncing is the height of a ball that falls from a height with this gravity to a floor, and leaves it with a share of
// its speed.
func bouncing(from, gravity, keeps float64) func(t int) float64 {
	return func(frame int) float64 {
		y, v := from, 0.0
		for range 100 * frame {
			v += gravity / 100
			if y += v / 100; y > 56 && v > 0 {
				y, v = 56, -v*keeps
			}
		}
		return y
	}
}

// TestBall: balls that fall, are thrown and bounce are near 1; all else is far below.
func TestBall(t *testing.T) {
	along := func(y func(t int) float64) func(int) (float64, float64) {
		return func(t int) (float64, float64) { return 10 + 2.5*float64(t), y(t) }
	}
	falls, bounces := bouncing(8, 0.4, 0), bouncing(8, 1.2, 0.8)
	right := map[string]*video.Clip{
		"falls":   dropped(along(falls)),
		"bounces": dropped(along(bounces)),
		"thrown":  dropped(along(func(t int) float64 { f := float64(t); return 50 - 6*f + 0.4*f*f })),
		"upright": dropped(func(t int) (float64, float64) { return 32, bounces(t) }),
	}
	for name, c := range right {
		if s, err := (Ball{}).Score(t.Context(), Item{Clip: c}); err != nil || s.Value < 0.7 {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
	gains := bouncing(38, 1, 1.35)
	bounced := right["bounces"]
	noise, still, shuffled, cuts := copyOf(bounced), copyOf(bounced), copyOf(bounced), copyOf(bounced)
	r := rand.New(rand.NewPCG(1, 2))
	for f := range bounced.Frames {
		for i := range noise.Frames[f] {
			noise.Frames[f][i] = uint8(r.IntN(256))
		}
		still.Frames[f] = bounced.Frames[7]
		if f%4 > 1 {
			cuts.Frames[f] = right["thrown"].Frames[15-f]
		}
	}
	r.Shuffle(16, func(a, b int) { shuffled.Frames[a], shuffled.Frames[b] = shuffled.Frames[b], shuffled.Frames[a] })
	for name, c := range map[string]*video.Clip{
		"steady":   dropped(along(func(t int) float64 { return 8 + 2.5*float64(t) })),
		"upwards":  dropped(along(func(t int) float64 { return 64 - falls(t) })),
		"floats":   dropped(along(func(int) float64 { return 32 })),
		"gains":    dropped(along(gains)),
		"leaps":    dropped(along(func(t int) float64 { return falls(t) - float64(12*(t/4%2)) })),
		"sideways": dropped(func(t int) (float64, float64) { return 32 + float64(10*(t%2)), falls(t) }),
		"noise":    noise,
		"still":    still,
		"shuffled": shuffled,
		"cuts":     cuts,
		"nowhere":  dropped(func(int) (float64, float64) { return -50, -50 }),
		"backwards": {Width: 64, Height: 64, Rate: bounced.Rate, Frames: slices.Collect(func(yield func([]uint8) bool) {
			for _, f := range slices.Backward(dropped(along(bouncing(8, 1.2, 0.5))).Frames) {
				if !yield(f) {
					return
				}
			}
		})},
	} {
		if s, err := (Ball{}).Score(t.Context(), Item{Clip: c}); err != nil || s.Value > 0.45 {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
	short := *bounced
	short.Frames = short.Frames[:4]
	for _, item := range []Item{{Clip: &short}, {}} {
		if _, err := (Ball{}).Score(t.Context(), item); !errors.Is(err, errNoThing) && !errors.Is(err, errNoClip) {
			t.Errorf("judged: %v", err)
		}
	}
}
