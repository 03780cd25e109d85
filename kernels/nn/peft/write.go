package peft

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// The prefixes of tensors' names: PEFT's, and for diffusers the component's.
const peftPrefix = "base_model.model."

// fields are the settings as PEFT writes them, with those that its reader wants.
func fields(s Settings, targets []string) map[string]any {
	layers, parameters := []string{}, []string{}
	for _, m := range targets {
		switch {
		case !onExperts(m):
			layers = append(layers, m)
		case strings.HasSuffix(m, innerEnd):
			parameters = append(parameters, strings.TrimSuffix(m, innerEnd)+".gate_up_proj")
		default:
			parameters = append(parameters, m+".down_proj")
		}
	}
	all := map[string]any{"peft_type": "LORA", "r": s.Rank, "lora_alpha": s.Alpha, "lora_dropout": s.Dropout, "use_rslora": s.RSLoRA,
		"bias": "none", "target_modules": layers, "fan_in_fan_out": false, "inference_mode": true, "use_dora": false,
		"rank_pattern": s.RankPattern, "alpha_pattern": s.AlphaPattern, "modules_to_save": nil, "task_type": nil, "base_model_name_or_path": nil}
	if s.Base != "" {
		all["base_model_name_or_path"] = s.Base
	}
	if len(parameters) > 0 {
		all["target_parameters"] = parameters
	}
	return all
}

// Write writes a PEFT folder, each file whole or not at all.
func Write(dir string, set *nn.Adapters, s Settings) error {
	return write(dir, set.Tensors(peftPrefix), set.Modules(), s)
}

// Copy writes an open adapter as a PEFT folder. No model is needed; numbers stay as they
// are stored.
func (a *Adapter) Copy(dir string) error {
	tensors, s, err := a.whole(peftPrefix)
	if err != nil {
		return err
	}
	return write(dir, tensors, a.modules(), s)
}

// Over names the model that the adapter is of, in settings that are written.
func (a *Adapter) Over(base string) { a.settings.Base = base }

// CopyDiffusers writes an open adapter as one file that a pipeline of diffusers loads.
func (a *Adapter) CopyDiffusers(path, component string) error {
	tensors, s, err := a.whole(component + ".")
	if err != nil {
		return err
	}
	return writeDiffusers(path, tensors, a.modules(), s, component)
}

func write(dir string, tensors []safetensors.Tensor, modules []string, s Settings) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := safetensors.Write(filepath.Join(dir, "adapter_model.safetensors"), tensors, map[string]string{"format": "pt"}); err != nil {
		return err
	}
	text, err := json.MarshalIndent(fields(s, modules), "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "adapter_config.json")
	if err := os.WriteFile(path+".part", append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}

func writeDiffusers(path string, tensors []safetensors.Tensor, modules []string, s Settings, component string) error {
	named := map[string]any{}
	for key, v := range fields(s, modules) {
		named[component+"."+key] = v
	}
	text, err := json.Marshal(named)
	if err != nil {
		return err
	}
	return safetensors.Write(path, tensors, map[string]string{"format": "pt", "lora_adapter_metadata": string(text)})
}

// whole is an open adapter's pairs under another prefix, and settings that say every
// module's rank and alpha: those of most modules, and a pattern for each of the others.
func (a *Adapter) whole(prefix string) ([]safetensors.Tensor, Settings, error) {
	var tensors []safetensors.Tensor
	modules, counts, kinds := a.modules(), map[kind]int{}, map[string]kind{}
	for _, m := range modules {
		for _, end := range []string{".lora_A.weight", ".lora_B.weight"} {
			t, err := a.Tensor(m + end)
			if err != nil {
				return nil, Settings{}, err
			}
			t.Name = prefix + t.Name
			tensors = append(tensors, t)
		}
		k, err := a.kindOf(m)
		if err != nil {
			return nil, Settings{}, fmt.Errorf("%s: %w", a.path, err)
		}
		kinds[m] = k
		counts[k]++
	}
	most := kinds[modules[0]]
	for _, m := range modules {
		if counts[kinds[m]] > counts[most] {
			most = kinds[m]
		}
	}
	s := Settings{Rank: most.rank, Alpha: most.alpha, RSLoRA: a.settings.RSLoRA, Dropout: a.settings.Dropout, Base: a.settings.Base}
	for _, m := range modules {
		name := m
		if slices.ContainsFunc(modules, func(other string) bool { return strings.HasSuffix(other, "."+m) }) {
			name = "^" + m
		}
		if k := kinds[m]; k.rank != most.rank {
			s.RankPattern = append(s.RankPattern, Pattern{name, float64(k.rank)})
		}
		if k := kinds[m]; k.alpha != most.alpha {
			s.AlphaPattern = append(s.AlphaPattern, Pattern{name, k.alpha})
		}
	}
	return tensors, s, nil
}
