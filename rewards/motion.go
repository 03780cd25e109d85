package rewards

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/rewards/evidence"
	"github.com/darkroom-rl/darkroom/rewards/motion"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/video/flow"
)

// Card: how a clip moves, by a measure of package motion, whose cards have the formulas.
//
//	true        motion that frames bear out: 0 to 1, not to be had by tricks (motion.Quality)
//	magnitude   mean length of the flow, in pixels
//	dynamic     VBench's dynamic degree: 1 if it moves, else 0
//	flicker     VBench's temporal flickering: 1 if nothing changes
//	smoothness  VBench's motion smoothness, interpolated by averaging: 1 if nothing changes
//	warp        minus the warping error of Lai et al.: 0 if nothing changes
//
// All but true are won without motion or by noise: as rewards they need it beside them. Where
// the clip's rate is known it is thinned to PerSecond frames first, as VBench does, since a
// step of motion is longer the slower frames follow each other.

// Motion judges clips by a measure: "true", "magnitude", "dynamic", "flicker", "smoothness" or "warp".
type Motion struct {
	Measure string
	MotionOptions
}

// UsualMotion is true motion, by DIS, at VBench's 8 frames a second.
var UsualMotion = Motion{"true", MotionOptions{Method: "dis", PerSecond: 8}}

var errNoClip = errors.New("there is no clip to judge")

// Score judges a clip.
func (r Motion) Score(ctx context.Context, item Item) (Score, error) {
	c, _, err := r.picked(item)
	if err != nil {
		return Score{}, err
	}
	switch r.Measure {
	case "flicker":
		v, err := motion.Flicker(c)
		return Score{Value: v}, err
	case "smoothness":
		levels, v, err := motion.Smoothness(c)
		return Score{Value: v, Parts: map[string]float64{"levels": levels}}, err
	}
	m, err := r.steps(ctx, item)
	if err != nil {
		return Score{}, err
	}
	s, err := r.measure(m)
	if err != nil {
		return Score{}, err
	}
	for i, v := range m.Magnitudes() {
		s.Evidence = append(s.Evidence, evidence.Reason{What: "flow", Text: fmt.Sprintf("mean pixels from frame %d to %d of those looked at", i, i+1), Value: v})
	}
	return s, nil
}

func (r Motion) measure(m *motion.Steps) (s Score, err error) {
	switch r.Measure {
	case "true":
		q := m.Quality()
		s.Value, s.Parts = q.Value, map[string]float64{"amount": q.Amount, "explained": q.Explained, "visible": q.Visible, "steady": q.Steady, "camera": q.Camera}
		for i, p := range q.Pairs {
			if p.Visible < 0.3 || p.Explained < 0.3 && p.Amount > 0.3 {
				s.Because("not motion", "frame %d is not frame %d moved: %.0f %% of pixels return, %.0f %% of the change is explained", i+1, i, 100*p.Visible, 100*p.Explained)
			}
		}
	case "magnitude":
		all := m.Magnitudes()
		for _, v := range all {
			s.Value += v / float64(len(all))
		}
	case "dynamic":
		d, err := m.Dynamic()
		if d.Moves {
			s.Value = 1
		}
		s.Parts = map[string]float64{"threshold": d.Threshold, "needed": float64(d.Needed)}
		return s, err
	case "warp":
		s.Value = -m.Warp().Mean
	default:
		return s, fmt.Errorf(`measure %q is not known: "true", "magnitude", "dynamic", "flicker", "smoothness" and "warp" are`, r.Measure)
	}
	return s, nil
}

// MotionOptions are of rewards of clips.
type MotionOptions struct {
	Method    string  `toml:"method" enum:"dis,farneback,opencv" doc:"optical flow: the quick one, the steady one, or that one by OpenCV (in programs built with -tags gocv)"`
	PerSecond float64 `toml:"per_second" range:"[0,1000]" doc:"frames that are looked at; 0 is all"`
}

// SetDefaults is VBench's.
func (o *MotionOptions) SetDefaults() {
	*o = UsualMotion.MotionOptions
}

// flow is the method's.
func (o MotionOptions) flow() motion.Flow {
	switch o.Method {
	case "farneback":
		return flow.Farneback{}
	case "opencv":
		return flow.OpenCV{}
	}
	return flow.DIS{}
}

// picked are the frames of an item's clip that are looked at, and their places in it.
func (o MotionOptions) picked(item Item) (*video.Clip, []int, error) {
	if item.Clip == nil {
		return nil, nil, errNoClip
	}
	if err := item.Clip.Check(); err != nil {
		return nil, nil, err
	}
	places := video.Thinned(len(item.Clip.Frames), item.Clip.Rate, o.PerSecond)
	c, err := item.Clip.Pick(places)
	return c, places, err
}

// steps are those of an item's clip.
func (o MotionOptions) steps(ctx context.Context, item Item) (*motion.Steps, error) {
	c, places, err := o.picked(item)
	if err != nil {
		return nil, err
	}
	return item.Shared.steps(ctx, flowKey{item.Clip, o.Method, fmt.Sprint(places)}, func() (*motion.Steps, error) { return motion.StepsOf(ctx, c, o.flow()) })
}

// Shared are results that rewards of one item share: the steps of its clip. The first one that asks finds the flow, and
// others wait for it. Other methods, and other frames, do not wait. An error is not shared: the next one finds it.
// Steps are numbers, some hundred bytes for each frame, and live as long as the item.
//
// Invariant (test): scores have the bits of those that share nothing.
type Shared struct {
	mu    sync.Mutex
	found map[flowKey]*sought
}

// sought are steps under way until done is closed; nil after an error.
type sought struct {
	done  chan struct{}
	steps *motion.Steps
}

// flowKey names the flow of some frames of a clip. Copies of an item share results, and may have another clip.
type flowKey struct {
	clip           *video.Clip
	method, frames string
}

// Share lets rewards that are asked about the item, or about copies of it, share the steps of its clip.
func (i *Item) Share() {
	if i.Clip != nil && i.Shared == nil {
		i.Shared = &Shared{found: map[flowKey]*sought{}}
	}
}

// steps finds those that are not there yet, or waits for them until ctx ends. A nil Shared keeps nothing.
func (s *Shared) steps(ctx context.Context, of flowKey, find func() (*motion.Steps, error)) (*motion.Steps, error) {
	if s == nil {
		return find()
	}
	for {
		s.mu.Lock()
		at, there := s.found[of]
		if !there {
			at = &sought{done: make(chan struct{})}
			s.found[of] = at
		}
		s.mu.Unlock()
		if !there {
			return s.find(of, at, find)
		}
		select {
		case <-at.done:
			if at.steps != nil {
				return at.steps, nil
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// find finds steps that others may wait for. After an error, or a panic, the next one may.
func (s *Shared) find(of flowKey, at *sought, find func() (*motion.Steps, error)) (*motion.Steps, error) {
	defer func() {
		if at.steps == nil {
			s.mu.Lock()
			delete(s.found, of)
			s.mu.Unlock()
		}
		close(at.done)
	}()
	got, err := find()
	if err == nil {
		at.steps = got
	}
	return got, err
}

// built refuses a flow that this program was built without.
func (o MotionOptions) built() error {
	if o.Method == "opencv" && !flow.HasOpenCV {
		return flow.ErrNoOpenCV
	}
	return nil
}

// MotionKey is the table of MotionOptions.
type MotionKey struct {
	Motion *MotionOptions `toml:"motion" doc:"of rewards of clips: how their flow is found; not written, heading takes farneback on all frames"`
}

// measured is a kind that judges clips by a measure.
func measured(measure string, k Kind) Kind {
	k.Judges, k.Options = Clips, MotionKey{}
	if measure != "flicker" && measure != "smoothness" {
		k.Traits = Flows
	}
	k.Cases = append(k.Cases, "motion.clip")
	k.Open = Opens(func(k MotionKey, _ Bench) (Opened, error) {
		set := config.Filled(k.Motion)
		if err := set.built(); err != nil {
			return Opened{}, err
		}
		return One(Motion{measure, set}), nil
	})
	return k
}

// Rewards of how a clip moves.
var (
	MotionKind = measured("true", Kind{
		Name:   "motion",
		Card:   "True motion of a clip, 0 to 1: enough optical flow, steady, and confirmed by the frames; known tricks do not game it.",
		Paper:  "Darkroom, over DIS (Kroeger et al., 2016)",
		Parts:  []string{"amount", "explained", "visible", "steady", "camera"},
		Bounds: Unit,
	})
	MagnitudeKind = measured("magnitude", Kind{
		Name:  "magnitude",
		Card:  "Mean optical flow of a clip, in pixels; noise and cuts game it: use it together with motion.",
		Paper: "DIS (Kroeger et al., 2016)",
	})
	DynamicKind = measured("dynamic", Kind{
		Name:   "dynamic",
		Card:   "VBench's dynamic degree: 1 if a clip moves, else 0; noise and cuts game it.",
		Paper:  "VBench (Huang et al., 2024)",
		Parts:  []string{"threshold", "needed"},
		Bounds: Unit,
	})
	FlickerKind = measured("flicker", Kind{
		Name:  "flicker",
		Card:  "VBench's temporal flickering: 1 where nothing changes; still clips game it.",
		Paper: "VBench (Huang et al., 2024)",
	})
	SmoothKind = measured("smoothness", Kind{
		Name:  "smooth",
		Card:  "VBench's motion smoothness, interpolated by averaging; still clips game it.",
		Paper: "VBench (Huang et al., 2024)",
		Parts: []string{"levels"},
	})
	WarpKind = measured("warp", Kind{
		Name:  "warp",
		Card:  "Minus the warping error of a clip; still clips game it.",
		Paper: "Lai et al., 2018",
	})
)
