package vlm

import (
	"errors"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// Card: which frames of a clip are read. Three published rules differ for the same clip:
//
//	qwen2_vl   Qwen2VLVideoProcessor of transformers: an even count, floor(i·(total/count)), rounded to fp32
//	qwen3_vl   Qwen3VLVideoProcessor: any count, round(linspace(0, total-1, count)) half to even
//	vendor     qwen-vl-utils: an even count, places as qwen3_vl's
//
// The count is total/rate·FPS, between Min and Max and not more than the clip has, or Count where it is given.
// Upstream's places of qwen2_vl are now and then one too many, past the end, where reading fails: PastEnd says
// so. Held to video.sample_frames.

// A FrameRule is one of the three.
type FrameRule string

// The rules.
const (
	Qwen2Frames  FrameRule = "qwen2_vl"
	Qwen3Frames  FrameRule = "qwen3_vl"
	VendorFrames FrameRule = "vendor"
)

// Frames says how many are read.
type Frames struct {
	Rule     FrameRule
	FPS      float64 // that are wanted a second; 0: Count
	Count    int
	Min, Max int
}

// PastEnd is the error of places of which the last lies past the clip's end.
type PastEnd struct{ Places []int }

func (e PastEnd) Error() string {
	return fmt.Sprintf("the last of the %d frames that are read, %d, lies past the clip's end: read one frame less", len(e.Places), e.Places[len(e.Places)-1])
}

// errCount is the error of counts that a clip does not have.
var errCount = errors.New("there are not as many frames, or fewer than 2 are wanted: give a longer clip, or another count")

// Of is the numbers of a clip's frames that are read, of total at a rate.
func (f Frames) Of(total int, rate float64) ([]int, error) {
	if total < 1 || f.FPS > 0 && !(rate > 0 && rate < 1e6) || f.FPS <= 0 && f.Count < 1 {
		return nil, fmt.Errorf("%d frames at %v a second, of which %v a second or %d in all: no clip has them", total, rate, f.FPS, f.Count)
	}
	n := f.Count
	switch {
	case f.Rule == Qwen3Frames && f.FPS > 0:
		n = min(max(int(float64(total)/rate*f.FPS), f.Min), f.Max, total)
	case f.Rule == Qwen3Frames:
	case f.FPS > 0:
		most := min(f.Max, total) / 2 * 2
		wanted := min(max(float64(total)/rate*f.FPS, float64(f.Min)), float64(most), float64(total))
		n = int(math.Floor(wanted/2)) * 2
	default:
		n = int(math.RoundToEven(float64(n)/2)) * 2
		if n > total {
			return nil, errCount
		}
	}
	if n < 1 || f.Rule != Qwen3Frames && n < 2 {
		return nil, errCount
	}
	if f.Rule == Qwen2Frames {
		return stepped(total, n)
	}
	return spaced(total, n), nil
}

// stepped is floor(i·(total/n)), as a range of numbers has them.
func stepped(total, n int) ([]int, error) {
	step := float64(total) / float64(n)
	var places []int
	for i := range int(math.Ceil(float64(total) / step)) {
		places = append(places, int(float32(float64(i)*step)))
	}
	if len(places) > n {
		return nil, PastEnd{places}
	}
	return places, nil
}

// spaced is n places from the first frame to the last, evenly, rounded half to even in float64 as numpy does.
func spaced(total, n int) []int {
	places := make([]int, n)
	for i := 1; i < n; i++ {
		places[i] = int(math.RoundToEven(float64(i) * (float64(total-1) / float64(n-1))))
	}
	if n > 1 {
		places[n-1] = total - 1
	}
	return places
}

// Read takes frames out of a clip, and returns their rate. the rate that they have then.
func (f Frames) Read(c *video.Clip) (frames []int, rate float64, err error) {
	if frames, err = f.Of(len(c.Frames), c.Rate.FPS()); err != nil {
		return nil, 0, err
	}
	return frames, float64(len(frames)) / float64(len(c.Frames)) * c.Rate.FPS(), nil
}

// Card: the size of a clip's frames. Sides are multiples of factor, and the area lies between two bounds, as a
// picture's (processor.go):
//
//	qwen2_vl   of one frame
//	qwen3_vl   of the whole clip, frames rounded half to even to a multiple of 2, times both sides; a side below
//	           factor is scaled up first
//	vendor     qwen-vl-utils, for frames that come as pictures: by a slip they pass the picture's rule with twice
//	           the factor before the clip's, so that they are resized twice
//
// Cap is a bound a frame by the tokens of a clip, which transformers has announced and has off. Held to
// video.size.

// ClipPixels bounds the area of a clip's frames.
type ClipPixels struct {
	Rule FrameRule
	Pixels
	Cap    bool
	Tokens int // of a clip, where Cap is on
}

// Size is the size that frames of width x height become, in a clip of some.
func (p ClipPixels) Size(frames, width, height, factor int) (w, h int, err error) {
	if err := sane(width, height); err != nil {
		return 0, 0, err
	}
	if frames < 1 || frames > 1<<20 || factor < 1 || factor > 1<<16 || p.Min < 0 || p.Max < 1 || max(p.Min, p.Max) > 1<<40 || p.Tokens < 0 || p.Tokens > 1<<40 {
		return 0, 0, fmt.Errorf("%d frames of %d to %d pixels in multiples of %d: no clip has them", frames, p.Min, p.Max, factor)
	}
	least, cell := int(float64(p.Min)*1.05), factor*factor
	b := clipBounds{factor: factor, least: p.Min, most: p.Max, weight: 1, wholeWeight: 1}
	if p.Rule == Qwen2Frames {
		if p.Cap {
			b.most = max(min(p.Max, int(float64(p.Tokens*cell)*0.9)*2/frames), least)
		}
	} else {
		b.weight, b.wholeWeight = frames, int(math.RoundToEven(float64(frames)/2))*2
		if p.Cap {
			b.most = max(min(p.Tokens*cell, p.Max/frames), least) * frames
		}
		width, height = scaledUp(width, height, factor)
	}
	w, h = b.size(width, height)
	return w, h, nil
}

// scaledUp makes sides at least factor.
func scaledUp(width, height, factor int) (w, h int) {
	if min(width, height) >= factor {
		return width, height
	}
	by := max(float64(factor)/float64(height), float64(factor)/float64(width))
	return int(float64(width) * by), int(float64(height) * by)
}

// VendorSize is qwen-vl-utils' for frames that come as pictures: least cells a picture and a frame, and most
// pixels. An odd number of frames has one more.
func VendorSize(frames, width, height, factor, pictureCells, frameCells, most int) (w, h, of int, err error) {
	if err := sane(width, height); err != nil {
		return 0, 0, 0, err
	}
	if frames < 1 || frames > 1<<20 || factor < 1 || factor > 1<<15 || most < 1 || most > 1<<40 {
		return 0, 0, 0, fmt.Errorf("%d frames of at most %d pixels in multiples of %d: no clip has them", frames, most, factor)
	}
	picture := clipBounds{factor: 2 * factor, least: pictureCells * 4 * factor * factor, most: most, weight: 1, wholeWeight: 1, atLeast: 2 * factor}
	w, h = picture.size(width, height)
	of = frames + frames%2
	least, cell := frameCells*factor*factor, float64(factor*factor)
	bound := math.Max(math.Min(768*cell, 128000*cell*0.9/float64(of)*2), float64(int(float64(least)*1.05)))
	frame := clipBounds{factor: factor, least: least, most: int(math.Min(float64(most), bound)), weight: 1, wholeWeight: 1, atLeast: factor}
	w, h = frame.size(w, h)
	return w, h, of, nil
}

// MostFirst is qwen-vl-utils' size of a frame or picture where the least area may lie above the most: the test
// against the most comes first (VideoAlign, HPSv3).
func (p Pixels) MostFirst(width, height, factor int) (w, h int, err error) {
	if err := sane(width, height); err != nil {
		return 0, 0, err
	}
	if factor < 1 || factor > 1<<16 || p.Min < 0 || p.Max < 1 || max(p.Min, p.Max) > 1<<40 {
		return 0, 0, fmt.Errorf("%d to %d pixels in multiples of %d: there are none", p.Min, p.Max, factor)
	}
	w, h = clipBounds{factor: factor, least: p.Min, most: p.Max, weight: 1, wholeWeight: 1, atLeast: factor}.size(width, height)
	return w, h, nil
}

// clipBounds is one application of the rule.
type clipBounds struct {
	factor, least, most int
	weight, wholeWeight int // frames that the area counts, and counts once sides are whole
	atLeast             int // of sides that are rounded
}

func (b clipBounds) size(width, height int) (w, h int) {
	f := float64(b.factor)
	side := func(n int) int { return max(b.atLeast, int(math.RoundToEven(float64(n)/f))*b.factor) }
	w, h = side(width), side(height)
	area := float64(b.weight) * float64(height) * float64(width)
	switch {
	case b.wholeWeight*w*h > b.most:
		by := math.Sqrt(area / float64(b.most))
		shrink := func(n int) int { return max(b.factor, int(math.Floor(float64(n)/by/f))*b.factor) }
		w, h = shrink(width), shrink(height)
	case b.wholeWeight*w*h < b.least:
		by := math.Sqrt(float64(b.least) / area)
		grow := func(n int) int { return int(math.Ceil(float64(n)*by/f)) * b.factor }
		w, h = grow(width), grow(height)
	}
	return w, h
}

// Clip cuts the frames of a clip into patches, each of which spans Frames of them. Where frames do not divide,
// the last is repeated. A clip's pixels are bounded by p of their own.
func (p *Processor) Clip(of ClipPixels, frames ...*vision.Raster) (Patches, error) {
	var out Patches
	if err := p.check(); err != nil {
		return out, err
	}
	if len(frames) == 0 {
		return out, fmt.Errorf("a clip without frames")
	}
	w, h, err := of.Size(len(frames), frames[0].Width, frames[0].Height, p.Patch*p.Merge)
	if err != nil {
		return out, err
	}
	var resized []*vision.Image
	for i, r := range frames {
		if r.Width != frames[0].Width || r.Height != frames[0].Height {
			return out, fmt.Errorf("frame %d has %d x %d pixels, and the first %d x %d", i, r.Width, r.Height, frames[0].Width, frames[0].Height)
		}
		m, err := p.resizeTo(r.Over(color.RGBA{255, 255, 255, 255}), w, h)
		if err != nil {
			return out, fmt.Errorf("frame %d: %w", i, err)
		}
		resized = append(resized, m)
	}
	for len(resized)%p.Frames != 0 {
		resized = append(resized, resized[len(resized)-1])
	}
	g := Grid{len(resized) / p.Frames, h / p.Patch, w / p.Patch}
	if err := Check([]Grid{g}, p.Merge); err != nil {
		return out, err
	}
	for some := range slices.Chunk(resized, p.Frames) {
		if out.Values, err = p.cut(out.Values, some, Grid{1, g.Rows, g.Columns}); err != nil {
			return out, err
		}
	}
	out.Grids = []Grid{g}
	return out, nil
}

// Card: clips as Qwen3-VL reads them: each frame is a picture of its own, with its time as a text
// before it,
//
//	<0.4 seconds><|vision_start|>(a mark a merged cell)<|vision_end|>
//
// in place of the clip's one mark. A frame of patches joins several of the clip; its time is the
// mean of the first and the last, a list that does not divide being filled up with its last.
// Source: Qwen3VLProcessor of transformers 4.57, which came with the weights; 5.23 leaves the
// clip's own pair of marks around the frames. The other families have no text between frames.

// Timestamps are the seconds of a clip's patches, from the numbers of their frames and the rate; join frames make one
// of patches.
func Timestamps(frames []int, perSecond float64, join int) ([]float64, error) {
	if len(frames) == 0 || join < 1 || join > 16 || !(perSecond > 0 && perSecond < 1e6) {
		return nil, fmt.Errorf("%d frames, %g a second, joined by %d: no clip has them", len(frames), perSecond, join)
	}
	frames = slices.Clone(frames)
	for len(frames)%join != 0 {
		frames = append(frames, frames[len(frames)-1])
	}
	var times []float64
	for i := 0; i < len(frames); i += join {
		times = append(times, (float64(frames[i])/perSecond+float64(frames[i+join-1])/perSecond)/2)
	}
	return times, nil
}

// FramesApart writes each clip of a text as frames with their times; each frame has one mark, for
// which Marks.Expand takes the grids that FrameGrids gives.
func FramesApart(text string, times [][]float64) (string, error) { return frames(text, times, "", "") }

// FramesInside is FramesApart with the clip's own pair of marks around the frames, as transformers 5 writes them.
func FramesInside(text string, times [][]float64) (string, error) {
	return frames(text, times, "<|vision_start|>", "<|vision_end|>")
}

func frames(text string, times [][]float64, first, last string) (string, error) {
	var b strings.Builder
	for i, t := range times {
		before, after, found := strings.Cut(text, clip)
		if !found {
			return "", fmt.Errorf("%d clips, and the text has marks for %d", len(times), i)
		}
		b.WriteString(before + first)
		for _, seconds := range t {
			fmt.Fprintf(&b, "<%.1f seconds>%s", seconds, clip)
		}
		text = last + after
	}
	if strings.Contains(text, clip) {
		return "", fmt.Errorf("%d clips, and the text has marks for more", len(times))
	}
	b.WriteString(text)
	return b.String(), nil
}

// FrameGrids are a clip's frames as clips of their own.
func FrameGrids(g Grid) []Grid {
	return slices.Repeat([]Grid{{1, g.Rows, g.Columns}}, max(g.Frames, 0))
}
