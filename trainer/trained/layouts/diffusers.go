package layouts

import "github.com/darkroom-rl/darkroom/kernels/nn/peft"

// Diffusers is the layout of the pipelines of diffusers.
var Diffusers = Layout{Name: "diffusers", Form: File, Help: "one file that load_lora_weights of a diffusers pipeline reads",
	Write: func(x *Export, a *peft.Adapter, out, component string) error {
		if x.speaks() {
			return refuse("--as diffusers: %s is a vision-language model, which no pipeline of diffusers loads\nhint: --as peft, or --as hub", x.Model)
		}
		return a.CopyDiffusers(out, component)
	}}

// LoRA is Diffusers by the name that most people give a file of an adapter.
var LoRA = Layout{Name: "lora", Form: File, Help: "the same: a LoRA in one file", Write: Diffusers.Write}
