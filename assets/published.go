package assets

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// Settings of published models, as their repositories have them, without weights and tokenizers: enough for a plan.

//go:embed all:published
var published embed.FS

// A Published is a model of the hub that recipes name.
type Published struct {
	Name  string // of its folder
	Owner string
	Gated bool // its licence is accepted on the hub before it can be fetched
}

// PublishedModels are the models of recipes.
func PublishedModels() []Published {
	return []Published{
		{"FLUX.1-dev", "black-forest-labs", true},
		{"FLUX.1-Kontext-dev", "black-forest-labs", true},
		{"Qwen-Image", "Qwen", false},
		{"Qwen-Image-Edit-2509", "Qwen", false},
		{"Qwen2.5-VL-7B-Instruct", "Qwen", false},
		{"Wan2.1-T2V-1.3B-Diffusers", "Wan-AI", false},
		{"stable-diffusion-3.5-medium", "stabilityai", true},
		{"stable-diffusion-v1-5", "stable-diffusion-v1-5", false},
		{"stable-diffusion-xl-base-1.0", "stabilityai", false},
	}
}

// PublishedAt is the model that a folder is called like.
func PublishedAt(path string) (Published, bool) {
	all := PublishedModels()
	i := slices.IndexFunc(all, func(p Published) bool { return p.Name == filepath.Base(path) })
	if i < 0 {
		return Published{}, false
	}
	return all[i], true
}

// Fetch is the command that fetches the model into a folder.
func (p Published) Fetch(into string) string {
	command := fmt.Sprintf("darkroom pull %s/%s", p.Owner, p.Name)
	if into = filepath.ToSlash(filepath.Clean(into)); into != "models/"+p.Name && into != p.Owner+"/"+p.Name {
		command += " --out " + into
	}
	return command
}

// WriteSettings writes the model's settings into a new folder; fs.ErrNotExist where the program has none.
func (p Published) WriteSettings(dir string) error {
	tree, err := fs.Sub(published, path.Join("published", p.Name))
	if err != nil {
		return err
	}
	if _, err := fs.Stat(tree, "."); err != nil {
		return err
	}
	return os.CopyFS(dir, tree)
}
