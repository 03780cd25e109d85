package run

import (
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// fit is how the run keeps to its memory: to what the file says, or to what is free. It changes no bit, so a run
// may go on with another.
func (t *training) fit() model.Fit {
	budget := t.Run.Bytes()
	if budget == 0 {
		budget = t.Free
	}
	if budget <= 0 {
		return model.Fit{}
	}
	path, err := isa.Choose()
	if err != nil {
		return model.Fit{}
	}
	ranks := int64(1)
	if t.Run.Devices()[0] == "cpu" {
		ranks += int64(len(t.Further))
	}
	need, err := t.modality.Memory(t.Experiment, cpu.NewDry(cpu.Options{Path: path}), budget/ranks)
	switch {
	case err != nil && t.Run.Memory != "":
		t.Say("warning: run.memory is not followed: %v", err)
	case err != nil:
	case !need.Within(budget/ranks, 1) && t.Run.Memory != "":
		t.Say("warning: the run takes more than run.memory = %q by prediction, whatever is done; 'darkroom plan' shows which part", t.Run.Memory)
		return need.Fit
	default:
		return need.Fit
	}
	return model.Fit{}
}
