package compare

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// run holds the parts of a folder that a comparison reads.
type run struct {
	dir        string
	config     []byte
	experiment *experiment.Experiment // nil where this version cannot read it
	manifest   manifest
	lines      []ledger.Line // that count
	seconds    map[int]map[string]float64
}

// manifest is the part of manifest.json that is compared.
type manifest struct {
	Version string `json:"version"`
	System  string `json:"system"`
	Backend string `json:"backend"`
	Model   []struct {
		Name    string `json:"name"`
		SHA256  string `json:"sha256"`
		Sampled string `json:"sampled_sha256"`
	} `json:"model"`
	Prompts    int    `json:"prompts"`
	HeldOut    int    `json:"heldout"`
	PromptsSum string `json:"prompts_sha256"`
	HeldOutSum string `json:"heldout_sha256"`
}

// read reads a folder, as far as there is something.
func read(dir string) (*run, error) {
	r := &run{dir: dir}
	var err error
	if r.config, err = os.ReadFile(filepath.Join(dir, folder.Config)); err != nil {
		return nil, fmt.Errorf("%s holds no run: %w\nhint: name the folder that 'darkroom train' wrote", dir, err)
	}
	if err := folder.Own(dir); err != nil {
		return nil, err
	}
	if e, err := experiment.Parse(folder.Config, r.config, nil); err == nil {
		r.experiment = e
	}
	path := filepath.Join(dir, "manifest.json")
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &r.manifest)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if r.lines, _, err = ledger.Read(filepath.Join(dir, "ledger.jsonl")); err != nil {
		return nil, err
	}
	r.seconds, err = ledger.ReadTiming(filepath.Join(dir, "timing.jsonl"))
	return r, err
}

func (r *run) iterations() int {
	if len(r.lines) == 0 {
		return 0
	}
	return r.lines[len(r.lines)-1].Iteration
}

// spent is the seconds of the iterations that count.
func (r *run) spent() float64 {
	sum := 0.0
	for _, l := range r.lines {
		sum += r.seconds[l.Iteration]["all"]
	}
	return sum
}

// settings are those that differ.
func settings(a, b *run) []string {
	if a.experiment != nil && b.experiment != nil {
		return experiment.Differences(a.experiment, b.experiment)
	}
	if bytes.Equal(a.config, b.config) {
		return nil
	}
	return []string{"their config.toml files differ, and this version cannot read both"}
}

// deciding are the settings that differ and that a run's numbers depend on.
func deciding(a, b *run) []string {
	if a.experiment == nil || b.experiment == nil {
		return settings(a, b)
	}
	return slices.DeleteFunc(experiment.Changes(a.experiment, b.experiment), func(line string) bool { return strings.HasPrefix(line, "run.name ") })
}

// inputs lists the differences beside the settings: model, data, program and machine.
func inputs(a, b *run) []string {
	var all []string
	differ := func(what, x, y string) {
		if x != y {
			all = append(all, fmt.Sprintf("%s: %s in A, %s in B", what, x, y))
		}
	}
	differ("program", a.manifest.Version, b.manifest.Version)
	differ("system", a.manifest.System, b.manifest.System)
	differ("device", a.manifest.Backend, b.manifest.Backend)
	if list := otherFiles(a, b); len(list) > 0 {
		all = append(all, "model: other bytes in "+strings.Join(list, ", "))
	}
	if a.manifest.PromptsSum != b.manifest.PromptsSum {
		all = append(all, fmt.Sprintf("prompts: other texts (%d in A, %d in B)", a.manifest.Prompts, b.manifest.Prompts))
	}
	if a.manifest.HeldOutSum != b.manifest.HeldOutSum {
		all = append(all, fmt.Sprintf("held-out prompts: other texts (%d in A, %d in B)", a.manifest.HeldOut, b.manifest.HeldOut))
	}
	return all
}

// otherFiles are the files of the model that differ.
func otherFiles(a, b *run) []string {
	sums := map[string]string{}
	for _, f := range a.manifest.Model {
		sums[f.Name] = f.SHA256 + f.Sampled
	}
	var list []string
	for _, f := range b.manifest.Model {
		if sums[f.Name] != f.SHA256+f.Sampled {
			list = append(list, f.Name)
		}
		delete(sums, f.Name)
	}
	for name := range sums {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}
