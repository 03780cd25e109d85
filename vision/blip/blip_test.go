package blip

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/features"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
)

// testdata/make.py made the folder, and had transformers judge.
const tiny = "testdata/tiny"

func device(t *testing.T) *features.Device {
	t.Helper()
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(be.Close)
	return features.On(tensor.NewPool(be), features.F32)
}

func open(t *testing.T, batch int) *Model {
	t.Helper()
	m, err := Open(tiny, Options{Device: device(t), Batch: batch})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// answers are transformers' results.
type answers struct {
	Prompts       []string
	Rewards       []float64
	inputs, grads [][]float32
	pictures      []*vision.Image
}

func recorded(t *testing.T) (a answers) {
	t.Helper()
	text, err := os.ReadFile("testdata/tiny_answers.json")
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open("testdata/tiny_answers.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, into := range map[string]*[][]float32{"inputs": &a.inputs, "grads": &a.grads} {
		x, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		all := make([]float32, len(x.Data)/4)
		for i := range all {
			all[i] = math.Float32frombits(binary.LittleEndian.Uint32(x.Data[4*i:]))
		}
		for n := len(all) / x.Shape[0]; len(all) > 0; all = all[n:] {
			*into = append(*into, all[:n])
		}
	}
	for i := range a.Prompts {
		m, err := vision.Open(fmt.Sprintf("%s/image_%d.png", tiny, i), vision.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		a.pictures = append(a.pictures, m)
	}
	return a
}

func TestRewardsAreTransformers(t *testing.T) {
	a, m := recorded(t), open(t, 3)
	for name, ask := range map[string]func() ([]float64, error){
		"pictures": func() ([]float64, error) { return m.Rewards(t.Context(), a.Prompts, a.pictures) },
		"prepared": func() ([]float64, error) { return m.Prepared(t.Context(), a.Prompts, a.inputs) },
	} {
		got, err := ask()
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range a.Rewards {
			if math.Abs(got[i]-want) > 2e-6 {
				t.Errorf("%s: reward %d is %.8f, transformers says %.8f", name, i, got[i], want)
			}
		}
	}
	rewards, grads, err := m.PreparedGradient(t.Context(), a.Prompts, a.inputs)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range a.grads {
		off, length := 0.0, 0.0
		for k, v := range want {
			off += math.Pow(float64(grads[i][k]-v), 2)
			length += float64(v) * float64(v)
		}
		if off := math.Sqrt(off / length); off > 1e-5 {
			t.Errorf("gradient %d is %.2g of its length away", i, off)
		}
		if math.Abs(rewards[i]-a.Rewards[i]) > 2e-6 {
			t.Errorf("reward %d with its gradient is %.8f", i, rewards[i])
		}
	}
}

// Neither the rest of a batch nor a text's length changes a bit.
func TestBatch(t *testing.T) {
	a := recorded(t)
	var first []float64
	for _, batch := range []int{1, 2, 4} {
		got, err := open(t, batch).Rewards(t.Context(), a.Prompts, a.pictures)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = got
		}
		if !reflect.DeepEqual(got, first) {
			t.Errorf("batches of %d: %v, %v", batch, got, first)
		}
	}
}

// Numbers of a picture change its reward as the gradient says.
func TestPixelGradient(t *testing.T) {
	m := open(t, 1)
	px := vision.Pixels{Width: 26, Height: 24, RGB: make([]float32, 26*24*3)}
	for i := range px.RGB {
		px.RGB[i] = float32(0.5 + 0.4*math.Sin(float64(i)))
	}
	prompts := []string{"a red circle"}
	_, grads, err := m.Gradient(t.Context(), prompts, []vision.Pixels{px})
	if err != nil {
		t.Fatal(err)
	}
	const h = 5e-4
	want := 0.0
	var around [2]float64
	for side, step := range []float64{-h, h} {
		other := px
		other.RGB = slices.Clone(px.RGB)
		want = 0
		for i, g := range grads[0] {
			d := math.Cos(float64(3 * i))
			other.RGB[i] += float32(step * d)
			want += float64(g) * d
		}
		moved, _, err := m.Gradient(t.Context(), prompts, []vision.Pixels{other})
		if err != nil {
			t.Fatal(err)
		}
		around[side] = moved[0]
	}
	if slope := (around[1] - around[0]) / (2 * h); math.Abs(slope-want) > 0.01*math.Abs(want) {
		t.Errorf("the reward rises by %v, the gradient says %v", slope, want)
	}
}

// The tokenizer is that of the hub, by either file.
func TestTokens(t *testing.T) {
	var cases []struct {
		Text       string
		IDs, Fixed []int32
	}
	text, err := os.ReadFile(tiny + "/texts.json")
	if err == nil {
		err = json.Unmarshal(text, &cases)
	}
	if err != nil || len(cases) < 10 {
		t.Fatal(len(cases), err)
	}
	old := t.TempDir()
	vocabulary, err := os.ReadFile(tiny + "/vocab.txt")
	if err == nil {
		err = os.WriteFile(filepath.Join(old, "vocab.txt"), vocabulary, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{tiny, old} {
		k, err := tokenizer.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			if got, err := k.Encode(c.Text); err != nil || !slices.Equal(got.IDs, c.IDs) {
				t.Errorf("%s: %q is %v, want %v", dir, c.Text, got.IDs, c.IDs)
			}
			if got, _, err := k.Fixed(c.Text, 12, 0); err != nil || !slices.Equal(got, c.Fixed) {
				t.Errorf("%s: %q in 12 is %v, want %v", dir, c.Text, got, c.Fixed)
			}
		}
	}
	m := open(t, 1)
	if got := m.Unread(strings.Repeat("a red ", 20)); got != "red a red a red a red" {
		t.Errorf("unread: %q", got)
	}
}

// A folder that is spoilt in one place is an error that names the place.
func TestHostileFolders(t *testing.T) {
	setting := func(key string, v any) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, Settings)
			var doc map[string]any
			text, err := os.ReadFile(path)
			if err == nil {
				err = json.Unmarshal(text, &doc)
			}
			if err != nil {
				t.Fatal(err)
			}
			doc[key] = v
			if text, err = json.Marshal(doc); err == nil {
				err = os.WriteFile(path, text, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	weights := func(change func(s *safetensors.Tensor) bool) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, "model.safetensors")
			f, err := safetensors.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			var list []safetensors.Tensor
			for _, name := range f.Names() {
				s, err := f.Tensor(name)
				if err != nil {
					t.Fatal(err)
				}
				s.Name, s.Data = name, slices.Clone(s.Data)
				if change(&s) {
					list = append(list, s)
				}
			}
			f.Close()
			if err := safetensors.Write(path, list, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	drop := func(name string) func(t *testing.T, dir string) {
		return weights(func(s *safetensors.Tensor) bool { return s.Name != name })
	}
	remove := func(names ...string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			for _, name := range names {
				if err := os.Remove(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		says  string
	}{
		"as it is":        {func(*testing.T, string) {}, ""},
		"no settings":     {remove(Settings), Settings},
		"no weights":      {remove("model.safetensors"), "save the published ImageReward.pt"},
		"no tokenizer":    {remove("tokenizer.json", "vocab.txt"), "it is that of bert-base-uncased"},
		"old tokenizer":   {remove("tokenizer.json"), ""},
		"other weights":   {drop("blip.visual_encoder.pos_embed"), "these are not the weights of ImageReward"},
		"missing layer":   {drop("blip.text_encoder.encoder.layer.1.crossattention.self.key.weight"), "crossattention.self.key.weight: missing"},
		"missing head":    {drop("mlp.layers.7.weight"), "does not end in one number"},
		"missing norm":    {drop("blip.visual_encoder.blocks.1.norm1.weight"), "blip.visual_encoder.blocks.1"},
		"few words":       {setting("vocab_size", 20), "belongs to another network"},
		"absurd layers":   {setting("num_hidden_layers", 1<<40), `"num_hidden_layers"`},
		"odd heads":       {setting("num_attention_heads", 5), "not a multiple of num_attention_heads 5"},
		"odd vision":      {setting("vision_attention_heads", 5), "not a multiple of 5 heads"},
		"few places":      {setting("max_position_embeddings", 8), `"max_position_embeddings" is 8`},
		"activation":      {setting("hidden_act", "relu"), `"hidden_act" is "relu"`},
		"text for number": {setting("hidden_size", "large"), "hidden_size"},
		"flat positions": {weights(func(s *safetensors.Tensor) bool {
			if s.Name == "blip.visual_encoder.pos_embed" {
				s.Shape = s.Shape[1:]
			}
			return true
		}), "pos_embed has the shape"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(tiny)); err != nil {
				t.Fatal(err)
			}
			c.spoil(t, dir)
			m, err := Open(dir, Options{Device: device(t)})
			if err == nil {
				_, err = m.Rewards(context.Background(), []string{"a"}, []*vision.Image{vision.New(20, 30)})
				m.Close()
			}
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v; %q was expected", err, c.says)
			}
		})
	}
}
