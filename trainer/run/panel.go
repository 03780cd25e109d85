package run

import (
	"errors"

	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/judges"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// judged is one [[reward]] with what answers it.
type judged struct {
	name string
	experiment.Failure
	answered bool        // since the program began
	there    func() bool // whether workers compute it; nil: none ever does
	judges.Opened
}

// elsewhere reports whether the reward can be asked while this device is at something else.
func (j *judged) elsewhere() bool { return j.Outside || j.there != nil && j.there() }

// atOnce is how many samples a server or a program is asked about in one request.
const atOnce = 16

// openRewards opens every [[reward]]. Networks compute in fp32, with memory of their own: rewards
// may be asked from any goroutine.
func (t *training) openRewards() error {
	var device *features.Device
	bench := judges.Bench{Batch: atOnce, Device: func() (*features.Device, error) {
		if device == nil {
			device = features.On(tensor.NewPool(t.Backend), features.F32)
		}
		return device, nil
	}}
	for _, r := range t.Rewards {
		o, err := judges.Open(r, bench)
		if err != nil {
			return errors.Join(err, t.closeRewards())
		}
		t.panel = append(t.panel, judged{name: r.Called(), Failure: r.Failure, Opened: o})
	}
	return nil
}

func (t *training) closeRewards() error {
	var errs []error
	for _, j := range t.panel {
		errs = append(errs, j.Close())
	}
	t.panel = nil
	return errors.Join(errs...)
}
