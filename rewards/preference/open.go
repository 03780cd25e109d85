package preference

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/nn/torchfile"
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

// readSettings refuses settings that VideoReward was not published with.
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

// Card: VideoReward as its project saves it, in one of two layouts:
//
//	checkpoint-N/model.pth                  everything: the base's weights with ".base_layer" in their names and the
//	                                        adapter's pairs beside them
//	checkpoint-N/adapter_model.safetensors  the pairs, and
//	checkpoint-N/non_lora_state_dict.pth    other trained weights, which replace the base's: the folder's own
//	                                        safetensors, by the names that Qwen2-VL has
//
// all below "base_model.model."; the adapter's scale is lora_alpha/lora_r of model_config.json, or lora_alpha over the
// root of lora_r with use_rslora. Pairs stay beside the base, as upstream computes.
//
// Held to qwen2vl.videoreward (videoreward_peft): scores, gradients at patches and pairs.

// Published is such a folder. It is the source of the base's weights, by the names that Qwen2-VL has.
type Published struct {
	path  string // of the adapter
	files []weights
	names map[string]stored
	pairs map[string]stored
	lora  nn.LoRA
}

// weights are a file's or a folder's.
type weights interface {
	nn.Source
	Close() error
}

// stored is a tensor as its file has it.
type stored struct {
	in   weights
	name string
}

const (
	wrapped = "base_model.model."
	inner   = ".base_layer"
	pair    = ".lora_"

	wholeFile   = "model.pth"
	adapterFile = "adapter_model.safetensors"
	restFile    = "non_lora_state_dict.pth"
)

// OpenPublished opens the checkpoint of a folder, in it or the one in checkpoint-N; fs.ErrNotExist without one.
func OpenPublished(dir string) (*Published, error) {
	path, err := publishedFile(dir)
	if err != nil {
		return nil, err
	}
	var said settings
	if err := hub.JSON(filepath.Join(dir, "model_config.json"), &said); err != nil {
		return nil, err
	}
	p := &Published{path: path, names: map[string]stored{}, pairs: map[string]stored{}}
	p.lora = nn.LoRA{Rank: said.Adapter.Rank, Alpha: said.Adapter.Alpha, RSLoRA: said.Adapter.RSLoRA}
	if filepath.Base(path) == wholeFile {
		err = p.add(torchfile.Open(path))
	} else {
		err = p.addHalves(dir)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	for name := range p.pairs {
		module, _, _ := strings.Cut(name, pair)
		p.lora.Targets = append(p.lora.Targets, module)
	}
	slices.Sort(p.lora.Targets)
	if p.lora.Targets = slices.Compact(p.lora.Targets); len(p.lora.Targets) > 0 && (p.lora.Rank < 1 || p.lora.Alpha <= 0) {
		err := fmt.Errorf("%s has an adapter, and \"peft_lora_config\" of model_config.json no rank and scale of it", path)
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// addHalves adds the base, its trained weights, and the adapter; a later one replaces an earlier one.
func (p *Published) addHalves(dir string) error {
	if err := p.add(safetensors.OpenFolder(dir)); err != nil {
		return fmt.Errorf("%s holds an adapter, and what it was trained over is not in %s: %w\nhint: copy the safetensors and config.json of \"model_name_or_path\" (model_config.json) there", p.path, dir, err)
	}
	if err := p.add(torchfile.Open(filepath.Join(filepath.Dir(p.path), restFile))); err != nil {
		return fmt.Errorf("%s: the head and what was trained besides the adapter: %w", p.path, err)
	}
	return p.add(safetensors.Open(p.path))
}

// add takes a file's tensors, in place of those of the same names.
func (p *Published) add(f weights, err error) error {
	if err != nil {
		return err
	}
	p.files = append(p.files, f)
	for _, as := range f.Names() {
		name := strings.Replace(strings.TrimPrefix(as, wrapped), inner, "", 1)
		if module, half, ok := strings.Cut(name, pair); ok {
			p.pairs[module+pair+strings.Replace(half, ".default", "", 1)] = stored{f, as}
			continue
		}
		p.names[name] = stored{f, as}
	}
	return nil
}

// publishedFile is the file in a folder.
func publishedFile(dir string) (string, error) {
	for _, name := range []string{wholeFile, adapterFile} {
		found, err := filepath.Glob(filepath.Join(dir, "checkpoint-*", name))
		if err != nil {
			return "", err
		}
		if path := filepath.Join(dir, name); name == wholeFile && exists(path) || exists(path) && exists(filepath.Join(dir, restFile)) {
			return path, nil
		}
		switch len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			return "", fmt.Errorf("%s has %d checkpoints: name a folder with the one that is meant", dir, len(found))
		}
	}
	return "", fmt.Errorf("%s: %w", filepath.Join(dir, "checkpoint-N", wholeFile), fs.ErrNotExist)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Names are those of the base's weights.
func (p *Published) Names() (all []string) {
	for name := range p.names {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// Tensor reads one of the base's weights.
func (p *Published) Tensor(name string) (safetensors.Tensor, error) { return p.read(p.names, name) }

func (p *Published) read(names map[string]stored, name string) (safetensors.Tensor, error) {
	at, ok := names[name]
	if !ok {
		return safetensors.Tensor{}, fmt.Errorf("%s: there is no tensor %q", p.path, name)
	}
	t, err := at.in.Tensor(at.name)
	t.Name = name
	return t, err
}

// Adapt puts the adapter on the model's parameters; nil where the file has none.
func (p *Published) Adapt(params *nn.Params) (*nn.Adapters, error) {
	if len(p.lora.Targets) == 0 {
		return nil, nil
	}
	set, err := params.AddLoRA(p.lora)
	if err != nil {
		return nil, err
	}
	if len(set.Modules()) != len(p.lora.Targets) {
		return nil, fmt.Errorf("%s has pairs of %d layers, of which the model has %d", p.path, len(p.lora.Targets), len(set.Modules()))
	}
	return set, set.Load(pairsOf{p}, "")
}

// pairsOf is the adapter's pairs as a source.
type pairsOf struct{ of *Published }

// Names are the pairs'.
func (p pairsOf) Names() (all []string) {
	for name := range p.of.pairs {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// Tensor reads half a pair.
func (p pairsOf) Tensor(name string) (safetensors.Tensor, error) { return p.of.read(p.of.pairs, name) }

// Close closes the files.
func (p *Published) Close() (err error) {
	for _, f := range p.files {
		err = errors.Join(err, f.Close())
	}
	return err
}
