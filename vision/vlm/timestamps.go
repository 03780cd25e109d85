package vlm

import (
	"fmt"
	"slices"
	"strings"
)

// Card: clips as Qwen3-VL reads them: each frame is a picture of its own, with its time as a text
// before it,
//
//	<0.4 seconds><|vision_start|>(a mark a merged cell)<|vision_end|>
//
// in place of the clip's one mark. A frame of patches joins several of the clip; its time is the
// mean of the first and the last, a list that does not divide being filled up with its last.
// Source: Qwen3VLProcessor of transformers 4.57, which came with the weights; 5.23 leaves the
// clip's own pair of marks around the frames. The other families have no text between frames.

// Timestamps are the seconds of a clip's patches, of whose frames the numbers are given, at so
// many a second; join frames make one of patches.
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
