package layouts

import (
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
)

// Kohya is the layout of kohya's scripts. A path of it is a layer of FLUX and of Stable Diffusion 3, so that the model
// says which network's names the file gets.
var Kohya = Layout{Name: "kohya", Form: File, Model: true, Help: "one file in the layout of kohya's scripts, which ComfyUI reads, for\nadapters of U-Nets and of FLUX",
	Write: func(x *Export, a *peft.Adapter, out, _ string) error {
		n, err := pipeline.KohyaOf(x.Model)
		if err != nil {
			return Refused{err}
		}
		if n == 0 {
			class, err := pipeline.ClassOf(x.Model)
			if err != nil {
				return Refused{err}
			}
			return refuse("--as kohya: diffusers reads this layout of U-Nets and of FLUX, not of a %s\nhint: --as diffusers is what ComfyUI reads for it", class)
		}
		return a.CopyKohya(out, n)
	}}
