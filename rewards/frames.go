package rewards

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards/evidence"
	"github.com/darkroom-rl/darkroom/vision"
)

// Card: the score of a clip by a judge of pictures, which is asked about its frames:
//
//	mean        the mean of all (UniRL, verl-omni)
//	worst       the least: one bad frame spoils a clip
//	best:SHARE  the mean of the best max(1, ⌊SHARE·n⌋) (GenRL's percentile, 0.3)
//
// Upstreams leave out frames that could not be judged, or count them 0; here the clip's score is missing.
// Invariant (test): worst <= mean <= best, and of a clip of equal frames all are the picture's score.

// A FrameRule chooses the frames of a clip to judge, and combines their scores.
type FrameRule struct {
	Worst bool
	Best  float64 // the share of frames that counts; 0: all
	Every int     // one frame in this many is judged; 0: 1
}

// ParseFrames reads "mean", "worst" or "best:SHARE"; "" is the mean.
func ParseFrames(how string) (FrameRule, error) {
	name, share, shared := strings.Cut(how, ":")
	switch {
	case how == "" || how == "mean":
		return FrameRule{}, nil
	case how == "worst":
		return FrameRule{Worst: true}, nil
	case name == "best" && shared:
		if v, err := strconv.ParseFloat(share, 64); err == nil && v > 0 && v <= 1 {
			return FrameRule{Best: v}, nil
		}
		return FrameRule{}, fmt.Errorf("%q is no share of a clip's frames: it must lie above 0 and be at most 1", share)
	}
	return FrameRule{}, fmt.Errorf("%q is not known as a way to judge a clip by its frames", how)
}

// counted are the places of the scores that count.
func (r FrameRule) counted(scores []float64) []int {
	places := make([]int, len(scores))
	for i := range places {
		places[i] = i
	}
	n := len(scores)
	switch {
	case r.Worst:
		n = 1
		slices.SortStableFunc(places, func(a, b int) int { return compared(scores[a], scores[b]) })
	case r.Best > 0:
		n = max(1, int(r.Best*float64(n)))
		slices.SortStableFunc(places, func(a, b int) int { return compared(scores[b], scores[a]) })
	}
	places = places[:n]
	slices.Sort(places)
	return places
}

func compared(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// FrameKeys are of rewards that judge a clip by its frames.
type FrameKeys struct {
	Frames string `toml:"frames" doc:"of a clip: mean of its frames; worst, its least frame; best:0.3, the mean of that share of them; empty: mean, of ocr as its formula says"`
	Every  int    `toml:"frames_every" range:"[0,1e6]" doc:"of a clip, one frame in this many is judged; 0: all, of ocr as ocr.interval says"`
}

// Check refuses a way to judge by frames that there is not.
func (k FrameKeys) Check(report Report) {
	if _, err := ParseFrames(k.Frames); err != nil {
		report("frames", err.Error(), `frames = "mean", "worst" or "best:0.3"`)
	}
}

// Framed judges clips by a judge of pictures. A picture is judged as ever.
type Framed struct {
	Of Judge
	FrameRule
}

// Judge asks about all frames of all clips at once.
func (f Framed) Judge(ctx context.Context, items []Item) []Result {
	out := make([]Result, len(items))
	var pictures []Item
	from := make([]int, 0, len(items)+1)
	for i, item := range items {
		from = append(from, len(pictures))
		if item.Clip == nil {
			pictures = append(pictures, item)
			continue
		}
		frames, err := item.Frames(f.Every)
		out[i].Missing = err
		for _, m := range frames {
			one := item
			one.Clip, one.Image = nil, m
			pictures = append(pictures, one)
		}
	}
	from = append(from, len(pictures))
	judged := f.Of.Judge(ctx, pictures)
	for i := range items {
		switch some := judged[from[i]:from[i+1]]; {
		case out[i].Missing != nil:
		case items[i].Clip == nil:
			out[i] = some[0]
		default:
			out[i] = f.join(some)
		}
	}
	return out
}

// join makes one score of frames'.
func (f Framed) join(frames []Result) Result {
	values := make([]float64, len(frames))
	for i, r := range frames {
		if r.Missing != nil {
			return Result{Missing: fmt.Errorf("frame %d of the %d that were judged: %w", i+1, len(frames), r.Missing)}
		}
		values[i] = r.Value
	}
	places := f.counted(values)
	s := Score{Evidence: frames[places[0]].Evidence}
	n := float64(len(places))
	for _, i := range places {
		s.Value += values[i] / n
		for name, v := range frames[i].Parts {
			if s.Parts == nil {
				s.Parts = map[string]float64{}
			}
			s.Parts[name] += v / n
		}
	}
	for i, v := range values {
		s.Evidence = append(s.Evidence, evidence.Reason{What: "frame", Text: strconv.Itoa(i * max(1, f.Every)), Value: v})
	}
	return checked(s, nil)
}

// Frames are the pictures that an item shows: its picture, or every n-th frame of its clip.
func (i Item) Frames(every int) ([]*vision.Image, error) {
	switch {
	case i.Clip != nil:
		return framesOf(i.Clip, max(1, every))
	case i.Image == nil:
		return nil, ErrNoImage
	}
	return []*vision.Image{i.Image}, nil
}
