package flow

import (
	"errors"
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/video"
)

// Card: dense inverse search (Kroeger et al., "Fast optical flow using dense inverse search",
// 2016), as OpenCV's DISOpticalFlow 4.11 computes it. From the coarsest level on, patches of
// 8 x 8 pixels on a grid are moved by Gauss-Newton, with gradients of the first frame, from
// the best result of the level before, the patch to the left and the one above (search.go); each pixel's flow is the
// mean over its patches, weighed by how well it fits there (search.go); then the flow is refined as the minimum of an
// energy (refine.go). The finest level is not the frame itself: the rest is bilinear.
//
// Grid rows are searched in eight bands that do not look at each other, whatever the number
// of threads, as OpenCV does.

// A Preset is one of OpenCV's settings, from the quickest to the best.
type Preset int

// The presets.
const (
	Medium Preset = iota
	Fast
	UltraFast
)

// DIS holds the method's settings. The zero value is OpenCV's preset medium.
type DIS struct {
	Preset Preset

	// Values below replace those of the preset where they are not zero; -1 stands for 0.
	FinestScale int // halvings of the frame on the finest level
	PatchSize   int // 4 to 16
	PatchStride int
	Descent     int // Gauss-Newton steps for a patch, in all
	Refinements int // rounds of the refinement on a level

	// Weights of the refinement: smoothness, gradients, colours; 20, 10 and 5.
	Alpha, Gamma, Delta float32
	Epsilon             float32 // the rounding of its penalties at 0: 0.01

	WithoutMean        bool // patches are compared as they are, not less their means
	WithoutPropagation bool // neighbours are not asked

	Start   *video.Field // tried for each patch, too
	Threads int          // 1
}

func (d DIS) filled() DIS {
	// OpenCV's values for its three presets.
	finest, stride, descent, rounds := 1, 3, 25, 5
	switch d.Preset {
	case Fast:
		finest, stride, descent, rounds = 2, 4, 16, 5
	case UltraFast:
		finest, stride, descent, rounds = 2, 4, 12, 0
	}
	set := func(v *int, usual int) {
		if *v == 0 {
			*v = usual
		}
		*v = max(*v, 0)
	}
	set(&d.FinestScale, finest)
	set(&d.PatchSize, 8)
	set(&d.PatchStride, stride)
	set(&d.Descent, descent)
	set(&d.Refinements, rounds)
	for v, usual := range map[*float32]float32{&d.Alpha: 20, &d.Gamma: 10, &d.Delta: 5, &d.Epsilon: 0.01} {
		if *v == 0 {
			*v = usual
		}
		*v = max(*v, 0)
	}
	d.Threads = max(d.Threads, 1)
	return d
}

func (d DIS) check(a Gray) error {
	switch {
	case d.Preset < Medium || d.Preset > UltraFast:
		return fmt.Errorf("preset %d: Medium, Fast and UltraFast are possible", d.Preset)
	case d.PatchSize < 4 || d.PatchSize > border || d.PatchStride < 1 || d.PatchStride > d.PatchSize:
		return fmt.Errorf("patches of %d pixels every %d: 4..%d, and 1 to the size are possible", d.PatchSize, d.PatchStride, border)
	case d.FinestScale > 20 || d.Descent < 1:
		return fmt.Errorf("finest scale %d, %d steps: at most 20 and at least 1 are possible", d.FinestScale, d.Descent)
	case d.Start == nil:
		return nil
	}
	if err := d.Start.Check(); err != nil {
		return fmt.Errorf("the flow to start from: %w", err)
	}
	if d.Start.Width != a.Width || d.Start.Height != a.Height {
		return fmt.Errorf("the flow to start from is %d x %d, the frames are %d x %d", d.Start.Width, d.Start.Height, a.Width, a.Height)
	}
	return nil
}

// Between is the flow between two frames of a clip.
func (d DIS) Between(c *video.Clip, from, to int) (*video.Field, error) {
	a, b, err := pair(c, from, to)
	if err != nil {
		return nil, err
	}
	return d.Flow(a, b)
}

// scales are the coarsest and the finest level for a frame. Where the frame is too small for
// the finest, OpenCV goes by its width, and reads beyond memory if it is low; here a level
// has room for a patch.
func (d DIS) scales(width, height int) (coarsest, finest int, err error) {
	halvings := func(x float64) int { return int(math.Max(portable.Log(x)/portable.Log(2), -1000)) }
	coarsest = int(math.Max(portable.Log(float64(max(width, height))/(4*float64(d.PatchSize)))/portable.Log(2)+0.5, -1000))
	coarsest = min(coarsest, halvings(float64(min(width, height)/d.PatchSize)))
	if coarsest < 0 || min(width, height) < d.PatchSize {
		return 0, 0, fmt.Errorf("frames of %d x %d are too small for patches of %d pixels: use Farneback", width, height, d.PatchSize)
	}
	finest = d.FinestScale
	if coarsest < finest {
		coarsest = max(0, int(math.Floor(portable.Log2(2*float64(width)/(5*float64(d.PatchSize))))))
		finest = max(coarsest-2, 0)
		for coarsest > 0 && min(width, height)>>coarsest < d.PatchSize {
			coarsest--
		}
		finest = min(finest, coarsest)
	}
	return coarsest, finest, nil
}

// Flow is the flow from frame a to frame b.
func (d DIS) Flow(first, second Gray) (*video.Field, error) {
	d = d.filled()
	if err := checkPair(first, second); err != nil {
		return nil, err
	}
	if err := d.check(first); err != nil {
		return nil, err
	}
	coarsest, finest, err := d.scales(first.Width, first.Height)
	if err != nil {
		return nil, err
	}
	a, b := shrink(first, first.Width>>finest, first.Height>>finest), shrink(second, second.Width>>finest, second.Height>>finest)
	levels := make([]*search, coarsest+1)
	for i := finest; i <= coarsest; i++ {
		if i > finest {
			a, b = shrink(a, a.Width/2, a.Height/2), shrink(b, b.Width/2, b.Height/2)
		}
		if levels[i], err = newSearch(&d, a, b); err != nil {
			return nil, err
		}
		if d.Start != nil {
			levels[i].start(d.Start, 1<<i)
		}
	}
	k := fastest()
	var x, y *plane
	for i := coarsest; i >= finest; i-- {
		s := levels[i]
		levels[i] = nil
		if x == nil {
			x, y = newPlane(s.width, s.height), newPlane(s.width, s.height)
		} else {
			x, y = x.enlarged(s.width, s.height, 2, d.Threads), y.enlarged(s.width, s.height, 2, d.Threads)
		}
		s.find(k, x, y)
		s.densify(x, y)
		if d.Refinements > 0 {
			newRefinement(&d, s, x, y).run(k, x, y)
		}
	}
	times := float64(int(1) << finest)
	return field(x.enlarged(first.Width, first.Height, times, d.Threads), y.enlarged(first.Width, first.Height, times, d.Threads)), nil
}

var errSmall = errors.New("a level has no room for a patch")
