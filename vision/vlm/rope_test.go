package vlm

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/golden"
)

// TestRope: frequencies have the bits of transformers 5.24's Qwen3 in every form of the file, plain, "linear" and
// "yarn"; PyTorch's fp32 power is one unit off in at most one of a list.
func TestRope(t *testing.T) {
	data, err := os.ReadFile("testdata/rope.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name      string         `json:"name"`
		HeadDim   int            `json:"head_dim"`
		Config    map[string]any `json:"config"`
		Frequency []uint32       `json:"inv_freq_bits"`
		Scale     uint32         `json:"scale_bits"`
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		dir := t.TempDir()
		said := map[string]any{"model_type": "qwen3", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1,
			"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": c.HeadDim, "max_position_embeddings": 4096}
		for key, v := range c.Config {
			said[key] = v
		}
		put(t, dir, "config.json", said)
		config, err := ReadReaderConfig(dir)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		f, scale := config.Text.frequencies()
		if len(f) != len(c.Frequency) || math.Float32bits(scale) != c.Scale {
			t.Errorf("%s: %d frequencies, scale %v; recorded are %d, scale %v", c.Name, len(f), scale, len(c.Frequency), math.Float32frombits(c.Scale))
			continue
		}
		off := 0
		for i, bits := range c.Frequency {
			switch apart := int64(math.Float32bits(f[i])) - int64(bits); apart {
			case 0:
			case 1, -1:
				off++
			default:
				t.Errorf("%s: frequency %d is %v, recorded %v", c.Name, i, f[i], math.Float32frombits(bits))
			}
		}
		if off > 1 {
			t.Errorf("%s: %d of %d frequencies are a unit off", c.Name, off, len(f))
		}
	}
}

// TestRopeForms: a model with eyes reads the same settings in both forms of the file.
func TestRopeForms(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(golden.Folder("vlm/models"), "qwen3_vl_multiturn", "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	stretched := func(key string) Config {
		var m map[string]any
		if err := json.Unmarshal(data, &m); err != nil {
			t.Fatal(err)
		}
		text := m["text_config"].(map[string]any)
		form := text["rope_parameters"].(map[string]any)
		theta := form["rope_theta"]
		delete(text, "rope_parameters")
		delete(form, "rope_theta")
		form["rope_type"], form["factor"], form["original_max_position_embeddings"] = "yarn", 4.0, 128
		text[key] = form
		if key == "rope_parameters" {
			form["rope_theta"] = theta
		} else {
			text["rope_theta"] = theta
		}
		changed, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		c, err := readConfig(key, changed)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	today, todayScale := stretched("rope_parameters").Text.frequencies()
	old, oldScale := stretched("rope_scaling").Text.frequencies()
	plain, _ := recorded(t, "vlm/models/qwen3_vl_multiturn/config.json").Text.frequencies()
	if todayScale != oldScale || todayScale <= 1 {
		t.Errorf("cosines are multiplied by %v and %v", todayScale, oldScale)
	}
	slower := false
	for i := range today {
		if today[i] != old[i] {
			t.Errorf("frequency %d is %v in rope_parameters and %v in rope_scaling", i, today[i], old[i])
		}
		slower = slower || today[i] < plain[i]
	}
	if !slower {
		t.Errorf("yarn left the frequencies %v as they were", plain)
	}
}
