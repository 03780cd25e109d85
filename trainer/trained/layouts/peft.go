package layouts

import "github.com/darkroom-rl/darkroom/kernels/nn/peft"

// PEFT is the layout of the library peft.
var PEFT = Layout{Name: "peft", Form: Folder, Help: "a folder with adapter_config.json and adapter_model.safetensors",
	Write: func(_ *Export, a *peft.Adapter, out, _ string) error { return a.Copy(out) }}
