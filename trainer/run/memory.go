package run

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/nn/quant"
	"github.com/darkroom-rl/darkroom/rewards/neural"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// fit is how the run keeps to its memory: to run.memory, or to the unused bytes. It changes no bit, so a run
// may go on with another.
func (l *loop) fit() (model.Fit, error) {
	ranks := int64(1)
	switch devices, shares := int64(1+len(l.Further)), int64(l.Run.TokenShares()); {
	case l.Run.Devices()[0] == "cpu":
		ranks = max(devices, shares)
	case shares > 1:
		ranks = (shares + devices - 1) / devices
	}
	copies := rewardCopies(l.Experiment)
	if l.Fleet != nil { // workers have the others
		copies = 1
	}
	return fitted(l.ctx, l.modality, computesOn(l.Backend, l.Experiment), l.memory.left(rewardBytes(l.Experiment)*copies), ranks, l.Logf)
}

// memory is that of the devices which the run and other programs share.
type memory struct {
	free   func() int64 // unused bytes; nil, and 0: unknown
	before int64        // unused bytes before rewards were opened
}

// unused are the unused bytes now; 0: unknown.
func (m memory) unused() int64 {
	if m.free == nil {
		return 0
	}
	return m.free()
}

// left is the model's memory beside rewards: the unused bytes, without those of the rewards' files that are not
// loaded yet. 0: unknown.
func (m memory) left(rewards int64) int64 {
	now := m.unused()
	if now == 0 {
		return 0
	}
	return max(1, now-max(0, rewards-max(0, m.before-now)))
}

// computesOn is an experiment that names the device which "auto" stands for: a card has no room for values on the
// host.
func computesOn(be kernels.Backend, e *experiment.Experiment) *experiment.Experiment {
	if e.Run.Devices()[0] != "auto" {
		return e
	}
	on := *e
	if on.Run.Device = "cuda:0"; isHost(be) {
		on.Run.Device = "cpu"
	}
	return &on
}

func isHost(be kernels.Backend) bool {
	_, ok := be.(*cpu.Backend)
	return ok
}

// fitted divides run.memory, or free memory, among the ranks. Counting a large model takes seconds, and ends with the
// context.
func fitted(ctx context.Context, m model.Modality, e *experiment.Experiment, free, ranks int64, say func(format string, args ...any)) (model.Fit, error) {
	budget := e.Run.Bytes()
	if budget == 0 {
		budget = free
	}
	if budget <= 0 {
		return model.Fit{}, nil
	}
	path, err := isa.Choose()
	if err != nil {
		return model.Fit{}, nil
	}
	dry := cpu.NewDry(cpu.Options{Path: path})
	dry.Until(ctx)
	need, err := m.Memory(e, dry, budget/ranks)
	switch {
	case ctx.Err() != nil:
		return model.Fit{}, ctx.Err()
	case err != nil && e.Run.Memory != "":
		say("warning: run.memory is not followed: %v", err)
	case err != nil:
	case !need.Within(budget/ranks, 1) && e.Run.Memory != "":
		say("warning: the run takes more than run.memory = %q by prediction, whatever is done; 'darkroom plan' shows which part", e.Run.Memory)
		return need.Kept(), nil
	default:
		return need.Kept(), nil
	}
	return model.Fit{}, nil
}

// Memory predicts the memory of one of several ranks, on an empty backend that counts, and its fit to the budget of
// all, beside rewards' networks.
func Memory(e *experiment.Experiment, dry model.Dry, budget int64, ranks int) (*model.Memory, error) {
	taken := rewardBytes(e) * rewardCopies(e)
	if budget > 0 && e.Run.Memory == "" { // which bounds the model's memory
		budget = max(1, budget-taken)
	}
	need, err := ModalityOf(e).Memory(e, dry, budget/int64(ranks))
	if err == nil {
		need.Rewards = taken
	}
	return need, err
}

// rewardCopies are those of rewards' networks in one memory: each device has them, and those on the CPU share theirs.
func rewardCopies(e *experiment.Experiment) int64 {
	if on := e.Run.Devices(); on[0] == "cpu" {
		return int64(len(on))
	}
	return 1
}

// rewardBytes is the memory of rewards' networks on a device, as far as their files are there: of each number 4
// bytes, or 2 where the reward computes in bf16.
func rewardBytes(e *experiment.Experiment) (bytes int64) {
	type network struct {
		path string
		each int64
	}
	seen := map[network]bool{}
	for _, r := range e.Rewards {
		for _, path := range rewardFolders(r) {
			n := network{path, 4}
			if r.Precision == "bf16" {
				n.each = 2
			}
			if seen[n] {
				continue
			}
			seen[n] = true
			dir, err := assets.Resolve(path)
			if err != nil {
				continue // which has an error of its own
			}
			bytes += weightBytes(dir, n.each)
		}
		if kind, own := r.Kind(); kind.Takes != nil && r.Path != "" {
			bytes += kind.Takes(own)
		}
	}
	return bytes
}

// rewardFolders are those of the networks that a reward computes here: that of path, unless a server has it, and
// geneval's CLIP for colours, which is at path where a server detects.
func rewardFolders(r experiment.Reward) (paths []string) {
	if r.Path != "" && (r.URL == "" || r.Name == neural.GenEvalKind.Name) {
		paths = append(paths, r.Path)
	}
	if r.GenEval != nil && r.GenEval.CLIP != "" {
		paths = append(paths, r.GenEval.CLIP)
	}
	return paths
}

// weightBytes is the memory of the weights below a folder, each bytes for a number: of those in safetensors where
// there are some. Other files have numbers of 4 bytes.
func weightBytes(dir string, each int64) int64 {
	var safe, others int64
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		switch filepath.Ext(path) {
		case ".safetensors":
			safe += numbers(path) * each
		case ".bin", ".pt", ".pth", ".onnx":
			if info, err := os.Stat(path); err == nil { // of a link, the file that it leads to
				others += info.Size() / 4 * each
			}
		}
		return nil
	})
	if safe > 0 {
		return safe
	}
	return others
}

// numbers counts those of a file; one that cannot be read has an error of its own.
func numbers(path string) (n int64) {
	f, err := quant.OpenFile(path) // compressed matrices count as their values
	if err != nil {
		return 0
	}
	defer f.Close()
	for _, info := range f.Infos {
		each := int64(1)
		for _, side := range info.Shape {
			each *= int64(side)
		}
		n += each
	}
	return n
}
