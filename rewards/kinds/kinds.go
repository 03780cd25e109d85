// Package kinds lists the rewards that an experiment's file may name. A reward is a rewards.Kind in the file of its
// formula: its name, card, paper, subjects, options, checks, needs of a prompt, and opening.
//
//	k, ok := kinds.Named("jpeg")
//	o, err := k.Open(k.Own(&options), rewards.Bench{})
//
// A new reward is a file, its test, a line of All, and, where it has a table of options, a line of Options.
package kinds

import (
	"slices"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/answers"
	"github.com/darkroom-rl/darkroom/rewards/judge"
	"github.com/darkroom-rl/darkroom/rewards/neural"
	"github.com/darkroom-rl/darkroom/rewards/preference"
	"github.com/darkroom-rl/darkroom/rewards/scorers"
)

// All are all rewards.
func All() []rewards.Kind {
	return []rewards.Kind{
		rewards.LayoutKind,
		neural.GenEvalKind,
		rewards.SceneKind,
		rewards.BackgroundKind,
		rewards.ShadeKind,
		rewards.EditKind,
		rewards.EditDoneKind,
		rewards.EditKeptKind,
		rewards.PreserveKind,
		neural.LikenessKind,
		neural.DirectionKind,
		rewards.OCRKind,
		scorers.ONNXKind,
		scorers.IdentityKind,
		neural.CLIPKind,
		neural.AestheticKind,
		neural.PickScoreKind,
		neural.HPSv2Kind,
		neural.ImageRewardKind,
		preference.HPSv3Kind,
		preference.EditRewardKind,
		preference.VideoRewardKind,
		neural.DINOKind,
		neural.BackdropKind,
		rewards.JPEGKind,
		rewards.SharpnessKind,
		rewards.MotionKind,
		rewards.HeadingKind,
		rewards.CameraKind,
		rewards.BallKind,
		rewards.ThingKind,
		rewards.MagnitudeKind,
		rewards.DynamicKind,
		rewards.FlickerKind,
		rewards.SmoothKind,
		rewards.WarpKind,
		answers.FormatKind,
		answers.AccuracyKind,
		answers.ToolsKind,
		answers.LookKind,
		answers.ToolBonusKind,
		answers.CallsKind,
		answers.EnvironmentKind,
		answers.RepetitionKind,
		answers.LanguageKind,
		answers.LengthKind,
		answers.MiniO3Kind,
		judge.JudgeKind,
		rewards.HTTPKind,
		rewards.ExecKind,
	}
}

// Options are the keys of [[reward]] that some rewards have. A table that is not written is nil: its defaults.
type Options struct {
	answers.RuleKey
	rewards.FrameKeys
	rewards.OCRKey
	scorers.ONNXKey
	scorers.IdentityKey
	rewards.LayoutKey
	rewards.MotionKey
	rewards.HeadingKey
	preference.VideoKey
	judge.JudgeKey
	answers.RulesKey
	rewards.JPEGKey
	neural.LikenessKey
	rewards.PreserveKey
	neural.GenEvalKey
	rewards.DetectorKey
	answers.RepetitionKey
	answers.LengthKey
	answers.MiniO3Key
}

// Named is the reward of a name.
func Named(name string) (rewards.Kind, bool) {
	all := All()
	i := slices.IndexFunc(all, func(k rewards.Kind) bool { return k.Name == name })
	if i < 0 {
		return rewards.Kind{}, false
	}
	return all[i], true
}

// That are the names of some rewards.
func That(is func(rewards.Kind) bool) (names []string) {
	for _, k := range All() {
		if is(k) {
			names = append(names, k.Name)
		}
	}
	return names
}
