// Package panel opens the rewards that flags name: those of score and eval.
package panel

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/cmd/darkroom/devices"
	"github.com/darkroom-rl/darkroom/cmd/internal/device"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/call"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/judges"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// Flags say which rewards are asked and how: those of score and eval.
type Flags struct {
	Names, sets                    []string
	path, scaling, url, key, Cache string
	Device                         string
	timeout                        float64
	batch                          int
}

// Add adds them to a command.
func (o *Flags) Add(cmd *cobra.Command) {
	devices.Flag(cmd, &o.Device)
	f := cmd.Flags()
	f.StringSliceVar(&o.Names, "reward", nil, "`NAMES` of rewards, with commas between them")
	f.StringVar(&o.path, "path", "", "folder of the weights, or program, of the reward that needs one")
	f.StringVar(&o.scaling, "scaling", "", "`NAME` of what is made of the cosine of picture and prompt; see 'darkroom list scalings'")
	f.StringVar(&o.url, "url", "", "of an http reward or a judge")
	f.StringVar(&o.key, "key-env", "", "`NAME` of the environment variable that holds the key")
	f.Float64Var(&o.timeout, "timeout", 60, "seconds for one answer from outside")
	f.IntVar(&o.batch, "batch", 8, "items in one request to a server or program")
	f.StringVar(&o.Cache, "cache", "", "folder `DIR` that keeps answers from outside")
	f.StringArrayVar(&o.sets, "set", nil, "`KEY=VALUE` of the reward's table in an experiment's file: ocr.formula=strict, judge.form=unified, rule=boxed")
}

// String is the flags as they are written on a command line, without the key's variable.
func (o *Flags) String() string {
	text := " --reward " + strings.Join(o.Names, ",")
	for _, f := range []struct{ flag, value string }{{"path", o.path}, {"scaling", o.scaling}, {"url", o.url}} {
		if f.value != "" {
			text += fmt.Sprintf(" --%s %s", f.flag, f.value)
		}
	}
	for _, set := range o.sets {
		text += " --set " + set
	}
	return text
}

// Check reports all that is wrong with the flags alone.
func (o *Flags) Check(must func(ok bool, format string, args ...any)) {
	must(len(o.Names) > 0, "--reward is missing: names with commas between them")
	for i, name := range o.Names {
		kind, _ := (&experiment.Reward{Name: name}).Kind()
		must(kind.Name != "", "--reward %q is not known; see 'darkroom list rewards'", name)
		must(!slices.Contains(o.Names[:i], name), "--reward %s is there twice", name)
	}
	must(device.Known(o.Device), "--device %s: write auto, cpu, or cuda:0", o.Device)
	must(o.timeout > 0 && o.timeout <= 1e6, "--timeout %v: seconds, above 0", o.timeout)
	must(o.batch >= 1 && o.batch <= 4096, "--batch %d: 1 to 4096", o.batch)
	for _, set := range o.sets {
		key, _, _ := strings.Cut(set, "=")
		must(slices.ContainsFunc(o.Names, func(name string) bool { return experiment.OwnsKey(name, key) }), "--set %s: %q is of none of the rewards asked for", set, key)
	}
	must(o.scaling == "" || slices.ContainsFunc(o.Names, func(name string) bool { return experiment.OwnsKey(name, "scaling") }), "--scaling is of rewards that compare a picture with its prompt: clip, pickscore, hpsv2")
	if _, err := o.tables(); err != nil {
		must(false, "%v", err)
	}
}

// tables are the flags' values, a table a name. Keys of one reward do not disturb another.
func (o *Flags) tables() ([]experiment.Reward, error) {
	var all []experiment.Reward
	for _, name := range o.Names {
		var own []string
		for _, set := range o.sets {
			key, _, _ := strings.Cut(set, "=")
			if experiment.OwnsKey(name, key) {
				own = append(own, set)
			}
		}
		flags := []struct{ key, value string }{{"path", o.path}, {"scaling", o.scaling}, {"url", o.url}, {"key_env", o.key}}
		for _, f := range flags {
			if f.value != "" && experiment.OwnsKey(name, f.key) {
				own = append([]string{fmt.Sprintf("%s=%q", f.key, f.value)}, own...)
			}
		}
		if o.timeout > 0 {
			own = append([]string{fmt.Sprintf("timeout=%v", o.timeout)}, own...)
		}
		r, err := experiment.ParseReward(name, own)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// Open makes the rewards; remember says whether answers may come from the cache.
func (o *Flags) Open(remember bool) ([]Reward, error) {
	list, err := o.tables()
	if err != nil {
		return nil, err
	}
	var device *features.Device
	bench := judges.Bench{Batch: o.batch, Device: func() (*features.Device, error) {
		if device == nil {
			be, err := devices.Open(o.Device)
			if err != nil {
				return nil, err
			}
			device = features.On(tensor.NewPool(be), features.F32)
		}
		return device, nil
	}}
	if o.Cache != "" && remember {
		if bench.Cache, err = call.OpenCache(o.Cache); err != nil {
			return nil, err
		}
	}
	var all []Reward
	for _, r := range list {
		opened, err := judges.Open(r, bench)
		if err != nil {
			CloseAll(all) // the first error is returned
			return nil, err
		}
		all = append(all, Reward{known(r, opened), r.Toy(), opened.Close})
	}
	return all, nil
}

// asked is a reward that the flags ask for.
type Reward struct {
	Judge rewards.Judge
	Toy   string // the original of a stand-in
	close func() error
}

// CloseAll ends rewards: their scores stay, whatever they return at their end.
func CloseAll(all []Reward) {
	for _, r := range all {
		_ = r.close()
	}
}
