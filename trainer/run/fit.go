package run

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// fit is how the run keeps to its memory: to what the file says, or to what is free. It changes no bit, so a run
// may go on with another.
func (t *training) fit() model.Fit {
	ranks := int64(1)
	if t.Run.Devices()[0] == "cpu" {
		ranks += int64(len(t.Further))
	}
	return fitted(t.modality, computesOn(t.Backend, t.Experiment), t.room(), ranks, t.Say)
}

// room is what rewards leave free: what is free now, less what of their files they did not load yet. 0: unknown.
func (t *training) room() int64 {
	now := t.free()
	if now == 0 {
		return 0
	}
	return max(1, now-max(0, rewardBytes(t.Experiment)-max(0, t.before-now)))
}

// free is what nobody uses of the devices' memory; 0: unknown.
func (t *training) free() int64 {
	if t.Free == nil {
		return 0
	}
	return t.Free()
}

// computesOn is an experiment that names the device which "auto" stands for:
// a card has no room for what lies on the host.
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

// fitted is how a model keeps to what an experiment's file says, or to what is free, which so many ranks share.
func fitted(m model.Modality, e *experiment.Experiment, free, ranks int64, say func(format string, args ...any)) model.Fit {
	budget := e.Run.Bytes()
	if budget == 0 {
		budget = free
	}
	if budget <= 0 {
		return model.Fit{}
	}
	path, err := isa.Choose()
	if err != nil {
		return model.Fit{}
	}
	need, err := m.Memory(e, cpu.NewDry(cpu.Options{Path: path}), budget/ranks)
	switch {
	case err != nil && e.Run.Memory != "":
		say("warning: run.memory is not followed: %v", err)
	case err != nil:
	case !need.Within(budget/ranks, 1) && e.Run.Memory != "":
		say("warning: the run takes more than run.memory = %q by prediction, whatever is done; 'darkroom plan' shows which part", e.Run.Memory)
		return need.Kept()
	default:
		return need.Kept()
	}
	return model.Fit{}
}
