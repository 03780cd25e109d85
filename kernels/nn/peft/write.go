package peft

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// fields are the settings as PEFT writes them, with those that its reader wants.
func fields(s Settings, targets []string) map[string]any {
	return map[string]any{"peft_type": "LORA", "r": s.Rank, "lora_alpha": s.Alpha, "lora_dropout": s.Dropout, "use_rslora": s.RSLoRA,
		"bias": "none", "target_modules": targets, "fan_in_fan_out": false, "inference_mode": true, "use_dora": false,
		"rank_pattern": map[string]int{}, "alpha_pattern": map[string]float64{}, "modules_to_save": nil, "task_type": nil, "base_model_name_or_path": nil}
}

// Write writes a PEFT folder, each file whole or not at all.
func Write(dir string, set *nn.Adapters, s Settings) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := safetensors.Write(filepath.Join(dir, "adapter_model.safetensors"), set.Tensors("base_model.model."), map[string]string{"format": "pt"}); err != nil {
		return err
	}
	text, err := json.MarshalIndent(fields(s, set.Modules()), "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "adapter_config.json")
	if err := os.WriteFile(path+".part", append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}

// WriteDiffusers writes one file that a pipeline of diffusers loads; component is the
// model's name in the pipeline.
func WriteDiffusers(path string, set *nn.Adapters, s Settings, component string) error {
	named := map[string]any{}
	for key, v := range fields(s, set.Modules()) {
		named[component+"."+key] = v
	}
	text, err := json.Marshal(named)
	if err != nil {
		return err
	}
	return safetensors.Write(path, set.Tensors(component+"."), map[string]string{"format": "pt", "lora_adapter_metadata": string(text)})
}
