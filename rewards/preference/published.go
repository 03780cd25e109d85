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

// Card: VideoReward as its project saves it, in one of two layouts:
//
//	checkpoint-N/model.pth                  everything: the base's weights with ".base_layer" in their names and the
//	                                        adapter's pairs beside them
//	checkpoint-N/adapter_model.safetensors  the pairs, and
//	checkpoint-N/non_lora_state_dict.pth    what was trained besides, which wins over the base: the folder's own
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

// OpenPublished opens the checkpoint of a folder, in it or the one in checkpoint-N; fs.ErrNotExist where there is none.
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

// addHalves adds the base, what was trained of it, and the adapter, of which a later one wins.
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
