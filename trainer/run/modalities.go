package run

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/trainer/conversations"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/pictures"
)

// modalities are the kinds of models; the first that an experiment is of counts. A further one is a line.
func modalities() []kind {
	return []kind{
		{conversations.Modality(), func(e *experiment.Experiment) bool { return e.Episode != nil }},
		{pictures.Clips(), func(e *experiment.Experiment) bool { return slices.Contains(e.Makes(), "clips") }},
		{pictures.Modality(), func(*experiment.Experiment) bool { return true }},
	}
}

// kind is a modality, and whether an experiment is of it.
type kind struct {
	model.Modality
	of func(e *experiment.Experiment) bool
}

// ModalityOf is an experiment's.
func ModalityOf(e *experiment.Experiment) model.Modality {
	all := modalities()
	return all[slices.IndexFunc(all, func(k kind) bool { return k.of(e) })].Modality
}

// Memory predicts what a run takes, on an empty backend that counts, and how it keeps to a budget beside its rewards'
// networks.
func Memory(e *experiment.Experiment, dry model.Dry, budget int64) (*model.Memory, error) {
	taken := rewardBytes(e)
	if budget > 0 && e.Run.Memory == "" { // which says what the model may take
		budget = max(1, budget-taken)
	}
	need, err := ModalityOf(e).Memory(e, dry, budget)
	if err == nil {
		need.Rewards = taken
	}
	return need, err
}

// rewardBytes is what files of rewards' networks take that compute on the run's device, as far as they are there.
func rewardBytes(e *experiment.Experiment) (bytes int64) {
	seen := map[string]bool{}
	for _, r := range e.Rewards {
		if r.Path == "" || r.URL != "" || seen[r.Path] {
			continue
		}
		seen[r.Path] = true
		dir, err := assets.Resolve(r.Path)
		if err != nil {
			continue // which has an error of its own
		}
		bytes += weightBytes(dir)
	}
	return bytes
}

// weightBytes is what the files of weights below a folder take: those in safetensors where there are some.
func weightBytes(dir string) int64 {
	sums := map[string]int64{}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := os.Stat(path); err == nil { // of a link, what it leads to
			sums[filepath.Ext(path)] += info.Size()
		}
		return nil
	})
	if n := sums[".safetensors"]; n > 0 {
		return n
	}
	return sums[".bin"] + sums[".pt"] + sums[".pth"]
}
