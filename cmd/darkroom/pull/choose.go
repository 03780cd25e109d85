package pull

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Darkroom's part of a repository: of a pipeline model_index.json and the folders that it names, of any other model
// all folders; settings, tokenizers and safetensors there, one set of weights a folder. Weights in other formats,
// single-file checkpoints beside a pipeline, pictures and pages are left out. The licence comes along. Compressed
// weights are weights; of models in GGUF one is chosen, by --include where there are several.

const indexName = "model_index.json"

// choice chooses files.
type choice struct {
	parts   []string // the folders of model_index.json; nil: a repository without it
	variant string
	include []string
	only    []string // patterns of paths; nil: those of a model
	pickle  string   // a state dict that is taken where a folder has no safetensors; "": none
}

// parts are the folders that a model_index.json names.
func parts(text []byte) ([]string, error) {
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(text, &entries); err != nil {
		return nil, err
	}
	names := []string{}
	for name, raw := range entries {
		var pair []*string
		if json.Unmarshal(raw, &pair) == nil && len(pair) == 2 && pair[1] != nil {
			names = append(names, name)
		}
	}
	return names, nil
}

// of are the chosen files, in the order of the list.
func (c choice) of(all []File) ([]File, error) {
	if c.only != nil {
		chosen := slices.DeleteFunc(slices.Clone(all), func(f File) bool {
			return !slices.ContainsFunc(c.only, func(pattern string) bool { ok, _ := path.Match(pattern, f.Path); return ok })
		})
		if len(chosen) == 0 {
			return nil, fmt.Errorf("none of its %d files is one of %s", len(all), strings.Join(c.only, ", "))
		}
		return chosen, nil
	}
	keep := map[string]bool{}
	weights := map[string][]File{} // by folder
	others := map[string]bool{}    // folders with weights in another format
	states := map[string]string{}  // the one of them that is taken for want of safetensors
	var ggufs []File               // one of them is a model
	for _, f := range all {
		dir, base := path.Split(f.Path)
		switch {
		case c.includes(f.Path):
			keep[f.Path] = true
		case !c.inside(dir):
		case dir == "" && c.parts != nil && path.Ext(base) != ".json": // single files beside a pipeline
			keep[f.Path] = c.settings(dir, base)
		case weightName.MatchString(base):
			weights[dir] = append(weights[dir], f)
		case c.parts == nil && path.Ext(base) == ".gguf":
			ggufs = append(ggufs, f)
		case pickled(base):
			others[dir] = true
			if base == c.pickle {
				states[dir] = f.Path
			}
		default:
			keep[f.Path] = c.settings(dir, base)
		}
	}
	for dir, files := range weights {
		chosen, err := c.weights(dir, files)
		if err != nil {
			return nil, err
		}
		for _, f := range chosen {
			keep[f.Path] = true
		}
	}
	if asked := slices.ContainsFunc(all, func(f File) bool { return path.Ext(f.Path) == ".gguf" && keep[f.Path] }); !asked && len(weights) == 0 {
		switch len(ggufs) {
		case 0:
		case 1:
			keep[ggufs[0].Path] = true
		default:
			return nil, fmt.Errorf("it has %d models in GGUF\nhint: choose one with --include: %s", len(ggufs), names(ggufs))
		}
	}
	for dir := range others {
		if path := states[dir]; path != "" && len(weights[dir]) == 0 {
			keep[path] = true
		} else if len(weights[dir]) == 0 && len(ggufs) == 0 {
			return nil, fmt.Errorf("%s has its weights as pickled files alone, which are not read\nhint: convert them with transformers' or diffusers' save_pretrained", folderName(dir))
		}
	}
	chosen := slices.DeleteFunc(slices.Clone(all), func(f File) bool { return !keep[f.Path] })
	if len(chosen) == 0 {
		return nil, fmt.Errorf("none of its %d files belongs to a model that is read here\nhint: --include PATTERN names files", len(all))
	}
	return chosen, nil
}

func (c choice) includes(name string) bool {
	return slices.ContainsFunc(c.include, func(pattern string) bool {
		whole, _ := path.Match(pattern, name)
		base, _ := path.Match(pattern, path.Base(name))
		return whole || base
	})
}

// inside reports whether a folder is one of the model's.
func (c choice) inside(dir string) bool {
	for _, element := range strings.Split(strings.TrimSuffix(dir, "/"), "/") {
		if strings.HasPrefix(element, ".") || slices.Contains(foreign, element) {
			return false
		}
	}
	top, _, _ := strings.Cut(dir, "/")
	return c.parts == nil || top == "" || slices.Contains(c.parts, top)
}

// foreign are folders with a model once more, for other programs.
var foreign = []string{"onnx", "openvino", "coreml", "original", "metal", "gguf", "flax", "tf"}

// settings reports whether a file without weights is read.
func (c choice) settings(dir, base string) bool {
	if strings.HasPrefix(base, ".") {
		return false
	}
	if dir == "" && (strings.HasPrefix(base, "LICENSE") || strings.HasPrefix(base, "NOTICE")) {
		return true
	}
	if dir == "" && c.parts != nil {
		return base == indexName
	}
	switch path.Ext(base) {
	case ".json":
		return !strings.HasSuffix(base, ".bin.index.json")
	case ".model", ".jinja":
		return true
	case ".txt":
		return base == "merges.txt" || base == "vocab.txt"
	}
	return false
}

func pickled(base string) bool {
	switch path.Ext(base) {
	case ".bin", ".pt", ".pth", ".ckpt":
		return !strings.HasPrefix(base, "training_args") && !strings.HasPrefix(base, "optimizer")
	}
	return false
}

// weightName takes the name of a file of weights, or of their index, apart: its stem, and its variant
// in one of three places.
var weightName = regexp.MustCompile(`^([^.]+?)(?:\.([a-z0-9_]+))??(?:-\d{5}-of-\d{5})?(?:\.([a-z0-9_]+))??\.safetensors(?:\.index(?:\.([a-z0-9_]+))?\.json)?$`)

// stems are those that loaders look for first, in their order.
var stems = []string{"diffusion_pytorch_model", "model", "adapter_model", "pytorch_lora_weights", "open_clip_model"}

// weights chooses one set of weights among a folder's.
func (c choice) weights(dir string, files []File) ([]File, error) {
	byStem := map[string]map[string][]File{} // and by variant
	for _, f := range files {
		m := weightName.FindStringSubmatch(path.Base(f.Path))
		stem, variant := m[1], m[2]+m[3]+m[4]
		if byStem[stem] == nil {
			byStem[stem] = map[string][]File{}
		}
		byStem[stem][variant] = append(byStem[stem][variant], f)
	}
	for _, stem := range stems {
		if byStem[stem] != nil {
			byStem = map[string]map[string][]File{stem: byStem[stem]}
			break
		}
	}
	var chosen []File
	for _, variants := range byStem {
		one, err := c.one(variants)
		if err != nil {
			return nil, fmt.Errorf("%s %w", folderName(dir), err)
		}
		chosen = append(chosen, one...)
	}
	return chosen, nil
}

// one is the variant that was asked for, else the plain files, else the only one that there is.
func (c choice) one(variants map[string][]File) ([]File, error) {
	for _, name := range []string{c.variant, ""} {
		if files := variants[name]; files != nil {
			return files, nil
		}
	}
	var names []string
	for name := range variants {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) > 1 {
		return nil, fmt.Errorf("has no plain weights, only variants\nhint: choose one with --variant: %s", strings.Join(names, ", "))
	}
	return variants[names[0]], nil
}

// names are some files' paths, eight at most.
func names(files []File) string {
	var all []string
	for _, f := range files[:min(8, len(files))] {
		all = append(all, f.Path)
	}
	if len(files) > 8 {
		all = append(all, "...")
	}
	return strings.Join(all, ", ")
}

func folderName(dir string) string {
	if dir == "" {
		return "the repository"
	}
	return "its folder " + strings.TrimSuffix(dir, "/")
}
