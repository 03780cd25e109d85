package chat

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/quant"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Inspect holds a vision-language model's folder against an experiment.
func Inspect(c *model.Folder) {
	dir := c.Dir
	if c.Has("model_index.json") {
		c.Refuse("model.path", fmt.Sprintf("%s is a generator's pipeline, and an [episode] is a conversation with a vision-language model", c.Model.Path), "a Qwen-VL model's folder, or no [episode]")
		return
	}
	patterns, adapted := c.Model.Trained()
	if _, err := vlm.ReadConfig(dir); err != nil {
		c.Fail("model.path", err)
		return
	}
	tokens, noTokens := tokenizer.Open(dir)
	_, noProcessor := vlm.OpenProcessor(dir)
	_, noTemplate := vlm.TemplateOf(dir, c.Model.Template)
	files, noWeights := safetensors.OpenFolder(dir)
	if noWeights == nil {
		noWeights = files.Close()
	}
	if noTemplate != nil {
		c.Fail("model.template|model.path", noTemplate)
	}
	if err := cmp.Or(noTokens, noProcessor, noWeights); err != nil {
		c.Fail("model.path", err)
		return
	}
	if _, err := TokenIDs(tokens, c.Model.NewTokens); err != nil {
		c.Fail("model.new_tokens", err)
		return
	}
	params, free, err := opened(dir, c.Pool, patterns, c.Model.Blank)
	if err != nil {
		key := map[bool]string{true: "model.train", false: "model.path"}[len(patterns) > 0]
		if len(c.Model.Blank) > 0 {
			key = "model.blank|" + key
		}
		c.Fail(key, err)
		return
	}
	defer free()
	if adapted {
		c.CheckAdapter(params, Known(params), vlm.UsualTargets())
	}
	if len(c.Model.NewTokens) > 0 {
		if _, err := tokenMatrices(params); err != nil {
			c.Fail("model.new_tokens", err)
		}
	}
	c.CheckMoves(model.Part{Params: params.Trained()})
}

// Known is the network's names in an adapter's file: by today's names of layers, or by older ones.
func Known(params *nn.Params) model.Known {
	var names []string
	for _, p := range params.All() {
		names = append(names, p.Name)
	}
	return model.Known{Component: "model", Names: vlm.NamesOf(names).Of}
}

// Networks are the parameters of a folder's model, as Open opens them.
func Networks(dir string, m experiment.Model, pool *tensor.Pool) ([]model.Network, func() error, error) {
	patterns, _ := m.Trained()
	params, free, err := opened(dir, pool, patterns, nil)
	return []model.Network{{Params: params}}, free, err
}

// opened is a folder's parameters, of which some parameters are drawn.
func opened(dir string, pool *tensor.Pool, train, blank []string) (*nn.Params, func() error, error) {
	config, err := vlm.ReadConfig(dir)
	if err != nil {
		return nil, nil, err
	}
	files, err := quant.OpenFolder(dir)
	if err != nil {
		return nil, nil, err
	}
	params, err := nn.New(nn.Options{Pool: pool, Math: kernels.MathBF16, Train: train, Blank: blank, Source: files})
	if err != nil {
		return nil, nil, errors.Join(err, files.Close())
	}
	vlm.New(params, config)
	free := func() error {
		params.Free()
		return files.Close()
	}
	if err := params.Check(); err != nil {
		return nil, nil, errors.Join(err, free())
	}
	return params, free, nil
}
