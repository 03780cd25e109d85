package clip

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/golden"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/features"
)

var recorded = golden.Folder("rewards") + "/"

func device(t *testing.T, p features.Precision) *features.Device {
	t.Helper()
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(be.Close)
	return features.On(tensor.NewPool(be), p)
}

// picture is a recorded one, of about 40 x 40.
func picture(t *testing.T, name string) *vision.Image {
	t.Helper()
	m, err := vision.Open(recorded+"neural/"+name, vision.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestNames: at full size, the layouts ask for the published networks' tensors, and no others.
func TestNames(t *testing.T) {
	raw, err := os.ReadFile(recorded + "names.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Models map[string]map[string]struct {
			Shape []int
			Count int
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	vitL := `{"model_type":"clip","projection_dim":768,"text_config":{"hidden_size":768,"intermediate_size":3072,"num_attention_heads":12,"num_hidden_layers":12},
		"vision_config":{"hidden_size":1024,"intermediate_size":4096,"num_attention_heads":16,"num_hidden_layers":24,"patch_size":14,"image_size":224}}`
	vitH := `{"architectures":["CLIPModel"],"projection_dim":1024,"text_config":{"hidden_act":"gelu","hidden_size":1024,"intermediate_size":4096,"num_attention_heads":16,"num_hidden_layers":24},
		"vision_config":{"hidden_act":"gelu","hidden_size":1280,"intermediate_size":5120,"num_attention_heads":16,"num_hidden_layers":32,"patch_size":14,"image_size":224}}`
	open := `{"model_cfg":{"embed_dim":1024,"vision_cfg":{"image_size":224,"layers":32,"width":1280,"head_width":80,"patch_size":14},
		"text_cfg":{"context_length":77,"vocab_size":49408,"width":1024,"heads":16,"layers":24}}}`
	for name, c := range map[string]struct {
		file, settings string
		read           func(dir string) (Config, error)
		build          builder
	}{
		"clip_vit_l14_transformers":           {"config.json", vitL, ReadConfig, newModel},
		"pickscore_clip_vit_h14_transformers": {"config.json", vitH, ReadConfig, newModel},
		"hpsv2_open_clip_vit_h14":             {"open_clip_config.json", open, ReadOpenConfig, newOpen},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.settings), 0o644); err != nil {
			t.Fatal(err)
		}
		config, err := c.read(dir)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		p, err := nn.New(nn.Options{Source: nothing{}})
		if err != nil {
			t.Fatal(err)
		}
		c.build(p, config, true)
		got := map[string][]int{}
		counts := map[string]int{}
		for asked, shape := range p.Requested() {
			pattern := layerNumber(asked)
			counts[pattern]++
			got[pattern] = shape
		}
		want := file.Models[name]
		for pattern, w := range want {
			if !slices.Equal(got[pattern], w.Shape) || counts[pattern] != w.Count {
				t.Errorf("%s: %s: asked %d times for %v, published are %d of %v", name, pattern, counts[pattern], got[pattern], w.Count, w.Shape)
			}
		}
		if len(got) != len(want) || len(want) < 30 {
			t.Errorf("%s: %d names, published are %d", name, len(got), len(want))
		}
	}
}

// nothing is a source without tensors.
type nothing struct{}

func (nothing) Names() []string { return nil }
func (nothing) Tensor(string) (safetensors.Tensor, error) {
	return safetensors.Tensor{}, os.ErrNotExist
}

func layerNumber(name string) string {
	parts := strings.Split(name, ".")
	for i, p := range parts {
		if i > 0 && (parts[i-1] == "layers" || parts[i-1] == "resblocks") && strings.Trim(p, "0123456789") == "" {
			parts[i] = "{i}"
		}
	}
	return strings.Join(parts, ".")
}

// TestBatch: neither its batch nor other calls change a bit of a vector, in the forward pass alone or with the way
// back.
func TestBatch(t *testing.T) {
	for _, dir := range []string{"clip_laion", "hpsv2"} {
		for _, p := range []features.Precision{features.F32, features.BF16} {
			d, ctx := device(t, p), context.Background()
			pictures := []*vision.Image{picture(t, dir+"/image_0.png"), picture(t, dir+"/image_1.png"), picture(t, dir+"/image_2.png")}
			texts := []string{"a photo of a red cup", "a cat", "a photo of a red cup", "the dog and the cup"}
			var first, firstTexts [][]float64
			for _, batch := range []int{1, 2, 3} {
				m, err := Open(recorded+"neural/"+dir, Options{Device: d, Batch: batch})
				if err != nil {
					t.Fatal(err)
				}
				x, err := m.Images(ctx, pictures)
				if err != nil {
					t.Fatal(err)
				}
				y, err := m.Texts(ctx, texts)
				if err != nil {
					t.Fatal(err)
				}
				if first == nil {
					first, firstTexts = x, y
				}
				if !reflect.DeepEqual(x, first) || !reflect.DeepEqual(y, firstTexts) || !reflect.DeepEqual(y[0], y[2]) {
					t.Errorf("%s: batches of %d differ", dir, batch)
				}
				var seen [][]float64
				prepared, err := m.Prepare.Apply(nil, pictures[0], vision.ChannelsLast)
				if err != nil {
					t.Fatal(err)
				}
				g, err := m.Pull(ctx, [][]float32{prepared}, func(_ int, v [][]float64) ([][]float64, error) {
					seen = v
					return v, nil
				})
				if err != nil || !reflect.DeepEqual(seen[0], first[0]) || len(g[0]) != len(prepared) {
					t.Errorf("%s: the way back begins elsewhere: %v", dir, err)
				}
				m.Close()
			}
		}
	}
}

// TestNoTexts: towers for pictures alone give the same vectors, and say why they have no texts.
func TestNoTexts(t *testing.T) {
	for _, dir := range []string{"clip_laion", "hpsv2"} {
		d, ctx := device(t, features.F32), context.Background()
		pictures := []*vision.Image{picture(t, dir+"/image_0.png")}
		var all [][][]float64
		for _, no := range []bool{false, true} {
			m, err := Open(recorded+"neural/"+dir, Options{Device: d, NoTexts: no})
			if err != nil {
				t.Fatal(err)
			}
			x, err := m.Images(ctx, pictures)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, x)
			if _, err := m.Texts(ctx, []string{"a"}); (err != nil) != no {
				t.Errorf("texts: %v", err)
			}
			if _, err := m.Images(ctx, []*vision.Image{nil}); err == nil {
				t.Error("no picture has a vector")
			}
			m.Close()
		}
		if !reflect.DeepEqual(all[0], all[1]) {
			t.Errorf("%s: the towers differ", dir)
		}
	}
}

// TestUnread: an unread end is reported, and nothing else.
func TestUnread(t *testing.T) {
	m, err := Open(recorded+"neural/clip_laion", Options{Device: device(t, features.F32)})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	long := strings.Repeat("the red cup and ", 20)
	if got := m.Unread("a red cup"); got != "" {
		t.Errorf("unread of a short text: %q", got)
	}
	ids, unread, err := m.IDs(long)
	if err != nil {
		t.Fatal(err)
	}
	if len(ids) != 77 || unread == "" || !strings.HasSuffix(strings.TrimSpace(long), unread) {
		t.Errorf("%d tokens, unread %q", len(ids), unread)
	}
}

// TestBF16: the towers in bf16 are near those in fp32: no cosine is off by more than 0.02.
func TestBF16(t *testing.T) {
	ctx := context.Background()
	var cosines [2][]float64
	for i, p := range []features.Precision{features.F32, features.BF16} {
		m, err := Open(recorded+"neural/clip_laion", Options{Device: device(t, p)})
		if err != nil {
			t.Fatal(err)
		}
		x, err := m.Images(ctx, []*vision.Image{picture(t, "clip_laion/image_0.png"), picture(t, "clip_laion/image_1.png")})
		if err != nil {
			t.Fatal(err)
		}
		y, err := m.Texts(ctx, []string{"a red cup", "the cat"})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range Similarity(x, y, 0).Logits {
			cosines[i] = append(cosines[i], row...)
		}
		m.Close()
	}
	for i, c := range cosines[0] {
		if math.Abs(c-cosines[1][i]) > 0.02 || c == cosines[1][i] {
			t.Errorf("cosine %d: %v in fp32, %v in bf16", i, c, cosines[1][i])
		}
	}
}
