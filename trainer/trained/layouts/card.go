package layouts

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/darkroom-rl/darkroom/assets"
)

// A model card, as the hub shows it, goes with every export: README.md in a folder, NAME.md beside NAME.safetensors. A
// file that is there stays.

// base is the model's name on the hub, as far as it is known, or its path; "": no model is known.
func (x *Export) base() string {
	path := x.Model
	if x.Run != nil {
		path = cmp.Or(x.Run.Experiment.Model.Base, x.Run.Experiment.Model.Path)
	}
	if strings.HasPrefix(path, assets.Prefix) {
		return path
	}
	var pulled struct {
		Repo string `json:"repo"`
	}
	if text, err := os.ReadFile(filepath.Join(path, ".darkroom-pull.json")); err == nil && json.Unmarshal(text, &pulled) == nil && pulled.Repo != "" {
		return pulled.Repo
	}
	if p, ok := assets.PublishedAt(path); ok {
		return p.Owner + "/" + p.Name
	}
	return path
}

// cardAt is the card's path.
func (x *Export) cardAt() string {
	if x.Layout.Form == File {
		return strings.TrimSuffix(x.Out, filepath.Ext(x.Out)) + ".md"
	}
	return filepath.Join(x.Out, "README.md")
}

// card writes it.
func (x *Export) card(w Written) error {
	path := x.cardAt()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	library := "diffusers"
	if x.speaks() {
		library = map[bool]string{true: "transformers", false: "peft"}[x.Layout.Form == Whole]
	}
	var text strings.Builder
	fmt.Fprintln(&text, "---")
	if base := x.base(); base != "" && !strings.HasPrefix(base, assets.Prefix) {
		fmt.Fprintf(&text, "base_model: %s\n", base)
	}
	fmt.Fprintf(&text, "library_name: %s\ntags:\n- darkroom\n", library)
	if w.Layers > 0 && x.Layout.Form != Whole {
		fmt.Fprintln(&text, "- lora")
	}
	name := strings.TrimSuffix(filepath.Base(x.Out), filepath.Ext(x.Out))
	fmt.Fprintf(&text, "---\n\n# %s\n\n", name)
	if x.Run != nil {
		e := x.Run.Experiment
		fmt.Fprintf(&text, "Run `%s` of Darkroom, objective `%s`, iteration %d of %d.\n", e.Run.Name, e.Loss.Objective, x.Run.Checkpoint.Iteration, e.Run.Iterations)
		for _, r := range e.Rewards {
			if r.Train {
				fmt.Fprintf(&text, "Reward `%s`, weight %v.\n", r.Called(), r.Weight)
			}
		}
		fmt.Fprintln(&text)
	}
	fmt.Fprintf(&text, "Layout: `%s`, %s\n", x.Layout.Name, strings.ReplaceAll(x.Layout.Help, "\n", " "))
	if x.Layout.Form == File && !x.speaks() {
		fmt.Fprintf(&text, "\n```python\npipeline.load_lora_weights(\".\", weight_name=%q)\n```\n", filepath.Base(x.Out))
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}
