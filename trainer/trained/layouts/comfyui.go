package layouts

import (
	"strings"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
)

// ComfyUI is the layout that ComfyUI reads of a family: kohya's of U-Nets and of FLUX, the original network's names of
// Wan, diffusers' of Stable Diffusion 3 and of Qwen-Image.
var ComfyUI = Layout{Name: "comfyui", Form: File, Model: true, Help: "one file for ComfyUI's folder models/loras, in the layout that it\nreads of the model's family",
	Write: func(x *Export, a *peft.Adapter, out, component string) error {
		n, err := pipeline.KohyaOf(x.Model)
		if err != nil {
			return Refused{err}
		}
		if n != 0 {
			return a.CopyKohya(out, n)
		}
		class, err := pipeline.ClassOf(x.Model)
		switch {
		case err != nil:
			return Refused{err}
		case strings.HasPrefix(class, "Wan"):
			return a.CopyWan(out)
		case strings.HasPrefix(class, "StableDiffusion3"), strings.HasPrefix(class, "QwenImage"):
			return a.CopyDiffusers(out, component)
		}
		return refuse("--as comfyui: its layout of a %s is not known here\nhint: --as diffusers", class)
	}}
