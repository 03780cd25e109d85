package pipeline

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/darkroom-rl/darkroom/diffusion/single"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
)

// openFolder reads a folder, or a checkpoint of one file and the folder that has its settings.
func openFolder(path, base string) (*folder, error) {
	info, err := os.Stat(path)
	one := err == nil && info.Mode().IsRegular() && strings.EqualFold(filepath.Ext(path), ".safetensors")
	switch {
	case !one && base != "":
		return nil, fmt.Errorf("%s is no .safetensors file: model.base (--base) is the folder of settings for checkpoints of one file\nhint: leave it out", path)
	case !one:
		return readFolder(path)
	case base == "":
		return nil, fmt.Errorf("%s: one file holds weights, and neither settings nor tokenizers\nhint: model.base (--base) names a folder of the same architecture that has them: model_index.json, each part's config.json and the tokenizers; its weights need not be there", path)
	}
	f, err := readFolder(base)
	if err != nil {
		return nil, err
	}
	layers, err := f.layersPerBlock()
	if err != nil {
		return nil, err
	}
	if f.file, err = single.Open(path, single.Settings{LayersPerBlock: layers}); err != nil {
		return nil, err
	}
	f.path = path
	if of, err := f.family(); err != nil || of.File != f.file.Kind {
		return nil, errors.Join(fmt.Errorf("%s is %v, and the folder %s is of a %s\nhint: a folder of the same architecture is needed", path, f.file.Kind, base, f.class), f.close())
	}
	return f, nil
}

// layersPerBlock is a U-Net's; 2 where the folder has none.
func (f *folder) layersPerBlock() (int, error) {
	said := struct {
		Layers int `json:"layers_per_block"`
	}{2}
	if !f.has("unet") {
		return said.Layers, nil
	}
	dir, err := f.part("unet")
	if err != nil {
		return 0, err
	}
	path := filepath.Join(dir, "config.json")
	if err := hub.JSON(path, &said); err != nil {
		return 0, err
	}
	if said.Layers < 1 || said.Layers > 64 {
		return 0, fmt.Errorf("%s: \"layers_per_block\" is %d; 1 to 64 are possible", path, said.Layers)
	}
	return said.Layers, nil
}

// inFile is a part that the file of weights holds; nil: it does not, or there is none.
func (f *folder) inFile(part string) *single.Part {
	if f.file == nil {
		return nil
	}
	return f.file.Part(part)
}

// close gives the file of weights back, where there is one.
func (f *folder) close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}
