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
)

// Card: VideoReward as its project saves it: checkpoint-N/model.pth holds everything, the base's weights with
// ".base_layer" in their names and the adapter's pairs beside them, all below "base_model.model."; the adapter's scale
// is lora_alpha/lora_r of model_config.json, or lora_alpha over the root of lora_r with use_rslora. Pairs stay beside
// the base, as upstream computes.
//
// Held to qwen2vl.videoreward (videoreward_peft): scores, gradients at patches and pairs.

// Published is such a file. It is the source of the base's weights, by the names that Qwen2-VL has.
type Published struct {
	file  *torchfile.File
	names map[string]string // as the file has them
	pairs map[string]string
	lora  nn.LoRA
}

const (
	wrapped = "base_model.model."
	inner   = ".base_layer"
	pair    = ".lora_"
)

// OpenPublished opens the model.pth of a folder, or of the one checkpoint in it; fs.ErrNotExist where there is none.
func OpenPublished(dir string) (*Published, error) {
	path, err := publishedFile(dir)
	if err != nil {
		return nil, err
	}
	var said settings
	if err := hub.JSON(filepath.Join(dir, "model_config.json"), &said); err != nil {
		return nil, err
	}
	f, err := torchfile.Open(path)
	if err != nil {
		return nil, err
	}
	p := &Published{file: f, names: map[string]string{}, pairs: map[string]string{}}
	p.lora = nn.LoRA{Rank: said.Adapter.Rank, Alpha: said.Adapter.Alpha, RSLoRA: said.Adapter.RSLoRA}
	for _, stored := range f.Names() {
		name := strings.Replace(strings.TrimPrefix(stored, wrapped), inner, "", 1)
		if module, half, ok := strings.Cut(name, pair); ok {
			p.lora.Targets = append(p.lora.Targets, module)
			name = module + pair + strings.Replace(half, ".default", "", 1)
			p.pairs[name] = stored
			continue
		}
		p.names[name] = stored
	}
	slices.Sort(p.lora.Targets)
	if p.lora.Targets = slices.Compact(p.lora.Targets); len(p.lora.Targets) > 0 && (p.lora.Rank < 1 || p.lora.Alpha <= 0) {
		err := fmt.Errorf("%s has an adapter, and \"peft_lora_config\" of model_config.json no rank and scale of it", path)
		return nil, errors.Join(err, f.Close())
	}
	return p, nil
}

// publishedFile is the file in a folder.
func publishedFile(dir string) (string, error) {
	if path := filepath.Join(dir, "model.pth"); exists(path) {
		return path, nil
	}
	found, err := filepath.Glob(filepath.Join(dir, "checkpoint-*", "model.pth"))
	if err != nil {
		return "", err
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("%s: %w", filepath.Join(dir, "checkpoint-N", "model.pth"), fs.ErrNotExist)
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("%s has %d checkpoints: name a folder with the one that is meant", dir, len(found))
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

func (p *Published) read(names map[string]string, name string) (safetensors.Tensor, error) {
	t, err := p.file.Tensor(names[name])
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
		return nil, fmt.Errorf("%s has pairs of %d layers, of which the model has %d", p.file.Path, len(p.lora.Targets), len(set.Modules()))
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

// Close closes the file.
func (p *Published) Close() error { return p.file.Close() }
