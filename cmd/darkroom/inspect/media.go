package inspect

import (
	"context"
	"fmt"
	"strconv"

	"github.com/darkroom-rl/darkroom/cmd/darkroom/inputs"
	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/outside/regular"
	"github.com/darkroom-rl/darkroom/rewards/motion"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/video/flow"
	"github.com/darkroom-rl/darkroom/view/field"
	"github.com/darkroom-rl/darkroom/vision"
)

// inspectClip describes a clip, and, where a picture is asked for, its motion.
func inspectClip(ctx context.Context, path, picture string) (*Document, error) {
	c, err := video.Open(path, video.Limits{})
	if err != nil {
		return nil, err
	}
	in := &Document{Path: path, Kind: "clip", Settings: []setting{{"frames", len(c.Frames)}, {"width", c.Width}, {"height", c.Height}}}
	if c.Rate.FPS() > 0 {
		in.Settings = append(in.Settings, setting{"frames_per_second", rounded(c.Rate.FPS())}, setting{"seconds", rounded(c.Seconds())})
	}
	if picture == "" {
		return in, nil
	}
	m, err := motion.Of(ctx, c, flow.DIS{})
	if err != nil {
		return in, fmt.Errorf("%s: %w", path, err)
	}
	if err := in.measure(m); err != nil {
		return in, fmt.Errorf("%s: %w", path, err)
	}
	sheet, err := motionSheet(m)
	if err != nil {
		return in, err
	}
	in.Notes = append(in.Notes, "how it moves is drawn in "+picture+": red goes right, yellow down, cyan left, violet up")
	return in, vision.WriteFile(picture, sheet)
}

func (in *Document) measure(m *motion.Motion) error {
	steps, err := m.Steps()
	if err != nil {
		return err
	}
	d, err := steps.Dynamic()
	if err != nil {
		return err
	}
	flicker, err := motion.Flicker(m.Clip)
	if err != nil {
		return err
	}
	q, w, mean := steps.Quality(), steps.Warp(), 0.0
	all := steps.Magnitudes()
	for _, v := range all {
		mean += v / float64(len(all))
	}
	in.Settings = append(in.Settings,
		setting{"mean_motion_pixels", rounded(mean)}, setting{"true_motion", rounded(q.Value)},
		setting{"amount", rounded(q.Amount)}, setting{"explained", rounded(q.Explained)}, setting{"visible", rounded(q.Visible)}, setting{"steady", rounded(q.Steady)}, setting{"camera", rounded(q.Camera)},
		setting{"dynamic", d.Moves}, setting{"flicker_score", rounded(flicker)}, setting{"warp_error", rounded(w.Mean)},
	)
	return nil
}

// rounded keeps four digits.
func rounded(x float64) float64 {
	short, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	if err != nil {
		return x
	}
	return short
}

// motionSheet draws up to six frames, where their pixels go, and arrows.
func motionSheet(m *motion.Motion) (*vision.Image, error) {
	s := vision.Sheet{Columns: 3}
	var pictures []*vision.Image
	last := -1
	for _, t := range video.Uniform(len(m.Forward), 6) {
		if t == last {
			continue
		}
		last = t
		f := m.Forward[t]
		frame := &vision.Image{Width: m.Clip.Width, Height: m.Clip.Height, Pix: m.Clip.Frames[t]}
		wheel, err := field.Wheel(f, 0)
		if err != nil {
			return nil, err
		}
		times := max(1, 256/max(m.Clip.Width, m.Clip.Height)) // small clips are drawn larger
		arrows, err := field.Arrows(frame.Enlarge(times), f, max(24/times, m.Clip.Width/32, 1), 1)
		if err != nil {
			return nil, err
		}
		pictures = append(pictures, frame.Enlarge(times), wheel.Enlarge(times), arrows)
		s.Captions = append(s.Captions, fmt.Sprintf("frame %d", t), fmt.Sprintf("full colour: %.1f pixels", field.Strongest(f)), fmt.Sprintf("to frame %d", t+1))
	}
	pictures = append(pictures, field.Legend(128))
	s.Captions = append(s.Captions, "directions")
	return s.Draw(pictures)
}

// inspectPicture gives a picture's size, and its own text: one that sample wrote holds its prompt and settings.
func inspectPicture(path string) (*Document, error) {
	m, err := vision.Open(path, vision.Limits{})
	if err != nil {
		return nil, err
	}
	in := &Document{Path: path, Kind: "picture", Settings: []setting{{"width", m.Width}, {"height", m.Height}}}
	data, err := regular.Read(path, inputs.MaxPicture)
	if err != nil {
		return nil, err
	}
	if !vision.IsPNG(data) { // no other form holds settings
		return in, nil
	}
	said, err := vision.ReadSettings(data)
	if err != nil {
		return in, fmt.Errorf("%s: %w", path, err)
	}
	for _, s := range said {
		in.Settings = append(in.Settings, setting{console.Printable(s.Key), s.Value})
	}
	return in, nil
}
