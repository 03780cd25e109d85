package vlm

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/golden"
)

// TestLayouts: the flat settings of published checkpoints equal the nested ones.
func TestLayouts(t *testing.T) {
	for _, pair := range [][2]string{
		{"vlm/models/qwen2_vl_greedy/config.json", "vlm/models/qwen2_vl_greedy/config.hub.json"},
		{"vlm/models/qwen2_5_vl_greedy/config.json", "vlm/models/qwen2_5_vl_greedy/config.hub.json"},
		{"vlm/models/qwen3_vl_multiturn/config.json", "vlm/models/qwen3_vl_multiturn/config.hub.json"},
		{"models/qwen25_text/config.json", "models/qwen25_text/config_v5.json"},
	} {
		a, b := recorded(t, pair[0]), recorded(t, pair[1])
		for _, c := range []*Config{&a, &b} { // the form that was written
			c.Text.Scaling, c.Text.Parameters, c.Text.Bias = nil, nil, nil
		}
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s says\n%+v,\n%s\n%+v", pair[0], a, pair[1], b)
		}
	}
}

func recorded(t *testing.T, file string) Config {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(golden.Folder(path.Dir(path.Dir(file))), path.Base(path.Dir(file)), path.Base(file)))
	if err != nil {
		t.Fatal(err)
	}
	c, err := readConfig(file, data)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestAbsurdSettings: every setting takes absurd values in turn. Accepted settings are sound enough to ask for
// parameters; the others are refused by name.
func TestAbsurdSettings(t *testing.T) {
	for _, name := range []string{"qwen2_vl_greedy", "qwen2_5_vl_greedy", "qwen3_vl_multiturn"} {
		for _, file := range []string{"config.json", "config.hub.json"} {
			data, err := os.ReadFile(filepath.Join(golden.Folder("vlm/models"), name, file))
			if err != nil {
				t.Fatal(err)
			}
			refused, accepted := 0, 0
			for _, absurd := range []any{-1, 0, 3, 1 << 40, 1e300, -0.5, "many", true, nil, []any{}, []any{1, -5, 1 << 40}, []any{7}, map[string]any{}} {
				mutate(t, data, absurd, func(text []byte, key string) {
					c, err := readConfig("config.json", text)
					if err != nil {
						if refused++; !strings.Contains(err.Error(), "config.json") {
							t.Errorf("%s = %v: %v", key, absurd, err)
						}
						return
					}
					accepted++
					if len(c.Text.axes()) != c.Text.HeadDim/2 || c.Vision.patchWidth() < 1 {
						t.Errorf("%s = %v was accepted", key, absurd)
					}
				})
			}
			if refused < 200 || accepted < 100 {
				t.Errorf("%s/%s: %d refused, %d accepted", name, file, refused, accepted)
			}
		}
	}
}

// mutate replaces each value of an object, at any depth, in turn.
func mutate(t *testing.T, data []byte, by any, f func(text []byte, key string)) {
	t.Helper()
	var root map[string]any
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	var walk func(o map[string]any, prefix string)
	walk = func(o map[string]any, prefix string) {
		for key, old := range o {
			o[key] = by
			text, err := json.Marshal(root)
			if err != nil {
				t.Fatal(err)
			}
			f(text, prefix+key)
			o[key] = old
			if inner, ok := old.(map[string]any); ok {
				walk(inner, prefix+key+".")
			}
		}
	}
	walk(root, "")
}

// FuzzConfig: no config.json makes reading it panic.
func FuzzConfig(f *testing.F) {
	for _, name := range []string{"qwen2_vl_greedy", "qwen2_5_vl_greedy", "qwen3_vl_multiturn"} {
		data, err := os.ReadFile(filepath.Join(golden.Folder("vlm/models"), name, "config.json"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := readConfig("config.json", data); err == nil && len(c.Text.axes()) != c.Text.HeadDim/2 {
			t.Errorf("heads of %d have %d pairs", c.Text.HeadDim, len(c.Text.axes()))
		}
	})
}
