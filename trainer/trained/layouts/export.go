package layouts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/nn/edition"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/trained"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// An Export is a layout, a model, and a target.
type Export struct {
	Layout    Layout
	Out       string
	Run       *trained.Run    // nil: Adapter by itself
	Weights   trained.Which   // of the run
	Adapter   string          // path of an adapter, where there is no run
	Model     string          // folder of the model; "": not known
	Component string          // of the model's pipeline; "": as the model or the adapter says
	Names     vlm.Names       // of a vision-language adapter's layers
	Wide      bool            // trained parameters are kept in fp32
	Backend   kernels.Backend // computes a whole model; nil: nothing is computed
	Dry       kernels.Backend // computes nothing
}

// Written lists an export's files.
type Written struct {
	Out     string
	Second  string    // place of the adapter of a second network; "": none
	Layers  int       // with an adapter
	Tensors int       // of the model itself
	Lost    peft.Lost // of the adapter, where the model's weights were compressed
}

// Refused is an error of the request: nothing was written.
type Refused struct{ Err error }

func (r Refused) Error() string { return r.Err.Error() }
func (r Refused) Unwrap() error { return r.Err }

func refuse(format string, args ...any) error { return Refused{fmt.Errorf(format, args...)} }

// Do writes the export. Of a run that trained parameters of the model itself, Layout.Values must hold.
func (x *Export) Do() (w Written, err error) {
	w.Out = x.Out
	if x.Run != nil && !x.Run.Adapted() {
		err = x.values(&w)
	} else {
		err = x.adapter(&w)
	}
	if err == nil {
		err = x.card(w)
	}
	return w, err
}

// values writes a model with other parameters.
func (x *Export) values(w *Written) (err error) {
	v, err := x.Run.Values(x.Weights, x.Dry, tensor.NewPool(x.Backend))
	if err != nil {
		return Refused{err}
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	w.Tensors = v.Len()
	changes := make([]edition.Change, 2)
	for _, n := range v.Networks {
		changes[n.Number] = edition.Values{Source: n, Wide: x.Wide}
	}
	return x.changed(changes...)
}

// adapter writes an adapter, or a model with it folded in.
func (x *Export) adapter(w *Written) (err error) {
	path := x.Adapter
	if x.Run != nil {
		if path, err = x.Run.Adapter(x.Weights); err != nil {
			return Refused{err}
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
		if w.Layers += len(a.Modules()); x.speaks() && x.Layout.Form != Whole {
			a.Rename(x.Names.Of)
		}
		a.Over(x.base())
	}
	if x.Layout.Form == Whole {
		return x.fold(adapters, &w.Lost)
	}
	switch {
	case adapters[0] == nil:
		w.Out = x.Layout.Second(x.Out)
	case adapters[1] != nil:
		w.Second = x.Layout.Second(x.Out)
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

// none deletes written files, so that no half of a pair looks whole. Nothing of it was there before (check).
func (x *Export) none() error {
	return errors.Join(os.RemoveAll(x.Out), os.RemoveAll(x.Layout.Second(x.Out)))
}

// one writes the adapter of a network.
func (x *Export) one(a *peft.Adapter, number int, component string) error {
	out := x.Out
	if number > 0 {
		out = x.Layout.Second(x.Out)
	}
	return x.Layout.Write(x, a, out, component)
}

// fold writes a model with adapters folded in.
func (x *Export) fold(adapters map[int]*peft.Adapter, lost *peft.Lost) error {
	if x.speaks() {
		set, err := safetensors.OpenFolder(x.Model)
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
		changes[number] = peft.Fold{Adapter: a, Pool: tensor.NewPool(x.Backend), Lost: lost}
	}
	return x.changed(changes...)
}

// changed writes a copy of the model's folder, with a change for each of its networks.
func (x *Export) changed(changes ...edition.Change) error {
	if !x.speaks() {
		return pipeline.Changed(x.Model, x.Out, changes...)
	}
	return edition.Make(x.Model, x.Out, func(to edition.Copy) error { return to.Changed(".", changes[0]) })
}

// speaks reports whether the model is a vision-language model, and no pipeline.
func (x *Export) speaks() bool {
	if x.Model == "" {
		return false
	}
	_, pipeline := os.Stat(filepath.Join(x.Model, "model_index.json"))
	_, config := os.Stat(filepath.Join(x.Model, "config.json"))
	return errors.Is(pipeline, fs.ErrNotExist) && config == nil
}

// open opens the adapters of a path, by the number of the network that each is of: where two networks take turns, that
// of the second lies in a folder below.
func (x *Export) open(path string) (all map[int]*peft.Adapter, component string, err error) {
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
func (x *Export) openOne(path string) (*peft.Adapter, string, error) {
	component := x.Component
	if component == "" && x.Model != "" && !x.speaks() {
		var err error
		if component, err = pipeline.ComponentOf(x.Model); err != nil {
			return nil, "", Refused{err}
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
