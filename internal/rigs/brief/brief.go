// Package brief has models that are made in moments, for tests of runs, of pictures and of the program: the recipe of a
// vision-language model (Talker), and the embedded denoiser made smaller (Denoiser).
package brief

import "github.com/darkroom-rl/darkroom/trainer/pretrain"

// Talker is the recipe: its steps teach the model the form of calls and answers, and no more.
func Talker(steps int) pretrain.Talker {
	t := pretrain.DefaultTalker()
	t.Name = "speaker"
	t.Model.Width, t.Model.Inner, t.Model.Heads, t.Model.Layers = 64, 96, 2, 1
	t.Model.VisionWidth, t.Model.VisionInner, t.Model.VisionHeads, t.Model.VisionLayers = 32, 32, 1, 1
	t.Sight.Steps, t.Places.Steps, t.Skill.Steps, t.Aim.Steps = 0, 0, 0, 0
	t.Start.Steps, t.Start.Batch, t.Start.LR, t.Start.Warmup, t.Start.EMA = steps, 4, 4e-3, 5, 0.8
	t.Talk.Skills, t.Judge.Tables = 0, 2
	return t
}
