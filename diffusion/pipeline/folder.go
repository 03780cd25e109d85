package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/diffusion/single"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// folder is model_index.json and the folders that it names. Nothing outside of the folder
// is opened: every file of a part must lie in it, or where the hub's cache puts it.
type folder struct {
	dir   string
	path  string       // that was opened: the folder, or the file of its weights
	file  *single.File // nil: weights lie in the folder
	class string
	parts map[string]string // a part's class; parts that the pipeline does without are absent
	raw   []byte            // model_index.json
	zeros int               // see zerosKey; -1 where nothing is said
	side  int               // see sideKey; 0 where nothing is said
	drawn *Drawn            // nothing lies on the disk: weights are drawn
	bare  bool              // weights and tokenizers may be absent: memory is counted, and no number read
}

// zerosKey says how many zeros stand in the place of a third text encoder that a Stable
// Diffusion 3 does without, and how many tokens a Wan or a FLUX.1 of ours reads.
// Other programs pass over names that begin with _.
const zerosKey = "_darkroom_text_length"

// sideKey is the side in pixels of the pictures that a FLUX.1-Kontext of ours makes, and of those that it reads.
const sideKey = "_darkroom_side"

// ClassOf is the pipeline's class in a folder's model_index.json.
func ClassOf(dir string) (string, error) {
	f, err := readFolder(dir)
	if err != nil {
		return "", err
	}
	return f.class, nil
}

// ComponentOf is the name of the denoiser in a pipeline's folder.
func ComponentOf(dir string) (string, error) {
	f, err := readFolder(dir)
	if err != nil {
		return "", err
	}
	a, err := f.architecture(Options{})
	if err != nil {
		return "", err
	}
	return a.network.parts[0], nil
}

// KohyaOf is whose names kohya's layout of adapters has for a pipeline's folder; 0: it has none.
func KohyaOf(dir string) (peft.Network, error) {
	f, err := readFolder(dir)
	if err != nil {
		return 0, err
	}
	a, err := f.architecture(Options{})
	if err != nil {
		return 0, err
	}
	return a.family.Kohya, nil
}

// openFolder reads a folder, or a checkpoint of one file and the folder that has its settings.
func openFolder(path, base string) (*folder, error) {
	info, err := os.Stat(path)
	one := err == nil && info.Mode().IsRegular() && slices.Contains([]string{".safetensors", ".gguf"}, strings.ToLower(filepath.Ext(path)))
	switch {
	case one && peft.IsAdapter(path):
		return nil, fmt.Errorf("%s: this is a LoRA, and no model\nhint: it goes to model.adapter, or --lora; model.path, or --model, names the model that it is of", path)
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

func readFolder(dir string) (*folder, error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: no such folder\nhint: %s", dir, assets.Fetching(dir))
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, fmt.Errorf("%s: it is a file; a pipeline's folder with model_index.json is needed, or one checkpoint file, .safetensors or .gguf, with model.base (--base)", dir)
	}
	path := filepath.Join(dir, "model_index.json")
	if _, err := safetensors.Locate(dir, "model_index.json"); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: there is no model_index.json\nhint: name the folder of the whole pipeline; 'darkroom inspect %s' says what this one is", dir, dir)
	} else if err != nil {
		return nil, err
	}
	raw, err := hub.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var entries map[string]json.RawMessage
	if err := hub.Decode(path, raw, &entries); err != nil {
		return nil, err
	}
	f := &folder{dir: dir, path: dir, parts: map[string]string{}, raw: raw, zeros: -1}
	if err := json.Unmarshal(entries["_class_name"], &f.class); err != nil || f.class == "" {
		return nil, fmt.Errorf("%s: it has no \"_class_name\"", path)
	}
	for _, ours := range []struct {
		key  string
		into *int
		most int
	}{{zerosKey, &f.zeros, longest}, {sideKey, &f.side, maxSide}} {
		raw, ok := entries[ours.key]
		if !ok {
			continue
		}
		if err := json.Unmarshal(raw, ours.into); err != nil || *ours.into < 0 || *ours.into > ours.most {
			return nil, fmt.Errorf("%s: %q is %s, not a number from 0 to %d", path, ours.key, raw, ours.most)
		}
	}
	for name, raw := range entries {
		var pair []*string
		if json.Unmarshal(raw, &pair) == nil && len(pair) == 2 && pair[1] != nil {
			f.parts[name] = *pair[1]
		}
	}
	return f, nil
}

// has reports whether the pipeline has a part.
func (f *folder) has(name string) bool { return f.parts[name] != "" }

// part is the folder of a part, all of whose files lie where they may.
func (f *folder) part(name string) (string, error) {
	if !f.has(name) {
		return "", fmt.Errorf("%s: it names no %q, which a %s needs", filepath.Join(f.dir, "model_index.json"), name, f.class)
	}
	if _, err := safetensors.Locate(f.dir, name); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s: there is no folder %q, but model_index.json names it\nhint: the download is not complete: fetch the folder again", f.dir, name)
	} else if err != nil {
		return "", err
	}
	dir := filepath.Join(f.dir, name)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink == 0 {
			continue
		}
		if _, err := safetensors.Locate(f.dir, name+"/"+e.Name()); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// readConfig reads a part's settings.
func readConfig[C any](f *folder, part string, read func(dir string) (C, error)) (C, error) {
	dir, err := f.part(part)
	if err != nil {
		var none C
		return none, err
	}
	c, err := read(dir)
	return c, named(dir, err)
}

// named adds a part's folder to an error about its settings.
func named(part string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", filepath.ToSlash(part), err)
}

// headers reads the headers of parts' weights, so that a file that is damaged is reported
// before the first network is loaded.
func (f *folder) headers(parts ...string) error {
	var errs []error
	for _, name := range parts {
		w, err := f.weights(name)
		if err == nil {
			err = w.close()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
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

// inFile is a part that the file of weights holds; nil: a file without it, or no file.
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

// files are those of a folder, for fingerprints.
func files(dir string) ([]os.FileInfo, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []os.FileInfo
	for _, entry := range entries {
		info, err := os.Stat(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() {
			all = append(all, info)
		}
	}
	return all, nil
}
