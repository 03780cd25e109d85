package training

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/folder"
)

// Manifest is manifest.json: what a run was made with, so far as it is not in its config.
type Manifest struct {
	Version string            `json:"version"`
	Go      string            `json:"go"`
	System  string            `json:"system"`
	Backend string            `json:"backend"`
	Seed    int               `json:"seed"`
	Seeds   []experiment.Seed `json:"seeds"`
	Model   []ModelFile       `json:"model"`
	Prompts int               `json:"prompts"`
	HeldOut int               `json:"heldout"`
}

// ModelFile is a file of the model's folder. Of very large ones the size has to do.
type ModelFile struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256,omitempty"`
}

// mostHashed is the largest file that is read whole for its sum.
const mostHashed = 1 << 28

// manifest writes manifest.json.
func (t *Training) manifest() error {
	plan, err := t.Plan()
	if err != nil {
		return err
	}
	m := Manifest{Version: t.Version, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, Seed: t.Run.Seed, Seeds: plan.Seeds,
		Prompts: len(t.train), HeldOut: len(t.heldOut)}
	for i, be := range append([]kernels.Backend{t.Backend}, t.Further...) {
		if s, ok := be.(interface{ String() string }); ok && i == 0 {
			m.Backend = s.String()
		} else if ok {
			m.Backend += "; " + s.String()
		}
	}
	if g := t.model.group; g != nil {
		m.Backend += "; " + g.sum.Wire.String()
	}
	dir := t.model.dir()
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := os.Stat(path) // through the links of the hub's cache
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		f := ModelFile{Name: filepath.ToSlash(name), Bytes: info.Size()}
		if f.Bytes <= mostHashed {
			if f.SHA256, err = folder.Sum(path); err != nil {
				return err
			}
		}
		m.Model = append(m.Model, f)
		return nil
	})
	if err != nil {
		return err
	}
	return t.folder.WriteJSON("manifest.json", m)
}
