package single_test

import (
	"compress/gzip"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/golden"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/diffusion/single"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

var models = golden.Folder("models") + "/"

// checkpoint puts a small folder's weights into one file of recorded names.
func checkpoint(t *testing.T, kind, folder string) string {
	t.Helper()
	packed, err := os.Open("testdata/converted.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	text, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Kinds map[string]struct {
			Layers int              `json:"layers_per_block"`
			File   map[string][]int `json:"file"`
		} `json:"kinds"`
	}
	if err := json.NewDecoder(text).Decode(&r); err != nil {
		t.Fatal(err)
	}
	file := map[string]safetensors.Tensor{}
	for name, shape := range r.Kinds[kind].File {
		n := 1
		for _, d := range shape {
			n *= d
		}
		file[name] = safetensors.FromF32(name, shape, make([]float32, n))
	}
	path := filepath.Join(t.TempDir(), kind+".safetensors")
	write := func() {
		var all []safetensors.Tensor
		for _, name := range slices.Sorted(maps.Keys(file)) {
			all = append(all, file[name])
		}
		if err := safetensors.Write(path, all, nil); err != nil {
			t.Fatal(err)
		}
	}
	write()
	f, err := single.Open(path, single.Settings{LayersPerBlock: r.Kinds[kind].Layers})
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range f.Parts() {
		fill(t, file, f.Joins(part), filepath.Join(folder, part))
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write()
	return path
}

// fill puts a part's numbers where the file has them.
func fill(t *testing.T, file map[string]safetensors.Tensor, joins map[string]single.Joined, dir string) {
	t.Helper()
	set, err := safetensors.OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	for name, at := range joins {
		stored := name
		if _, ok := set.Info(name); !ok { // transformers 5 leaves this out
			stored = strings.TrimPrefix(name, "text_model.")
		}
		src, err := set.Tensor(stored)
		if err != nil {
			if strings.HasSuffix(name, "position_ids") {
				continue
			}
			t.Fatal(err)
		}
		data := file[at.From].Data
		if at.Rows[1] > 0 {
			row := len(data) / file[at.From].Shape[0]
			data = data[at.Rows[0]*row : at.Rows[1]*row]
		}
		switch {
		case at.Swap:
			copy(data[copy(data, src.Data[len(src.Data)/2:]):], src.Data[:len(src.Data)/2])
		case at.Turned:
			for r := range src.Shape[0] {
				for c := range src.Shape[1] {
					copy(data[4*(c*src.Shape[0]+r):][:4], src.Data[4*(r*src.Shape[1]+c):])
				}
			}
		default:
			copy(data, src.Data)
		}
	}
}

// TestPipeline: one file and a folder of settings are the pipeline that the folder with its weights is: the same
// texts, parameters and pixels. Weights that the file lacks are read in the folder.
func TestPipeline(t *testing.T) {
	for kind, absent := range map[string][]string{"sd15": {"unet", "vae", "text_encoder"}, "sdxl": {"unet", "vae", "text_encoder", "text_encoder_2"}, "flux": {"transformer"}} {
		whole := models + "pipe_" + kind
		path := checkpoint(t, kind, whole)
		base := filepath.Join(t.TempDir(), "base")
		if err := os.CopyFS(base, os.DirFS(whole)); err != nil {
			t.Fatal(err)
		}
		for _, part := range absent {
			weights, err := filepath.Glob(filepath.Join(base, part, "*.safetensors"))
			if err != nil || len(weights) == 0 {
				t.Fatal(weights, err)
			}
			for _, name := range weights {
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
		}
		a, b := opened(t, whole, ""), opened(t, path, base)
		if b.Dir() != path || b.Class() != a.Class() || b.EncoderBytes() == 0 {
			t.Errorf("%s is a %s of %d bytes", b.Dir(), b.Class(), b.EncoderBytes())
		}
		same(t, kind, a, b)
	}
}

func opened(t *testing.T, path, base string) *pipeline.Pipeline {
	t.Helper()
	p, err := pipeline.Open(path, pipeline.Options{Pool: tensor.NewPool(ref.Backend{}), Base: base, Train: []string{".*"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func same(t *testing.T, kind string, a, b *pipeline.Pipeline) {
	t.Helper()
	told := [2]*pipeline.Text{}
	numbers := [2][]safetensors.Tensor{}
	pixels := [2][]float32{}
	for i, p := range []*pipeline.Pipeline{a, b} {
		texts, err := p.Encode("a red circle")
		if err != nil {
			t.Fatal(err)
		}
		params, err := p.Denoiser()
		if err != nil {
			t.Fatal(err)
		}
		at, err := p.Shape(32, 32)
		if err != nil {
			t.Fatal(err)
		}
		latents := make([]float64, at.Len())
		for j := range latents {
			latents[j] = float64(j%7) - 3
		}
		if pixels[i], err = p.Decode(latents, at); err != nil {
			t.Fatal(err)
		}
		told[i], numbers[i] = texts[0], params.Tensors()
	}
	if !slices.Equal(told[0].States, told[1].States) || !slices.Equal(told[0].Pooled, told[1].Pooled) {
		t.Errorf("%s: texts differ", kind)
	}
	if !slices.Equal(pixels[0], pixels[1]) {
		t.Errorf("%s: pixels differ", kind)
	}
	for i, x := range numbers[0] {
		if y := numbers[1][i]; x.Name != y.Name || !slices.Equal(x.Data, y.Data) {
			t.Fatalf("%s: %s differs from %s", kind, x.Name, y.Name)
		}
	}
}

// TestBase: the error names the missing part, with its remedy.
func TestBase(t *testing.T) {
	path := checkpoint(t, "flux", models+"pipe_flux")
	for _, c := range []struct{ path, base, want string }{
		{path, "", "neither settings nor tokenizers\nhint: model.base"},
		{path, models + "pipe_sd15", "is FLUX, and the folder"},
		{models + "pipe_sd15", models + "pipe_sd15", "is no .safetensors file"},
		{path, models, "there is no model_index.json"},
		{filepath.Join(models, "pipe_sd15/unet/diffusion_pytorch_model.safetensors"), models + "pipe_sd15", "a part of diffusers' folder"},
	} {
		p, err := pipeline.Open(c.path, pipeline.Options{Pool: tensor.NewPool(ref.Backend{}), Base: c.base})
		if err == nil {
			err = p.Close()
			t.Errorf("%s with %s opens (%v)", c.path, c.base, err)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %s: %v", c.path, c.base, err)
		}
	}
	base := filepath.Join(t.TempDir(), "base")
	if err := os.CopyFS(base, os.DirFS(models+"pipe_flux")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(base, "vae", "diffusion_pytorch_model.safetensors")); err != nil {
		t.Fatal(err)
	}
	if _, err := pipeline.Open(path, pipeline.Options{Pool: tensor.NewPool(ref.Backend{}), Base: base}); err == nil || !strings.Contains(err.Error(), "holds no vae (it holds transformer)") {
		t.Errorf("without an autoencoder: %v", err)
	}
}
