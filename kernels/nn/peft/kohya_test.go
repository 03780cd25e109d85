package peft

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// change is scale·B·A, [out, in], of an adapter's layer.
func change(t *testing.T, down, up safetensors.Tensor, scale float64) [][]float64 {
	t.Helper()
	a, errA := down.Float32(nil)
	b, errB := up.Float32(nil)
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	rank, in := down.Shape[0], len(a)/down.Shape[0]
	var rows [][]float64
	for o := range up.Shape[0] {
		row := make([]float64, in)
		for r := range rank {
			for i := range in {
				row[i] += scale * float64(b[o*rank+r]) * float64(a[r*in+i])
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// fluxAdapter has layers of both kinds of blocks, of two ranks and alphas, and gaps.
func fluxAdapter(t *testing.T) *Adapter {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.safetensors")
	var tensors []safetensors.Tensor
	pair := func(module string, rank, in, out int) {
		tensors = append(tensors, drawn(t, "transformer."+module+".lora_A.weight", rank, in), drawn(t, "transformer."+module+".lora_B.weight", out, rank))
	}
	pair("transformer_blocks.0.attn.to_q", 2, 6, 4)
	pair("transformer_blocks.0.attn.to_k", 3, 6, 4)
	pair("transformer_blocks.0.attn.to_v", 2, 6, 4)
	pair("transformer_blocks.0.attn.add_v_proj", 2, 6, 4)
	pair("transformer_blocks.0.attn.to_out.0", 2, 4, 6)
	pair("single_transformer_blocks.11.attn.to_k", 2, 6, 4)
	pair("single_transformer_blocks.11.proj_mlp", 2, 6, 16)
	pair("single_transformer_blocks.11.proj_out", 2, 20, 6)
	pair("time_text_embed.timestep_embedder.linear_1", 2, 5, 7)
	const settings = `{"transformer.r": 2, "transformer.lora_alpha": 6, "transformer.rank_pattern": {"transformer_blocks.0.attn.to_k": 3}, "transformer.alpha_pattern": {"transformer_blocks.0.attn.to_k": 4}}`
	if err := safetensors.Write(path, tensors, map[string]string{"lora_adapter_metadata": settings}); err != nil {
		t.Fatal(err)
	}
	a, err := Open(path, "transformer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

func TestKohyaOfFLUX(t *testing.T) {
	a := fluxAdapter(t)
	path := filepath.Join(t.TempDir(), "kohya.safetensors")
	if err := a.CopyKohya(path, FLUX); err != nil {
		t.Fatal(err)
	}
	// by the original network's layers: the members in the order of their outputs,
	// "" for one without an adapter, and outputs
	type part struct {
		module string
		out    int
	}
	checkKohya(t, a, path, map[string][]part{
		"double_blocks_0_img_attn_qkv":  {{"transformer_blocks.0.attn.to_q", 4}, {"transformer_blocks.0.attn.to_k", 4}, {"transformer_blocks.0.attn.to_v", 4}},
		"double_blocks_0_txt_attn_qkv":  {{"", 4}, {"", 4}, {"transformer_blocks.0.attn.add_v_proj", 4}},
		"double_blocks_0_img_attn_proj": {{"transformer_blocks.0.attn.to_out.0", 6}},
		"single_blocks_11_linear1":      {{"", 4}, {"single_transformer_blocks.11.attn.to_k", 4}, {"", 4}, {"single_transformer_blocks.11.proj_mlp", 16}},
		"single_blocks_11_linear2":      {{"single_transformer_blocks.11.proj_out", 6}},
		"time_in_in_layer":              {{"time_text_embed.timestep_embedder.linear_1", 7}},
	}, func(p part) (string, int) { return p.module, p.out })
}

// checkKohya compares every layer's change of the weights, and the names.
func checkKohya[P any](t *testing.T, a *Adapter, path string, want map[string][]P, of func(P) (string, int)) {
	t.Helper()
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n := len(f.Names()); n != 3*len(want) {
		t.Errorf("%d tensors, not %d: %v", n, 3*len(want), f.Names())
	}
	for name, parts := range want {
		var three []safetensors.Tensor
		for _, end := range []string{".lora_down.weight", ".lora_up.weight", ".alpha"} {
			x, err := f.Tensor("lora_unet_" + name + end)
			if err != nil {
				t.Fatal(err)
			}
			three = append(three, x)
		}
		alpha, err := three[2].Float32(nil)
		if err != nil || len(alpha) != 1 || len(three[2].Shape) != 0 {
			t.Fatal(alpha, err)
		}
		got := change(t, three[0], three[1], float64(alpha[0])/float64(three[0].Shape[0]))
		row := 0
		for _, p := range parts {
			module, out := of(p)
			rows := make([][]float64, out)
			if module != "" {
				k, err := a.factors(module)
				if err != nil {
					t.Fatal(err)
				}
				rows = change(t, k.down, k.up, k.scale)
			}
			for o := range rows {
				for i, v := range got[row] {
					if want := append(rows[o], make([]float64, len(got[row]))...)[i]; math.Abs(v-want) > 1e-5 {
						t.Fatalf("%s: row %d of %s, column %d: %v, want %v", name, o, module, i, v, want)
					}
				}
				row++
			}
		}
		if row != len(got) {
			t.Errorf("%s has %d outputs, not %d", name, len(got), row)
		}
	}
}

func TestKohyaOfUNet(t *testing.T) {
	a := mixed(t)
	path := filepath.Join(t.TempDir(), "kohya.safetensors")
	if err := a.CopyKohya(path, UNet); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{}
	for _, m := range a.modules() {
		want[strings.ReplaceAll(m, ".", "_")] = []string{m}
	}
	checkKohya(t, a, path, want, func(m string) (string, int) {
		k, err := a.factors(m)
		if err != nil {
			t.Fatal(err)
		}
		return m, k.up.Shape[0]
	})
	if err := a.CopyKohya(path, FLUX); err == nil || !strings.Contains(err.Error(), "no name for this layer of FLUX") {
		t.Errorf("a U-Net's layers as FLUX's: %v", err)
	}
}
