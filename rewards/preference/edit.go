package preference

import (
	"context"
	"errors"

	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision/features"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Card: EditReward (TIGER-AI-Lab, edb027e; Qwen2.5-VL): two questions about the picture before and the one after,
// whether the text was followed and how good the picture looks, each with a head of its own:
//
//	head k: (mu_k, s_k), s the logarithm of a deviation
//	value = (mu_0 + mu_1)/2    ("pooling_strategy" mean, as its settings are published; sigma is exp((s_0 + s_1)/2))
//
// Pictures have 256 cells of 28 x 28 pixels each, positions are plain, and the state is read at <|Reward|>, all as
// HPSv3's. The folder holds Qwen2.5-VL's settings and tokenizer beside the checkpoint as safetensors, named as
// transformers names it since 4.52 or before.
// Upstream's other settings (min, sum, one head) and its Qwen3-VL are not read.
// Invariants (tests): each question goes to its own head; a sample that was made of no picture has no score.

// EditJudge is an open EditReward. It may be asked from any goroutine.
type EditJudge struct {
	judge Judge
	heads [2]*Network
}

// OpenEdit opens EditReward.
func OpenEdit(dir string, d *features.Device) (*EditJudge, error) {
	j := &EditJudge{judge: Judge{device: d}}
	if err := j.judge.open(dir, "", func(p *nn.Params, c vlm.Config) { j.heads = NewEdit(p, c) }); err != nil {
		return nil, err
	}
	return j, nil
}

// Close gives memory and files back.
func (j *EditJudge) Close() error { return j.judge.Close() }

// Score judges an edit.
func (j *EditJudge) Score(ctx context.Context, item rewards.Item) (s rewards.Score, err error) {
	switch {
	case item.Image == nil:
		return s, errors.New("there is no picture to judge")
	case len(item.Sources) != 1:
		return s, rewards.ErrNoSource
	}
	patches, err := j.judge.pictures(item.Sources[0], item.Image)
	if err != nil {
		return s, err
	}
	var said [2][]float32
	for k, text := range EditPrompts(item.Prompt) {
		if said[k], err = j.judge.ask(ctx, j.heads[k], text, patches); err != nil {
			return s, err
		}
	}
	half := func(i int) float64 { return (float64(said[0][i]) + float64(said[1][i])) / 2 }
	return rewards.Score{Value: half(0), Parts: map[string]float64{
		"following": float64(said[0][0]), "quality": float64(said[1][0]), "sigma": portable.Exp(half(1))}}, nil
}

// EditRewardKind is reward editreward.
var EditRewardKind = rewards.Kind{
	Name:    "editreward",
	Card:    "EditReward: a Qwen2.5-VL that judges an edit by the pictures before and after, whether its text was followed and how good it looks; path holds its checkpoint as safetensors beside Qwen2.5-VL's settings.",
	Paper:   "EditReward (Wu et al., 2025)",
	Judges:  rewards.Pictures,
	Traits:  rewards.Weights,
	Options: rewards.NetworkKeys{},
	Needs:   rewards.Always(rewards.Sourced),
	Open: rewards.Opens(func(k rewards.NetworkKeys, b rewards.Bench) (rewards.Opened, error) {
		return opened(k, b, OpenEdit)
	}),
}
