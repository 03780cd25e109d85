package judges

import (
	"context"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/preference"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// Rewards on Qwen2-VL that were trained on what people prefer. They judge one sample at a time.

func openHPSv3(r experiment.Reward, b Bench) (Opened, error) {
	var own *preference.Judge
	o, err := preferred(r, b, func(dir string, d *features.Device) (_ closable, err error) {
		own, err = preference.OpenPicture(dir, d)
		return own, err
	})
	o.judge = sloped{o.judge, own}
	return o, err
}

// sloped is a reward that says how pixels change it, too.
type sloped struct {
	of rewards.Judge
	rewards.Sloped
}

func (s sloped) Judge(ctx context.Context, items []rewards.Item) []rewards.Result {
	return s.of.Judge(ctx, items)
}

func openEditReward(r experiment.Reward, b Bench) (Opened, error) {
	return preferred(r, b, func(dir string, d *features.Device) (closable, error) { return preference.OpenEdit(dir, d) })
}

func openVideoReward(r experiment.Reward, b Bench) (Opened, error) {
	return preferred(r, b, func(dir string, d *features.Device) (closable, error) {
		j, err := preference.OpenVideo(dir, d)
		if err != nil {
			return nil, err
		}
		set := experiment.Filled(r.Video)
		j.Axis, j.Gray = set.Axis, set.Gray
		return j, nil
	})
}

// closable is a reward that holds memory and files.
type closable interface {
	rewards.Reward
	Close() error
}

func preferred(r experiment.Reward, b Bench, open func(dir string, d *features.Device) (closable, error)) (Opened, error) {
	dir, err := folder(r.Path)
	if err != nil {
		return Opened{}, err
	}
	d, err := b.Device()
	if err != nil {
		return Opened{}, err
	}
	j, err := open(dir, d)
	if err != nil {
		return Opened{}, err
	}
	return Opened{judge: rewards.Each(j, 1), close: j.Close}, nil
}
