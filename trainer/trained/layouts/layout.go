// Package layouts writes a run's trained weights for other programs: adapters, and whole folders of models.
//
// A layout is one value, and All lists them; those with code of their own have a file. Start with Export in export.go.
package layouts

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// A Form is the content of a layout.
type Form string

const (
	Folder Form = "folder" // of an adapter
	File   Form = "file"   // of an adapter
	Whole  Form = "whole"  // a copy of the model's folder
)

// A Layout is how an adapter or a model is written for another program.
type Layout struct {
	Name   string
	Help   string // a sentence, in lines of at most 72 characters
	Form   Form
	Model  bool // whether the model's folder is read
	Values bool // whether parameters of the model itself can be written

	// Write writes the adapter of a network as the component of a pipeline; nil where the form is Whole.
	Write func(x *Export, a *peft.Adapter, out, component string) error
}

// PEFT is the layout of the library peft.
var PEFT = Layout{Name: "peft", Form: Folder, Help: "a folder with adapter_config.json and adapter_model.safetensors",
	Write: func(_ *Export, a *peft.Adapter, out, _ string) error { return a.Copy(out) }}

// Hub is a copy of the model's folder with its trained weights.
var Hub = Layout{Name: "hub", Form: Whole, Model: true, Values: true, Help: "a copy of the model's folder with what was trained in it, which\n" +
	"diffusers or transformers load: parameters of the model itself, or\n" +
	"an adapter folded in (W + scale x B A, in fp32). Weights keep their\n" +
	"names, files and types; --dtype f32 keeps trained ones in fp32"}

// Merged is Hub of adapters.
var Merged = Layout{Name: "merged", Form: Whole, Model: true, Help: "the same, of adapters"}

// All lists the layouts in the order of help.
func All() []Layout { return []Layout{PEFT, Diffusers, LoRA, Kohya, ComfyUI, Hub, Merged} }

// Named finds a layout.
func Named(name string) (Layout, bool) {
	all := All()
	i := slices.IndexFunc(all, func(l Layout) bool { return l.Name == name })
	if i < 0 {
		return Layout{}, false
	}
	return all[i], true
}

// Names lists the names of layouts: those of adapters alone, then those of parameters, too.
func Names() []string {
	all := All()
	slices.SortStableFunc(all, func(a, b Layout) int { return rank(a.Values) - rank(b.Values) })
	return names(all, func(Layout) bool { return true })
}

// Those lists the names of layouts with a property, whole folders first, as "a, b and c".
func Those(word string, has func(Layout) bool) string {
	all := All()
	slices.SortStableFunc(all, func(a, b Layout) int { return rank(a.Values) - rank(b.Values) })
	slices.SortStableFunc(all, func(a, b Layout) int { return rank(b.Form == Whole) - rank(a.Form == Whole) })
	found := names(all, has)
	if len(found) < 2 {
		return strings.Join(found, "")
	}
	last := len(found) - 1
	return strings.Join(found[:last], ", ") + " " + word + " " + found[last]
}

func names(all []Layout, has func(Layout) bool) (found []string) {
	for _, l := range all {
		if has(l) {
			found = append(found, l.Name)
		}
	}
	return found
}

func rank(last bool) int {
	if last {
		return 1
	}
	return 0
}

// Help describes all layouts, for --help.
func Help() string {
	var b strings.Builder
	for _, l := range All() {
		fmt.Fprintf(&b, "  --as %-11s%s\n", l.Name, strings.ReplaceAll(l.Help, "\n", "\n"+strings.Repeat(" ", 18)))
	}
	return b.String()
}

// Second is the place of the adapter of a second network.
func (l Layout) Second(out string) string {
	if l.Form == Folder {
		return filepath.Join(out, model.Second)
	}
	return peft.Second(out, model.Second)
}
