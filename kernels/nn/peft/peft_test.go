package peft

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// model is two layers of attention's names and a convolution.
func model(t *testing.T) *nn.Params {
	t.Helper()
	p, err := nn.New(nn.Options{Pool: tensor.NewPool(ref.Backend{}), Key: rng.New(1)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		p.At("blocks", i).Linear("attn.to_q", 6, 4, true)
		p.At("blocks", i).Linear("attn.to_k", 6, 4, false)
	}
	p.Conv("conv_in", nn.Square(3, 5, 3, 1, 1), true)
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	return p
}

// contents are an adapter's tensors.
func contents(s *nn.Adapters) (all []string) {
	for _, x := range s.Tensors("") {
		x, err := x.Made()
		if err != nil {
			panic(err)
		}
		all = append(all, x.Name+string(x.Data))
	}
	slices.Sort(all)
	return all
}

// TestWrittenInPieces: no copy of an adapter lies in memory while it is written, and the file has the bytes of one that
// does.
func TestWrittenInPieces(t *testing.T) {
	p, err := nn.New(nn.Options{Pool: tensor.NewPool(ref.Backend{}), Key: rng.New(1)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		p.At("blocks", i).Linear("to_q", 16, 64, false)
	}
	p.Conv("conv_in", nn.Square(3, 5, 3, 1, 1), true)
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	set, err := p.AddLoRA(nn.LoRA{Rank: 4096, Alpha: 6, Targets: []string{"to_q", "conv_in"}, Gaussian: true, Key: rng.New(7)})
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	dir := t.TempDir()
	runtime.ReadMemStats(&before)
	err = Write(dir, set, Settings{Rank: 4096, Alpha: 6})
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "adapter_model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > uint64(len(got))/4 {
		t.Errorf("%d bytes of memory for a file of %d", took, len(got))
	}
	var whole []safetensors.Tensor
	for _, x := range set.Tensors(peftPrefix) {
		x, err := x.Made()
		if err != nil {
			t.Fatal(err)
		}
		whole = append(whole, x)
	}
	want, err := safetensors.Bytes(whole, map[string]string{"format": "pt"})
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("other bytes than of tensors in memory: %v", err)
	}
}

// TestThereAndBack writes both layouts and reads them into other models.
func TestThereAndBack(t *testing.T) {
	p := model(t)
	set, err := p.AddLoRA(nn.LoRA{Rank: 2, Alpha: 6, Targets: []string{"to_q", "conv_in"}, Key: rng.New(7)})
	if err != nil {
		t.Fatal(err)
	}
	s := Settings{Rank: 2, Alpha: 6}
	dir := t.TempDir()
	file := filepath.Join(dir, "one", "pytorch_lora_weights.safetensors")
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Write(filepath.Join(dir, "peft"), set, s); err != nil {
		t.Fatal(err)
	}
	written, err := Open(filepath.Join(dir, "peft"), "unet")
	if err != nil {
		t.Fatal(err)
	}
	defer written.Close()
	if err := written.CopyDiffusers(file, "unet"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "peft"), file, filepath.Dir(file)} {
		a, err := Open(path, "unet")
		if err != nil {
			t.Fatal(err)
		}
		if k, err := a.kindOf("conv_in"); err != nil || k != (kind{2, 6}) {
			t.Errorf("%s: %v, %v", path, k, err)
		}
		got, err := a.AddTo(model(t))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(contents(got), contents(set)) {
			t.Errorf("%s: not what was written", path)
		}
		a.Close()
	}
	if a, err := Open(file, "transformer"); err == nil {
		a.Close()
		t.Error("a U-Net's adapter was opened for a transformer")
	}
}

// TestFilesOfOthers reads files of other programs, and reports those that it cannot.
func TestFilesOfOthers(t *testing.T) {
	f32 := func(name string, shape ...int) safetensors.Tensor {
		n := 1
		for _, d := range shape {
			n *= d
		}
		return safetensors.Tensor{Name: name, DType: safetensors.F32, Shape: shape, Data: make([]byte, 4*n)}
	}
	half := f32("unet.blocks.1.attn.to_k.alpha", 1)
	copy(half.Data, []byte{0, 0, 0, 0x3f})
	old := []safetensors.Tensor{f32("unet.blocks.0.attn.to_q.lora.down.weight", 3, 6), f32("unet.blocks.0.attn.to_q.lora.up.weight", 4, 3),
		f32("unet.blocks.1.attn.to_k.lora_A.weight", 1, 6), f32("unet.blocks.1.attn.to_k.lora_B.weight", 4, 1), half}
	path := filepath.Join(t.TempDir(), "a.safetensors")
	write := func(tensors []safetensors.Tensor, metadata map[string]string) {
		if err := safetensors.Write(path, tensors, metadata); err != nil {
			t.Fatal(err)
		}
	}
	write(old, nil)
	a, err := Open(path, "unet")
	if err != nil {
		t.Fatal(err)
	}
	for module, want := range map[string]kind{"blocks.0.attn.to_q": {3, 3}, "blocks.1.attn.to_k": {1, 0.5}} {
		if k, err := a.kindOf(module); err != nil || k != want {
			t.Errorf("%s: %v, %v", module, k, err)
		}
	}
	if set, err := a.AddTo(model(t)); err != nil || len(set.Modules()) != 2 {
		t.Error(set, err)
	}
	a.Close()

	for want, c := range map[string]struct {
		tensors  []safetensors.Tensor
		metadata string
	}{
		"blocks.0: the model has no such layer":                        {[]safetensors.Tensor{f32("lora_unet_blocks.0.lora_down.weight", 1, 6)}, ""},
		"text_encoder.layers.0.q.lora_A.weight: it is no part of unet": {append(slices.Clone(old), f32("text_encoder.layers.0.q.lora_A.weight", 1, 6)), ""},
		"use_dora":   {old, `{"unet.r": 3, "unet.use_dora": true}`},
		"no tensors": {[]safetensors.Tensor{f32("x", 1)}, ""},
		"no such layer": {[]safetensors.Tensor{f32("unet.blocks.9.attn.to_q.lora_A.weight", 1, 6), f32("unet.blocks.9.attn.to_q.lora_B.weight", 4, 1),
			f32("unet.blocks.1.attn.to_q.lora_A.weight", 1, 6), f32("unet.blocks.1.attn.to_q.lora_B.weight", 4, 1)}, ""},
		"rank 3, and r of the adapter's settings says 8":            {old, `{"unet.r": 8}`},
		"rank 3, and rank_pattern of the adapter's settings says 7": {old, `{"unet.r": 3, "unet.rank_pattern": {".*": 7}}`},
		"r is 0; a rank is 1 or more":                               {old, `{"unet.r": 0}`},
		"r is -4":                                                   {old, `{"unet.r": -4}`},
		"lora_alpha is 0":                                           {old, `{"unet.r": 3, "unet.lora_alpha": 0}`},
		"lora_alpha is -8":                                          {old, `{"unet.r": 3, "unet.lora_alpha": -8}`},
		"alpha_pattern: \"to_q\" has 0":                             {old, `{"unet.r": 3, "unet.alpha_pattern": {"to_q": 0}}`},
		"missing":                                                   {[]safetensors.Tensor{f32("unet.blocks.0.attn.to_q.lora_A.weight", 1, 6)}, ""},
		"shape":                                                     {[]safetensors.Tensor{f32("unet.blocks.0.attn.to_q.lora_A.weight", 1, 7), f32("unet.blocks.0.attn.to_q.lora_B.weight", 4, 1)}, ""},
	} {
		var metadata map[string]string
		if c.metadata != "" {
			metadata = map[string]string{"lora_adapter_metadata": c.metadata}
		}
		write(c.tensors, metadata)
		a, err := Open(path, "unet")
		if err == nil {
			_, err = a.AddTo(model(t))
			a.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
