package single

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// recorded is testdata/converted.json.gz, made by internal/oracle/single.py.
type recorded struct {
	Kinds map[string]struct {
		LayersPerBlock int                                      `json:"layers_per_block"`
		File           map[string][]int                         `json:"file"`
		Parts          map[string]map[string][2]json.RawMessage `json:"parts"` // shape and sum
	} `json:"kinds"`
}

func read(t *testing.T) (r recorded) {
	t.Helper()
	file, err := os.Open("testdata/converted.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, err := gzip.NewReader(file)
	if err == nil {
		err = json.NewDecoder(text).Decode(&r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// written is a checkpoint whose numbers follow from its names.
func written(t *testing.T, shapes map[string][]int) string {
	t.Helper()
	var all []safetensors.Tensor
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		n := 1
		for _, d := range shapes[name] {
			n *= d
		}
		x, first := make([]float32, n), int(crc32.ChecksumIEEE([]byte(name)))
		for i := range x {
			x[i] = float32((first + i) % (1 << 24))
		}
		all = append(all, safetensors.FromF32(name, shapes[name], x))
	}
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := safetensors.Write(path, all, nil); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestConverted: every tensor of every part has the name, the shape and the bytes that diffusers' conversion gives it,
// and there are no others.
func TestConverted(t *testing.T) {
	kinds := map[string]Kind{"sd15": UNet, "sdxl": UNet, "sd3": SD3, "flux": FLUX}
	for name, c := range read(t).Kinds {
		f, err := Open(written(t, c.File), Settings{c.LayersPerBlock})
		if err != nil {
			t.Fatal(err)
		}
		if f.Kind != kinds[name] || !slices.Equal(f.Parts(), slices.Sorted(maps.Keys(c.Parts))) {
			t.Errorf("%s: %v with %q", name, f.Kind, f.Parts())
		}
		for part, want := range c.Parts {
			src := f.Part(part)
			if src == nil {
				continue
			}
			for _, extra := range src.Names() {
				if _, ok := want[extra]; !ok {
					t.Errorf("%s %s: %s is none of diffusers'", name, part, extra)
				}
			}
			for tensor, is := range want {
				got, err := src.Tensor(tensor)
				if err != nil {
					t.Errorf("%s %s: %v", name, part, err)
					continue
				}
				sum := sha256.Sum256(got.Data)
				shape, err := json.Marshal(got.Shape)
				if err != nil {
					t.Fatal(err)
				}
				if got.Name != tensor || string(shape) != string(is[0]) || `"`+hex.EncodeToString(sum[:])+`"` != string(is[1]) {
					t.Errorf("%s %s: %s has the shape %s, and diffusers' %s; or other bytes", name, part, tensor, shape, is[0])
				}
			}
		}
		if f.Part("none") != nil {
			t.Error("a part that is not there")
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestWithoutPrefix: FLUX's own file has no prefix, and holds the transformer alone.
func TestWithoutPrefix(t *testing.T) {
	c := read(t).Kinds["flux"]
	bare := map[string][]int{"vae.decoder.conv_in.bias": {4}, "text_encoders.clip_l.transformer.text_model.final_layer_norm.bias": {8}}
	nested := maps.Clone(bare)
	for name, shape := range c.File {
		bare[strings.TrimPrefix(name, denoiserPrefix)] = shape
		nested[denoiserPrefix+strings.TrimPrefix(name, denoiserPrefix)] = shape
	}
	for _, shapes := range []map[string][]int{bare, nested} {
		f, err := Open(written(t, shapes), Settings{})
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Part("transformer").Names(); !slices.Equal(got, slices.Sorted(maps.Keys(c.Parts["transformer"]))) {
			t.Errorf("%d tensors, and there are %d", len(got), len(c.Parts["transformer"]))
		}
		if got := f.Part("vae").Names(); !slices.Equal(got, []string{"decoder.conv_in.bias"}) {
			t.Errorf("vae: %q", got)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestRefused: files of other models, and names that make no sense.
func TestRefused(t *testing.T) {
	for want, shapes := range map[string]map[string][]int{
		"are not those of":            {"x": {1}},
		"a part of diffusers' folder": {"transformer_blocks.0.attn.to_q.weight": {2, 2}},
	} {
		path := written(t, shapes)
		if _, err := Open(path, Settings{}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "hint: ") {
			t.Errorf("%v: %v", shapes, err)
		}
	}
	odd := map[string][]int{}
	for _, name := range []string{"input_blocks.0.0.weight", "input_blocks.x.0.weight", "input_blocks.1", "middle_block.7.x.y", "middle_block", "output_blocks..", "out", "label_emb.", "time_embed.1.bias"} {
		odd[denoiserPrefix+name] = []int{1}
	}
	for _, name := range []string{"first_stage_model.", "first_stage_model.decoder.up.9999999999999999999.x", "first_stage_model.decoder.up.x.block.0.a", "first_stage_model.decoder.mid.attn_1.", "first_stage_model.encoder.down.0",
		"conditioner.embedders.1.model.transformer.resblocks.", "conditioner.embedders.1.model.text_projection", "conditioner.embedders.1.model.transformer.resblocks.0.attn.in_proj_bias"} {
		odd[name] = nil
	}
	f, err := Open(written(t, odd), Settings{LayersPerBlock: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, part := range f.Parts() {
		src := f.Part(part)
		for _, name := range src.Names() {
			if _, err := src.Tensor(name); err != nil {
				t.Logf("%s: %v", name, err)
			}
		}
	}
}
