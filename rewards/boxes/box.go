package boxes

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/portable"
)

// A Box is x0, y0, x1, y1.
type Box [4]float64

// Area is negative where one side is turned round.
func (b Box) Area() float64 { return float64((b[2] - b[0]) * (b[3] - b[1])) }

// Centre is the middle of a box.
func (b Box) Centre() (x, y float64) { return float64((b[0] + b[2]) / 2), float64((b[1] + b[3]) / 2) }

// Overlap is the area that two boxes share, and the area that they cover together.
func Overlap(a, b Box) (both, either float64) {
	both = float64(max(0, min(a[2], b[2])-max(a[0], b[0])) * max(0, min(a[3], b[3])-max(a[1], b[1])))
	return both, a.Area() + b.Area() - both
}

// hull is the smallest box around two.
func hull(a, b Box) Box {
	return Box{min(a[0], b[0]), min(a[1], b[1]), max(a[2], b[2]), max(a[3], b[3])}
}

// Card: four ways to say how well boxes fit, as torchvision.ops computes them:
//
//	IoU   shared area / covered area
//	GIoU  IoU - (hull - covered)/hull: below 0 for boxes that are apart, the further the lower
//	DIoU  IoU - (distance of centres / diagonal of the hull)²
//	CIoU  DIoU - αv, v = 4/π² (atan wa/ha - atan wb/hb)², α = v/(1 - IoU + v): as well the shape
//
// torchvision gives NaN where nothing is covered (two coincident points or lines); a missing
// reward would be wrong there, for both boxes were given: IoU is 0.
// Invariants (tests): a box with itself is 1; symmetric; CIoU <= DIoU <= IoU, GIoU <= IoU;
// unchanged by shifting and stretching.

// IoU is the intersection over union, 0 for boxes that are turned round.
func IoU(a, b Box) float64 {
	both, either := Overlap(a, b)
	if either <= 0 {
		return 0
	}
	return both / either
}

// GIoU is the generalised one (Rezatofighi et al. 2019).
func GIoU(a, b Box) float64 {
	_, either := Overlap(a, b)
	around := hull(a, b).Area()
	if around == 0 {
		return IoU(a, b)
	}
	return IoU(a, b) - (around-either)/around
}

// tiny keeps torchvision's quotients finite.
const tiny = 1e-7

// DIoU takes the distance into account (Zheng et al. 2020).
func DIoU(a, b Box) float64 {
	h := hull(a, b)
	ax, ay := a.Centre()
	bx, by := b.Centre()
	return IoU(a, b) - (square(ax-bx)+square(ay-by))/(square(h[2]-h[0])+square(h[3]-h[1])+tiny)
}

// CIoU takes as well the shape into account (Zheng et al. 2020).
func CIoU(a, b Box) float64 {
	turn := portable.Atan2(a[2]-a[0], a[3]-a[1]) - portable.Atan2(b[2]-b[0], b[3]-b[1])
	v := float64(4 / (math.Pi * math.Pi) * square(turn))
	return DIoU(a, b) - v*v/(1-IoU(a, b)+v+tiny)
}

func square(x float64) float64 { return float64(x * x) }

// Forms are how four numbers may say a box.
var Forms = [...]string{"xyxy", "xywh", "cxcywh"}

// Convert writes a box that is given in one form in another: corners, a corner and the size,
// or the centre and the size.
func Convert(b Box, from, to string) (Box, error) {
	if from == to && slices.Contains(Forms[:], from) {
		return b, nil
	}
	switch from {
	case "xyxy":
	case "xywh":
		b = Box{b[0], b[1], b[0] + b[2], b[1] + b[3]}
	case "cxcywh":
		w, h := float64(b[2]/2), float64(b[3]/2)
		b = Box{b[0] - w, b[1] - h, b[0] + w, b[1] + h}
	default:
		return b, fmt.Errorf("boxes are not given as %q: it is one of %v", from, Forms)
	}
	switch to {
	case "xyxy":
		return b, nil
	case "xywh":
		return Box{b[0], b[1], b[2] - b[0], b[3] - b[1]}, nil
	case "cxcywh":
		x, y := b.Centre()
		return Box{x, y, b[2] - b[0], b[3] - b[1]}, nil
	}
	return b, fmt.Errorf("boxes are not written as %q: it is one of %v", to, Forms)
}

// Suppress is greedy non-maximum suppression: boxes in the order of falling scores, each unless
// its IoU with one that was kept is above the threshold. It returns the numbers of those kept.
func Suppress(boxes []Box, scores []float64, threshold float64) []int {
	kept := []int{}
	for _, i := range Falling(scores) {
		if !slices.ContainsFunc(kept, func(k int) bool { return IoU(boxes[k], boxes[i]) > threshold }) {
			kept = append(kept, i)
		}
	}
	return kept
}

// Falling is the order of falling scores; equal ones stay as they are.
func Falling(scores []float64) []int {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	return order
}
