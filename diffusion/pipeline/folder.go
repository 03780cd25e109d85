package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/diffusion/single"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
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

func readFolder(dir string) (*folder, error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: no such folder\nhint: models are read from the disk; 'darkroom pull OWNER/NAME' fetches one from its hub", dir)
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, fmt.Errorf("%s: it is a file; a pipeline's folder with model_index.json is needed", dir)
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
