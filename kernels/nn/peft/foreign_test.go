package peft

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// written is an adapter in a layout, and its bytes.
func written(t *testing.T, write func(path string) error) (path string, text []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "lora.safetensors")
	if err := write(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, text
}

// opened is an adapter's file.
func opened(t *testing.T, path, component string) *Adapter {
	t.Helper()
	a, err := Open(path, component)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

// sameChange compares the change of the weights that two adapters make.
func sameChange(t *testing.T, a, b *Adapter) {
	t.Helper()
	if !slices.Equal(a.modules(), b.modules()) {
		t.Fatalf("%v\n%v", a.modules(), b.modules())
	}
	for _, module := range a.modules() {
		x, errA := a.factors(module)
		y, errB := b.factors(module)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if x.rank != y.rank {
			t.Errorf("%s: rank %d, and %d before", module, y.rank, x.rank)
		}
		was, is := change(t, x.down, x.up, x.scale), change(t, y.down, y.up, y.scale)
		for i := range was {
			for j := range was[i] {
				if d := was[i][j] - is[i][j]; d > 1e-5 || d < -1e-5 {
					t.Fatalf("%s: %g, and %g before", module, is[i][j], was[i][j])
				}
			}
		}
	}
}

// TestKohyaIsRead: an export in kohya's layout is read as the adapter that it was made of, and written as the same
// bytes: of FLUX, whose fused layers are parted, of a U-Net, and of Wan by ComfyUI's names.
func TestKohyaIsRead(t *testing.T) {
	flux := fluxAdapter(t)
	path, text := written(t, func(path string) error { return flux.CopyKohya(path, FLUX) })
	back := opened(t, path, "transformer")
	sameChange(t, flux, back)
	if _, again := written(t, func(path string) error { return back.CopyKohya(path, FLUX) }); !bytes.Equal(text, again) {
		t.Error("FLUX: other bytes")
	}
	made := func(component string, modules ...string) *Adapter {
		var all []safetensors.Tensor
		for _, m := range modules {
			all = append(all, drawn(t, component+"."+m+".lora_A.weight", 2, 6), drawn(t, component+"."+m+".lora_B.weight", 4, 2))
		}
		path, _ := written(t, func(path string) error { return safetensors.Write(path, all, nil) })
		return opened(t, path, component)
	}
	unet := made("unet", "down_blocks.1.attentions.0.transformer_blocks.0.attn1.to_q", "mid_block.attentions.0.proj_in",
		"up_blocks.2.attentions.1.transformer_blocks.0.ff.net.0.proj", "up_blocks.1.attentions.2.transformer_blocks.0.attn2.to_out.0")
	path, text = written(t, func(path string) error { return unet.CopyKohya(path, UNet) })
	back = opened(t, path, "unet")
	sameChange(t, unet, back)
	if _, again := written(t, func(path string) error { return back.CopyKohya(path, UNet) }); !bytes.Equal(text, again) {
		t.Error("U-Net: other bytes")
	}
	wan := made("transformer", "blocks.3.attn1.to_q", "blocks.3.attn2.to_out.0", "blocks.11.ffn.net.0.proj", "blocks.0.attn2.add_k_proj")
	path, text = written(t, wan.CopyWan)
	if !bytes.Contains(text, []byte("diffusion_model.blocks.3.cross_attn.o.lora_A.weight")) {
		t.Error("Wan: no name of ComfyUI's")
	}
	back = opened(t, path, "transformer")
	sameChange(t, wan, back)
	if _, again := written(t, back.CopyWan); !bytes.Equal(text, again) {
		t.Error("Wan: other bytes")
	}
}

// TestForeignNames: foreign layers have the places that diffusers gives them.
func TestForeignNames(t *testing.T) {
	for name, want := range map[string]string{
		"lora_unet_input_blocks_4_1_transformer_blocks_0_attn1_to_q":            "down_blocks.1.attentions.0.transformer_blocks.0.attn1.to_q",
		"lora_unet_input_blocks_8_1_proj_in":                                    "down_blocks.2.attentions.1.proj_in",
		"lora_unet_middle_block_1_transformer_blocks_9_attn2_to_v":              "mid_block.attentions.0.transformer_blocks.9.attn2.to_v",
		"lora_unet_output_blocks_5_1_transformer_blocks_1_ff_net_2":             "up_blocks.1.attentions.2.transformer_blocks.1.ff.net.2",
		"diffusion_model.transformer_blocks.7.attn.add_q_proj":                  "transformer_blocks.7.attn.add_q_proj",
		"lora_unet_transformer_blocks_7_txt_mlp_net_0_proj":                     "transformer_blocks.7.txt_mlp.net.0.proj",
		"lora_unet_blocks_2_self_attn_o":                                        "blocks.2.attn1.to_out.0",
		"lora_unet_blocks_0_attn1_to_q":                                         "blocks.0.attn1.to_q",
		"diffusion_model.blocks.0.attn1.to_q":                                   "blocks.0.attn1.to_q",
		"diffusion_model.blocks.4.attn2.add_k_proj":                             "blocks.4.attn2.add_k_proj",
		"diffusion_model.blocks.11.ffn.net.0.proj":                              "blocks.11.ffn.net.0.proj",
		"diffusion_model.single_blocks.3.linear2":                               "single_transformer_blocks.3.proj_out",
		"diffusion_model.double_blocks.3.img_attn.qkv":                          "transformer_blocks.3.attn.to_q transformer_blocks.3.attn.to_k transformer_blocks.3.attn.to_v",
		"lora_unet_final_layer_linear":                                          "proj_out",
		"lora_unet_up_blocks_1_attentions_0_transformer_blocks_0_ff_net_0_proj": "up_blocks.1.attentions.0.transformer_blocks.0.ff.net.0.proj",
	} {
		layer, ok := foreignLayer(name)
		members, err := membersOf(layer)
		var all []string
		for _, m := range members {
			all = append(all, m.module)
		}
		if got := strings.Join(all, " "); !ok || err != nil || got != want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{
		"lora_unet_nobody_knows.lora_down.weight":                        "lora_unet_nobody_knows: the name of no layer",
		"lora_unet_down_blocks_0_attentions_0_proj_in.lokr_w1":           "LoKr is not known",
		"lora_unet_down_blocks_0_attentions_0_proj_in.hada_w1.diff":      "LoHa is not known",
		"diffusion_model.blocks.0.self_attn.nothing.lora_A.weight":       "Wan has no such layer",
		"lora_te1_text_model_encoder_layers_0_mlp_fc1.alpha":             "no tensors named unet.",
		"diffusion_model.double_blocks.0.img_attn.nothing.lora_A.weight": "FLUX has no such layer",
	} {
		path, _ := written(t, func(path string) error {
			return safetensors.Write(path, []safetensors.Tensor{drawn(t, name, 2, 2)}, nil)
		})
		if _, err := Open(path, "unet"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSharedFactor: a fused layer whose A is shared is parted by the rows of its B.
func TestSharedFactor(t *testing.T) {
	name := "diffusion_model.double_blocks.0.txt_attn.qkv"
	down, up := drawn(t, name+".lora_A.weight", 3, 5), drawn(t, name+".lora_B.weight", 12, 3)
	path, _ := written(t, func(path string) error { return safetensors.Write(path, []safetensors.Tensor{down, up}, nil) })
	a := opened(t, path, "transformer")
	whole := change(t, down, up, 1)
	for i, module := range []string{"add_q_proj", "add_k_proj", "add_v_proj"} {
		p, err := a.factors("transformer_blocks.0.attn." + module)
		if err != nil || p.rank != 3 {
			t.Fatal(p.rank, err)
		}
		for r, row := range change(t, p.down, p.up, p.scale) {
			if !slices.Equal(row, whole[4*i+r]) {
				t.Errorf("%s: row %d", module, r)
			}
		}
	}
}

// TestIsAdapter: a LoRA is known by its pairs, in every layout. A model has no pairs.
func TestIsAdapter(t *testing.T) {
	for name, want := range map[string]bool{
		"lora_unet_mid_block_attentions_0_proj_in.lora_down.weight": true, "diffusion_model.blocks.0.ffn.0.lora_A.weight": true,
		"transformer.x.lora_A.weight": true, "unet.x.lora.down.weight": true, "model.diffusion_model.input_blocks.0.0.weight": false,
	} {
		path, _ := written(t, func(path string) error {
			return safetensors.Write(path, []safetensors.Tensor{drawn(t, name, 2, 2)}, nil)
		})
		if IsAdapter(path) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
	if IsAdapter("nowhere") {
		t.Error("a file that is not there")
	}
}
