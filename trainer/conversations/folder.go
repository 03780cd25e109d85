package conversations

import (
	"cmp"
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// inspect holds a vision-language model's folder against an experiment.
func inspect(c *model.Folder) {
	dir := c.Dir
	if c.Has("model_index.json") {
		c.Refuse("model.path", fmt.Sprintf("%s is a generator's pipeline, and an [episode] is a conversation with a vision-language model", c.Model.Path), "a Qwen-VL model's folder, or no [episode]")
		return
	}
	patterns, adapted := c.Model.Trained()
	config, err := vlm.ReadConfig(dir)
	if err != nil {
		c.Fail("model.path", err)
		return
	}
	_, noTokens := tokenizer.Open(dir)
	_, noProcessor := vlm.OpenProcessor(dir)
	_, noTemplate := vlm.OpenTemplate(dir)
	files, noWeights := safetensors.OpenFolder(dir)
	if err := cmp.Or(noTokens, noProcessor, noTemplate, noWeights); err != nil {
		c.Fail("model.path", err)
		return
	}
	defer files.Close()
	params, err := nn.New(nn.Options{Pool: c.Pool, Math: kernels.MathBF16, Train: patterns, Source: files})
	if err != nil {
		c.Fail("model.train", err)
		return
	}
	defer params.Free()
	vlm.New(params, config)
	if err := params.Check(); err != nil {
		c.Fail(map[bool]string{true: "model.train", false: "model.path"}[len(patterns) > 0], err)
		return
	}
	if adapted {
		c.CheckTargets(params, vlm.UsualTargets())
	}
}
