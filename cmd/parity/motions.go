package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/darkroom-rl/darkroom/rewards/motion"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/video/flow"
	"github.com/darkroom-rl/darkroom/vision"
)

var motionOps = map[string]Op{
	// How clips move.
	"motion.clip": motionClip,

	// Optical flow between two frames.
	"flow.farneback_steps": farnebackSteps,
	"flow.pair":            flowPair,
}

// motionClip measures a clip with the flow that is recorded.
func motionClip(c *Case) {
	m := &motion.Motion{Clip: &video.Clip{}}
	for i := range c.Int("frames") {
		frame := must(vision.Open(filepath.Join(c.Dir(), fmt.Sprintf("frame_%d.png", i)), vision.Limits{}))
		m.Clip.Width, m.Clip.Height, m.Clip.Frames = frame.Width, frame.Height, append(m.Clip.Frames, frame.Pix)
	}

	m.Forward = fields(c, "forward")
	m.Backward = fields(c, "backward")
	flicker := must(motion.Flicker(m.Clip))
	steps := must(m.Steps())
	dynamic := must(steps.Dynamic())
	levels, smooth := must2(motion.Smoothness(m.Clip))
	warp := steps.Warp()
	c.Put("flicker_score", flicker)
	c.Put("dynamic", map[string]any{"top5_mean": dynamic.Top, "threshold": dynamic.Threshold, "count_needed": dynamic.Needed, "moves": dynamic.Moves})
	c.Put("smoothness_by_average", map[string]any{"mean_difference": levels, "score": smooth})
	c.Put("warp_error", map[string]any{"per_pair": warp.Errors, "mean": warp.Mean, "visible_share": warp.Visible})
	c.Put("mean_magnitude", steps.Magnitudes())
}

// fields reads motion [N, H, W, 2].
func fields(c *Case, name string) []*video.Field {
	a := c.Array(name)
	if len(a.Shape) != 4 || a.Shape[3] != 2 {
		failf("%s: [N, H, W, 2] is needed, not %v", name, a.Shape)
	}
	all := make([]*video.Field, a.Shape[0])
	size := a.Shape[1] * a.Shape[2]
	for n := range all {
		all[n] = video.NewField(a.Shape[2], a.Shape[1])
		for i := range size {
			all[n].X[i], all[n].Y[i] = float32(a.Data[2*(n*size+i)]), float32(a.Data[2*(n*size+i)+1])
		}
	}
	return all
}

// grayOf reads a tensor [H, W] of bytes.
func grayOf(c *Case, name string) (g flow.Gray) {
	a := c.Array(name)
	if len(a.Shape) != 2 {
		failf("%s: [H, W] is needed, not %v", name, a.Shape)
	}
	g = flow.Gray{Width: a.Shape[1], Height: a.Shape[0], Pix: make([]uint8, len(a.Data))}
	for i, v := range a.Data {
		if v != math.Trunc(v) || v < 0 || v > 255 {
			failf("%s: %v is not a byte", name, v)
		}
		g.Pix[i] = uint8(v)
	}
	return g
}

// farnebackOf reads OpenCV's names of the settings.
func farnebackOf(c *Case) flow.Farneback {
	f := flow.Farneback{
		PyramidScale: c.Float("pyr_scale"), Levels: c.Int("levels"), Window: c.Int("winsize"), Iterations: c.Int("iterations"),
		PolyN: c.Int("poly_n"), PolySigma: c.Float("poly_sigma"),
	}
	if f.Levels == 0 {
		f.Levels = -1
	}
	switch flags := c.Int("flags"); flags {
	case 0:
	case 256:
		f.Gaussian = true
	default:
		failf("flags %d: 0 and 256 (a Gaussian window) are known", flags)
	}
	return f
}

// together is planes as the last axis of an array.
func together(width, height int, planes ...[]float32) Array {
	n := len(planes)
	a := Array{[]int{height, width, n}, make([]float64, n*width*height)}
	for k, p := range planes {
		for i, v := range p {
			a.Data[n*i+k] = float64(v)
		}
	}
	if n == 1 {
		a.Shape = a.Shape[:2]
	}
	return a
}

func farnebackSteps(c *Case) {
	a := grayOf(c, "gray_0")
	b := grayOf(c, "gray_1")
	params := c.Sub("params")
	f := farnebackOf(params)
	filters, inverse := flow.PolynomialFilters(params.Int("poly_n"), params.Float("poly_sigma"))
	for i, name := range []string{"kernel_g", "kernel_xg", "kernel_xxg"} {
		c.Put(name, to[float64](filters[i]))
	}
	c.Put("inverse_11_03_33_55", to[float64](inverse[:]))
	f.Watch = func(s flow.Step) {
		c.Put(fmt.Sprintf("level%d_%s", s.Level, s.Name), together(s.Width, s.Height, s.Planes...))
	}
	got := must(f.Flow(a, b))
	c.Put("opencv_flow", together(got.Width, got.Height, got.X, got.Y))
}

// flowPair compares flows with their case's bounds, which are not a tolerance a number: the mean and the largest
// difference from OpenCV's Farneback, and end-point errors as small as OpenCV's within a twentieth. Of DIS only the
// errors are held to, for its versions differ.
func flowPair(c *Case) {
	clip := &video.Clip{}
	for i := range 2 {
		m := must(vision.Open(c.Dir()+fmt.Sprintf("/frame_%d.png", i), vision.Limits{}))
		clip.Width, clip.Height, clip.Frames = m.Width, m.Height, append(clip.Frames, m.Pix)
		if !slices.Equal(grayOf(c, fmt.Sprintf("gray_%d", i)).Pix, clip.Luma(i)) {
			failf("frame %d is another gray than recorded", i)
		}
	}
	p := pairCase{c, c.Array("truth").Data, c.Array("seen").Data, clip.Width}
	for _, name := range []string{"truth", "seen"} {
		c.Put(name, c.Array(name))
	}
	for _, name := range []string{"farneback_a", "farneback_b"} {
		got := must(farnebackOf(c.Sub("params").Sub(name)).Between(clip, 0, 1))
		p.near(name, got)
		p.errors(name, got)
		c.Put(name, c.Array(name))
	}
	got := must(flow.DIS{Preset: flow.Medium}.Between(clip, 0, 1))
	c.Put("dis_medium", c.Array("dis_medium"))
	p.errors("dis_medium", got)
}

// pairCase is a pair's recorded truth.
type pairCase struct {
	*Case
	truth, seen []float64
	width       int
}

func (p pairCase) allowed(name string) float64 {
	v, ok := p.Raw("tol").(map[string]any)[name].(float64)
	if !ok {
		p.complain("tol.%s is missing", name)
	}
	return v
}

func (p pairCase) near(name string, got *video.Field) {
	mean, most := 0.0, 0.0
	want := p.Array(name).Data
	if len(want) != 2*len(got.X) {
		failf("%s has %d numbers, %d were computed", name, len(want), 2*len(got.X))
	}
	for i := range got.X {
		for j, v := range [2]float32{got.X[i], got.Y[i]} {
			d := math.Abs(float64(v) - want[2*i+j])
			mean += d / float64(len(want))
			most = max(most, d)
		}
	}
	if limit := p.allowed("farneback_mean_abs"); !(mean <= limit) {
		failf("%s differs by %.3g in the mean, allowed %.3g", name, mean, limit)
	}
	if limit := p.allowed("farneback_max_abs"); !(most <= limit) {
		failf("%s differs by %.3g at most, allowed %.3g", name, most, limit)
	}
}

func (p pairCase) errors(name string, got *video.Field) {
	recorded := p.Sub("epe").Sub(name)
	for what, e := range endPointErrors(got, p.truth, p.seen) {
		want := recorded.Float(what)
		if limit := want + max(0.05*want, p.allowed("epe_abs")); !(e <= limit) {
			failf("%s: end-point error %s is %.4g, OpenCV's is %.4g", name, what, e, want)
		}
	}
}

// endPointErrors are lengths of differences from the truth: everywhere, where a pixel is seen
// in both frames, there but for 8 pixels at the edges, their median, and the percentage beyond
// 3 pixels and 5 % of the motion.
func endPointErrors(got *video.Field, truth, seen []float64) map[string]float64 {
	var all, visible, inner []float64
	bad := 0
	for i := range got.X {
		u, v := truth[2*i], truth[2*i+1]
		d := math.Hypot(float64(got.X[i])-u, float64(got.Y[i])-v)
		all = append(all, d)
		if seen[i] == 0 {
			continue
		}
		visible = append(visible, d)
		if d > 3 && d > 0.05*math.Hypot(u, v) {
			bad++
		}
		if x, y := i%got.Width, i/got.Width; min(x, got.Width-1-x, y, got.Height-1-y) >= 8 {
			inner = append(inner, d)
		}
	}
	return map[string]float64{
		"mean_all": meanOf(all), "mean_seen": meanOf(visible), "mean_inner_seen": meanOf(inner), "median_inner_seen": medianOf(inner),
		"bad_percent_seen": 100 * float64(bad) / float64(len(visible)),
	}
}

func meanOf(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

func medianOf(x []float64) float64 {
	slices.Sort(x)
	n := len(x)
	if n == 0 {
		return math.NaN()
	}
	return (x[(n-1)/2] + x[n/2]) / 2
}
