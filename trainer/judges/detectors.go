package judges

import (
	"context"
	"errors"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/neural"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision"
	towers "github.com/darkroom-rl/darkroom/vision/clip"
)

// Rewards that need a detector: one behind a server (url), or, for layout, that of the embedded scenes.

func openLayout(r experiment.Reward, b Bench) (Opened, error) {
	match := experiment.Filled(r.Layout).Matching
	if r.URL == "" {
		return Opened{judge: rewards.Each(rewards.SceneLayout{Matching: match}, atOnce)}, nil
	}
	d, at, err := detector(r, b)
	return Opened{judge: rewards.Each(rewards.Layout{Detector: d, Matching: match}, at)}, err
}

// openGenEval asks the detector; colours are the detector's own, or by the CLIP that path names.
func openGenEval(r experiment.Reward, b Bench) (Opened, error) {
	if r.URL == "" {
		return Opened{}, errors.New("url is missing: where the detector answers")
	}
	d, at, err := detector(r, b)
	if err != nil {
		return Opened{}, err
	}
	g := rewards.GenEval{Detector: d, GenEvalRules: experiment.Filled(r.GenEval)}
	if r.Path == "" {
		return Opened{judge: rewards.Each(g, at)}, nil
	}
	path, err := folder(r.Path)
	if err != nil {
		return Opened{}, err
	}
	device, err := b.Device()
	if err != nil {
		return Opened{}, err
	}
	t, err := towers.Open(path, towers.Options{Device: device})
	if err != nil {
		return Opened{}, err
	}
	g.Colors = colors(neural.Colors{Towers: t})
	return Opened{judge: rewards.Each(g, 1), close: func() error { t.Close(); return nil }}, nil
}

// colors names the colours of objects of one class by what CLIP sees in their boxes.
func colors(c neural.Colors) func(context.Context, *vision.Image, []rewards.Detection) ([]string, error) {
	return func(ctx context.Context, m *vision.Image, found []rewards.Detection) ([]string, error) {
		if len(found) == 0 {
			return nil, nil
		}
		objects := make([]neural.Object, len(found))
		for i, f := range found {
			objects[i].Box = f.Box
		}
		said, err := c.Of(ctx, m, found[0].Class, objects)
		names := make([]string, len(said))
		for i, s := range said {
			names[i] = s.Name
		}
		return names, err
	}
}

// detector is the server, and how many pictures it is sent beside each other.
func detector(r experiment.Reward, b Bench) (rewards.Detector, int, error) {
	key, err := secret(r)
	if err != nil {
		return nil, 0, err
	}
	return rewards.NewDetectionServer(r.URL, key, experiment.Filled(r.Detector), policy(r), b.Cache), atOnce, nil
}
