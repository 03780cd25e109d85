package preference

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/vision/features"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// How folders of judges are opened.

// settings is model_config.json of VideoReward.
type settings struct {
	Data struct {
		FPS      float64  `json:"fps"`
		Count    int      `json:"num_frames"`
		Pixels   int      `json:"max_frame_pixels"`
		Sample   string   `json:"sample_type"`
		Template string   `json:"prompt_template_type"`
		Axes     []string `json:"eval_dim"`
	} `json:"data_config"`
	Model struct {
		Special bool `json:"use_special_tokens"`
	} `json:"model_config"`
	Adapter struct {
		On     bool    `json:"lora_enable"`
		Rank   int     `json:"lora_r"`
		Alpha  float32 `json:"lora_alpha"`
		RSLoRA bool    `json:"use_rslora"`
	} `json:"peft_lora_config"`
	Scale map[string]float64 `json:"inference_config"`
}

// pictureFile is HPSv3's file of weights.
const pictureFile = "HPSv3.safetensors"

// OpenPicture opens HPSv3: its file of weights beside Qwen2-VL's settings and tokenizer.
func OpenPicture(dir string, d *features.Device) (*Judge, error) {
	j := &Judge{device: d}
	return j, j.open(dir, pictureFile, func(p *nn.Params, c vlm.Config) { j.network = NewPicture(p, c) })
}

// OpenVideo opens VideoReward: as published, with its adapter beside the weights,
// or as safetensors with the adapter merged.
func OpenVideo(dir string, d *features.Device) (*Judge, error) {
	j := &Judge{device: d, clips: true}
	if err := j.readSettings(filepath.Join(dir, "model_config.json")); err != nil {
		return nil, err
	}
	network := func(p *nn.Params, c vlm.Config) { j.network = NewVideo(p, c, len(VideoTokens)) }
	p, err := OpenPublished(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return j, j.merged(dir, network)
	}
	if err != nil {
		return nil, err
	}
	j.weights = p
	var adapted error
	if err := j.load(dir, p, func(params *nn.Params, c vlm.Config) {
		network(params, c)
		_, adapted = p.Adapt(params)
	}); err != nil {
		return nil, err
	}
	if adapted != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", dir, adapted), j.Close())
	}
	return j, nil
}

// merged opens weights that hold the adapter.
func (j *Judge) merged(dir string, network func(p *nn.Params, c vlm.Config)) error {
	if j.said.Adapter.On {
		return fmt.Errorf("%s: \"lora_enable\" is true, and there is no checkpoint-N/model.pth, nor checkpoint-N/adapter_model.safetensors: put it there, or merge the adapter into the weights (peft's merge_and_unload) and make the setting false", filepath.Join(dir, "model_config.json"))
	}
	return j.open(dir, "", network)
}

// open reads a folder, whose weights may be one file of a name of its own.
func (j *Judge) open(dir, file string, network func(p *nn.Params, c vlm.Config)) error {
	src, err := j.source(dir, file)
	if err != nil {
		return err
	}
	return j.load(dir, src, network)
}

// load reads a folder's settings, and makes the network of a source, which is closed where that fails.
func (j *Judge) load(dir string, src nn.Source, network func(p *nn.Params, c vlm.Config)) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, j.weights.Close())
		}
	}()
	config, err := vlm.ReadConfig(dir)
	if err != nil {
		return err
	}
	if j.tokens, err = tokenizer.Open(dir); err != nil {
		return err
	}
	if j.marks, err = vlm.MarksOf(j.tokens); err != nil {
		return err
	}
	if j.cut, err = vlm.OpenProcessor(dir); err != nil {
		return err
	}
	if config, err = Fitted(config, src); err == nil {
		j.params, err = j.device.Load(src, func(p *nn.Params) { network(p, config) })
	}
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}

// source opens the weights.
func (j *Judge) source(dir, file string) (nn.Source, error) {
	if _, err := os.Stat(filepath.Join(dir, file)); err == nil && file != "" {
		f, err := safetensors.Open(filepath.Join(dir, file))
		j.weights = f
		return f, err
	}
	set, err := safetensors.OpenFolder(dir)
	j.weights = set
	return set, err
}

// readSettings refuses what VideoReward was not published with.
func (j *Judge) readSettings(path string) error {
	if err := hub.JSON(path, &j.said); err != nil {
		return err
	}
	switch s := j.said; {
	case !s.Model.Special || s.Data.Template != "detailed_special" || strings.Join(s.Data.Axes, " ") != "VQ MQ TA":
		return fmt.Errorf("%s: template %q with axes %v: published folders have \"detailed_special\" and VQ, MQ, TA, read at special tokens", path, s.Data.Template, s.Data.Axes)
	case s.Data.Pixels < 1:
		return fmt.Errorf("%s: \"max_frame_pixels\" is %d; it must be positive", path, s.Data.Pixels)
	}
	for _, axis := range j.said.Data.Axes {
		if !(j.said.Scale[axis+"_std"] > 0) {
			return fmt.Errorf("%s: \"inference_config\" has no positive %s_std", path, axis)
		}
	}
	return nil
}
