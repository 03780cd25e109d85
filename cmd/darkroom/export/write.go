package export

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/devices"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/inputs"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/nn/edition"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/trained"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// exported is what is written, and of which model.
type exported struct {
	*options
	report report
	run    *trained.Run    // nil: an adapter by itself
	model  string          // "": not known
	be     devices.Backend // what a whole model is computed on; nil: nothing is computed
}

// write writes what was asked for.
func (o *options) write(log io.Writer) (*report, error) {
	x := &exported{options: o, report: report{Out: o.out, As: o.as}}
	var err error
	if o.whole() { // first: a device that is not there is told before anything is read
		if x.be, err = devices.Open(o.device); err != nil {
			return nil, err
		}
		defer x.be.Close()
	}
	if o.run != "" {
		if x.run, err = inputs.OpenRun(o.run, o.model, &o.weights, log); err != nil {
			return nil, err
		}
		x.model, x.report.Iteration = x.run.Model, &x.run.Checkpoint.Iteration
		x.report.Weights = x.weights
		if base := x.run.Experiment.Model.Base; base != "" && o.whole() {
			return nil, exits.Usagef("--as %s: the model of %s is one file, %s, and a whole folder is copied from a folder\nhint: --model names the model in diffusers' layout; adapters leave as peft, diffusers or kohya", o.as, o.run, x.model)
		} else if base != "" {
			x.model = base
		}
	} else if o.model != "" {
		if x.model, err = assets.Resolve(o.model); err != nil {
			return nil, exits.Usage(err)
		}
	}
	switch {
	case x.run != nil && !x.run.Adapted() && o.as != "hub":
		return nil, exits.Usagef("--as %s: %s trained parameters of the model itself, and no adapter\nhint: --as hub writes the whole model", o.as, o.run)
	case x.run != nil && !x.run.Adapted():
		err = x.values()
	default:
		err = x.adapter()
	}
	return &x.report, err
}

// values writes a model with other parameters.
func (x *exported) values() (err error) {
	dry, err := devices.Dry()
	if err != nil {
		return err
	}
	v, err := x.run.Values(trained.Which(x.weights), dry, tensor.NewPool(x.be))
	if err != nil {
		return exits.Usage(err)
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	x.report.Tensors = v.Len()
	changes := make([]edition.Change, 2)
	for _, n := range v.Networks {
		changes[n.Number] = edition.Values{Source: n, Wide: x.dtype == "f32"}
	}
	return x.changed(changes...)
}

// adapter writes an adapter, or a model with it folded in.
func (x *exported) adapter() (err error) {
	path := x.lora
	if x.run != nil {
		if path, err = x.run.Adapter(trained.Which(x.weights)); err != nil {
			return exits.Usage(err)
		}
	}
	adapters, component, err := x.open(path)
	if err != nil {
		return err
	}
	defer func() {
		for _, a := range adapters {
			err = errors.Join(err, a.Close())
		}
	}()
	for _, a := range adapters {
		if x.report.Layers += len(a.Modules()); x.speaks() && !x.whole() {
			a.Rename(map[string]vlm.Names{"transformers4": vlm.Transformers4, "transformers5": vlm.Transformers5}[x.names].Of)
		}
	}
	if x.whole() {
		return x.fold(adapters)
	}
	switch {
	case adapters[0] == nil:
		x.report.Out = x.secondOut()
	case adapters[1] != nil:
		x.report.Second = x.secondOut()
	}
	for number := range 2 { // the first one's before the second one's
		a := adapters[number]
		if a == nil {
			continue
		}
		if err := x.one(a, number, component); err != nil {
			return errors.Join(err, x.none())
		}
	}
	return nil
}

// none takes back what was written, so that no half of a pair looks whole. Nothing of it was there before (check).
func (x *exported) none() error {
	return errors.Join(os.RemoveAll(x.out), os.RemoveAll(x.secondOut()))
}

// one writes the adapter of a network.
func (x *exported) one(a *peft.Adapter, number int, component string) error {
	out := x.out
	if number > 0 {
		out = x.secondOut()
	}
	switch x.as {
	case "kohya":
		network, err := x.kohya()
		if err != nil {
			return err
		}
		return a.CopyKohya(out, network)
	case "diffusers":
		if x.speaks() {
			return exits.Usagef("--as diffusers: %s is a vision-language model, which no pipeline of diffusers loads\nhint: --as peft, or --as hub", x.model)
		}
		return a.CopyDiffusers(out, component)
	}
	return a.Copy(out)
}

// secondOut is where the adapter of a second network goes.
func (o *options) secondOut() string {
	if o.as == "peft" {
		return filepath.Join(o.out, model.Second)
	}
	return peft.Second(o.out, model.Second)
}

// fold writes a model with adapters folded in.
func (x *exported) fold(adapters map[int]*peft.Adapter) error {
	if x.speaks() {
		set, err := safetensors.OpenFolder(x.model)
		if err != nil {
			return err
		}
		adapters[0].Rename(vlm.NamesOf(set.Names()).Of)
		if err := set.Close(); err != nil {
			return err
		}
	}
	changes := make([]edition.Change, 2)
	for number, a := range adapters {
		changes[number] = peft.Fold{Adapter: a, Pool: tensor.NewPool(x.be)}
	}
	return x.changed(changes...)
}

// changed writes a copy of the model's folder, with a change for each of its networks.
func (x *exported) changed(changes ...edition.Change) error {
	if !x.speaks() {
		return pipeline.Changed(x.model, x.out, changes...)
	}
	return edition.Make(x.model, x.out, func(to edition.Copy) error { return to.Changed(".", changes[0]) })
}

// speaks reports whether the model is a vision-language model, and no pipeline.
func (x *exported) speaks() bool {
	if x.model == "" {
		return false
	}
	_, pipeline := os.Stat(filepath.Join(x.model, "model_index.json"))
	_, config := os.Stat(filepath.Join(x.model, "config.json"))
	return errors.Is(pipeline, fs.ErrNotExist) && config == nil
}

// kohya is the network whose names the file gets: one path is a layer of FLUX and of Stable Diffusion 3.
func (x *exported) kohya() (peft.Network, error) {
	n, err := pipeline.KohyaOf(x.model)
	if err != nil {
		return 0, exits.Usage(err)
	}
	if n == 0 {
		class, err := pipeline.ClassOf(x.model)
		if err != nil {
			return 0, exits.Usage(err)
		}
		return 0, exits.Usagef("--as kohya: diffusers reads this layout of U-Nets and of FLUX, not of a %s\nhint: --as diffusers is what ComfyUI reads for it", class)
	}
	return n, nil
}

// open opens the adapters of a path, by the number of the network that each is of: where two networks take turns, that
// of the second lies in a folder below.
func (x *exported) open(path string) (all map[int]*peft.Adapter, component string, err error) {
	all = map[int]*peft.Adapter{}
	below := filepath.Join(path, model.Second)
	info, err := os.Stat(below)
	second := err == nil && info.IsDir() // which must hold an adapter: no half of a pair is left out in silence
	if _, none := peft.Files(path); none == nil || !second {
		if all[0], component, err = x.openOne(path); err != nil {
			return nil, "", err
		}
	}
	if second {
		if all[1], component, err = x.openOne(below); err != nil {
			if all[0] != nil {
				err = errors.Join(err, all[0].Close())
			}
			return nil, "", err
		}
	}
	return all, component, nil
}

// openOne opens an adapter as the named component's, as the model's denoiser's, or as whichever it is.
func (x *exported) openOne(path string) (*peft.Adapter, string, error) {
	component := x.component
	if component == "" && x.model != "" && !x.speaks() {
		var err error
		if component, err = pipeline.ComponentOf(x.model); err != nil {
			return nil, "", exits.Usage(err)
		}
	}
	if component != "" {
		a, err := peft.Open(path, component)
		return a, component, err
	}
	a, err := peft.Open(path, "transformer")
	if err == nil {
		return a, "transformer", nil
	}
	if b, err := peft.Open(path, "unet"); err == nil {
		return b, "unet", nil
	}
	return nil, "", err
}
