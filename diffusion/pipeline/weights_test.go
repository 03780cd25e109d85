package pipeline

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/golden"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/quant"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// TestPublished: of published folders the settings alone are there; networks have the parameters of the published
// checkpoints (of Stable Diffusion 3 with the table of positions, which is stored), and texts their greatest length.
func TestPublished(t *testing.T) {
	const published = "../../assets/published/"
	for _, c := range []struct {
		folder                     string
		parameters, tokens, encode int
		absent                     string
	}{
		{"stable-diffusion-v1-5", 859520964, 77, 123060480, "text_encoder unet vae"},
		{"stable-diffusion-xl-base-1.0", 2567463684, 77, 123060480 + 694659840, "text_encoder text_encoder_2 unet vae"},
		{"stable-diffusion-3.5-medium", 2243171520 + 384*384*1536, 77 + 256, 123650304 + 694659840 + 4762310656, "text_encoder text_encoder_2 text_encoder_3 transformer vae"},
		{"FLUX.1-dev", 11901408320, 512, 123060480 + 4762310656, "text_encoder text_encoder_2 transformer vae"},
	} {
		dry := cpu.NewBare(cpu.Options{})
		p, err := Open(published+c.folder, Options{Pool: tensor.NewPool(dry), Precision: BF16})
		if err != nil {
			t.Fatal(err)
		}
		params, err := p.Denoiser()
		if err != nil {
			t.Fatal(err)
		}
		if n := parameters(params); n != c.parameters {
			t.Errorf("%s: %d parameters, and %d were published", c.folder, n, c.parameters)
		}
		if n := p.EncoderBytes(); n != int64(2*c.encode) {
			t.Errorf("%s: encoders of %d bytes, and published ones have %d parameters", c.folder, n, c.encode)
		}
		texts, err := p.Encode("a cat")
		if err != nil || texts[0].Tokens != c.tokens {
			t.Errorf("%s: %+v, %v", c.folder, texts, err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		parts, err := Absent(published + c.folder)
		if err != nil || strings.Join(parts, " ") != c.absent {
			t.Errorf("%s: %q, %v", c.folder, parts, err)
		}
		if _, err := Open(published+c.folder, Options{Pool: tensor.NewPool(cpu.NewDry(cpu.Options{})), Precision: BF16}); err == nil {
			t.Errorf("%s opens without weights", c.folder)
		}
	}
}

func parameters(p *nn.Params) (all int) {
	for _, shape := range p.Requested() {
		n := 1
		for _, d := range shape {
			n *= d
		}
		all += n
	}
	return all
}

// TestAbsent: a folder of which some weights are there is counted as the whole one, tables of words apart, whose type
// no file says. Weights that are there in part, or in another layout, are no absent ones.
func TestAbsent(t *testing.T) {
	whole := filepath.Join(recorded, "pipe_sd3")
	dir := filepath.Join(t.TempDir(), "model")
	if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
		t.Fatal(err)
	}
	need := func(dir string) Need {
		dry := cpu.NewBare(cpu.Options{})
		p, err := Open(dir, Options{Pool: tensor.NewPool(dry), Precision: F32})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		at, err := p.Shape(64, 64)
		if err != nil {
			t.Fatal(err)
		}
		n, err := p.Need(Work{At: at, Guidance: Guidance{Scale: 4}, Pictures: 2, Train: &nn.LoRA{Rank: 4, Alpha: 4, Targets: p.Targets()}}, cpu.NewBare(cpu.Options{}))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if parts, err := Absent(dir); err != nil || parts != nil {
		t.Errorf("a whole folder has no %q, %v", parts, err)
	}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".safetensors") && !strings.Contains(path, "vae") {
			return os.Remove(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if parts, err := Absent(dir); err != nil || !slices.Equal(parts, []string{"text_encoder", "text_encoder_2", "text_encoder_3", "transformer"}) {
		t.Errorf("%q, %v", parts, err)
	}
	a, b := need(whole), need(dir)
	for _, n := range [][2]int64{{a.Sampling, b.Sampling}, {a.Training, b.Training}, {a.Decoding, b.Decoding}} {
		if off := float64(n[1])/float64(n[0]) - 1; off < -1e-3 || off > 1e-3 {
			t.Errorf("with weights %+v, without %+v", a, b)
			break
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "transformer", "diffusion_pytorch_model.bin"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{Pool: tensor.NewPool(cpu.NewBare(cpu.Options{}))}); err == nil || !strings.Contains(err.Error(), "convert it to safetensors") {
		t.Errorf("with pickled weights: %v", err)
	}
}

// TestCompressed: a transformer in FP8 or in NF4 samples the bits of the one that it was unpacked to beforehand.
func TestCompressed(t *testing.T) {
	for name, compress := range map[string]func(m safetensors.Tensor, values []float32) []safetensors.Tensor{
		"fp8_scaled": func(m safetensors.Tensor, values []float32) []safetensors.Tensor {
			w := quant.QuantizeComfy8(safetensors.F8E4M3, values, m.Shape[1], safetensors.BF16)
			return []safetensors.Tensor{{Name: m.Name, DType: safetensors.F8E4M3, Shape: m.Shape, Data: w.Codes},
				safetensors.FromF32(strings.TrimSuffix(m.Name, ".weight")+".scale_weight", []int{1}, w.Scale.Scales)}
		},
		"nf4": func(m safetensors.Tensor, values []float32) []safetensors.Tensor {
			w, table := quant.Quantize4(values, quant.NF4(), 64), quant.NF4()
			state := quant.State{Type: "nf4", Block: 64, DType: "bfloat16", Shape: m.Shape}.Text()
			return []safetensors.Tensor{{Name: m.Name, DType: safetensors.U8, Shape: []int{len(w.Codes), 1}, Data: w.Codes},
				safetensors.FromF32(m.Name+".absmax", []int{len(w.Absmax)}, w.Absmax), safetensors.FromF32(m.Name+".quant_map", []int{16}, table[:]),
				{Name: m.Name + ".quant_state.bitsandbytes__nf4", DType: safetensors.U8, Shape: []int{len(state)}, Data: []byte(state)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			small, plain := copied(t, "pipe_sd3"), copied(t, "pipe_sd3")
			file := filepath.Join("transformer", "diffusion_pytorch_model.safetensors")
			f, err := safetensors.Open(filepath.Join(small, file))
			if err != nil {
				t.Fatal(err)
			}
			var compressed []safetensors.Tensor
			matrices := 0
			for _, info := range f.Tensors {
				m, err := f.Tensor(info.Name)
				if err != nil {
					t.Fatal(err)
				}
				m.Data = slices.Clone(m.Data)
				if len(m.Shape) != 2 || !strings.Contains(m.Name, "transformer_blocks") {
					compressed = append(compressed, m)
					continue
				}
				values, err := m.Float32(nil)
				if err != nil {
					t.Fatal(err)
				}
				matrices++
				compressed = append(compressed, compress(m, values)...)
			}
			if err := errors.Join(f.Close(), safetensors.Write(filepath.Join(small, file), compressed, nil)); err != nil {
				t.Fatal(err)
			}
			back, err := quant.OpenFile(filepath.Join(small, file))
			if err != nil {
				t.Fatal(err)
			}
			var unpacked []safetensors.Tensor
			for _, n := range back.Names() {
				m, err := back.Tensor(n)
				if err != nil {
					t.Fatal(err)
				}
				m.Name, m.Data = n, slices.Clone(m.Data)
				unpacked = append(unpacked, m)
			}
			if err := errors.Join(back.Close(), safetensors.Write(filepath.Join(plain, file), unpacked, nil)); err != nil {
				t.Fatal(err)
			}
			if matrices < 10 {
				t.Fatalf("%d matrices were compressed", matrices)
			}
			var tracks [2][]Track
			for i, dir := range []string{small, plain} {
				p := open(t, dir, Options{})
				tracks[i] = sample(t, p, pictures(t, p, 2), stochastic(t, p, Guidance{Scale: 1}))
			}
			same(t, name, tracks[0], tracks[1])
			p := open(t, small, Options{Memory: Memory{Home: nn.Disk}})
			same(t, name+" on the disk", sample(t, p, pictures(t, p, 2), stochastic(t, p, Guidance{Scale: 1})), tracks[1])
		})
	}
}

// TestGGUF: a transformer in a GGUF file is read by diffusers' names, its settings and the other parts from the base.
func TestGGUF(t *testing.T) {
	f, err := openFolder(filepath.Join(golden.Folder("quant"), "gguf_sd3", "model.gguf"), filepath.Join(recorded, "pipe_sd3"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.file.Close()
	for part, name := range map[string]string{"transformer": "transformer_blocks.0.attn.to_q.weight", "vae": "decoder.conv_in.weight"} {
		w, err := f.weights(part)
		if err != nil {
			t.Fatal(err)
		}
		m, err := w.source.Tensor(name)
		if err != nil || m.Len() == 0 {
			t.Errorf("%s of %s: %d values, %v", name, part, m.Len(), err)
		}
		if err := w.close(); err != nil {
			t.Error(err)
		}
	}
}

// TestT5GGUF: a T5 encoder in a GGUF file of its part's folder, by llama.cpp's names, encodes the bits of its unpacked
// values. Beside another such file, or where it is another network, the error names the file.
func TestT5GGUF(t *testing.T) {
	packed, plain := copied(t, "pipe_sd3"), copied(t, "pipe_sd3")
	const part = "text_encoder_3"
	set, err := safetensors.OpenFolder(filepath.Join(packed, part))
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	path := filepath.Join(packed, part, "t5-v1_1-encoder-Q8_0.gguf")
	var values []safetensors.Tensor
	var header, data []byte
	tensors := 0
	for _, name := range set.Names() {
		if strings.HasPrefix(name, "encoder.embed_tokens") {
			continue
		}
		x, err := set.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		numbers, err := x.Float32(nil)
		if err != nil {
			t.Fatal(err)
		}
		w := quant.Blocks{Form: quant.F32, Data: safetensors.FromF32(name, x.Shape, numbers).Data}
		d := safetensors.F32
		if len(x.Shape) == 2 && x.Shape[1]%32 == 0 {
			d = safetensors.BF16
			if w, err = quant.QuantizeGGUF(numbers, quant.Q8_0); err != nil {
				t.Fatal(err)
			}
		}
		values = append(values, quant.Matrix{Weight: w, Name: name, Shape: x.Shape, DType: d}.Tensor())
		called := strings.NewReplacer("shared", "token_embd", "encoder.final_layer_norm", "enc.output_norm", "encoder.block.", "enc.blk.",
			"layer.0.SelfAttention.relative_attention_bias", "attn_rel_b", "layer.0.SelfAttention.", "attn_", "layer.0.layer_norm", "attn_norm",
			"layer.1.layer_norm", "ffn_norm", "layer.1.DenseReluDense.wi_0", "ffn_gate", "layer.1.DenseReluDense.wi_1", "ffn_up",
			"layer.1.DenseReluDense.wo", "ffn_down").Replace(name)
		header = binary.LittleEndian.AppendUint64(header, uint64(len(called)))
		header = binary.LittleEndian.AppendUint32(append(header, called...), uint32(len(x.Shape)))
		for _, side := range slices.Backward(x.Shape) {
			header = binary.LittleEndian.AppendUint64(header, uint64(side))
		}
		header = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(header, uint32(w.Form)), uint64(len(data)))
		data = append(data, w.Data...)
		data = append(data, make([]byte, -len(data)&31)...)
		tensors++
	}
	whole := binary.LittleEndian.AppendUint32([]byte("GGUF"), 3)
	whole = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(whole, uint64(tensors)), 0)
	whole = append(whole, header...)
	whole = append(append(whole, make([]byte, -len(whole)&31)...), data...)
	if err := os.WriteFile(path, whole, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, f := range set.Files {
		if err := os.Remove(f.Path); err != nil {
			t.Fatal(err)
		}
	}
	if err := safetensors.Write(filepath.Join(plain, part, filepath.Base(set.Files[0].Path)), values, nil); err != nil {
		t.Fatal(err)
	}
	for _, home := range []nn.Home{nn.Device, nn.Disk} {
		var states [][]float32
		for _, dir := range []string{packed, plain} {
			texts, err := open(t, dir, Options{Memory: Memory{Home: home}}).Encode("a red circle on white")
			if err != nil {
				t.Fatal(err)
			}
			states = append(states, texts[0].States)
		}
		if len(states[0]) == 0 || !slices.Equal(states[0], states[1]) {
			t.Errorf("home = %s: the encoder in GGUF has other states than its values", home)
		}
	}
	if p := open(t, packed, Options{}); p.EncoderBytes() < int64(len(whole)) {
		t.Errorf("encoders of %d bytes, one of which has %d", p.EncoderBytes(), len(whole))
	}
	other := filepath.Join(packed, part, "other.gguf")
	if err := os.WriteFile(other, whole, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(packed, Options{Pool: pool(t, 1), TextLength: 32}); err == nil || !strings.Contains(err.Error(), "other.gguf, t5-v1_1") || !strings.Contains(err.Error(), "hint:") {
		t.Errorf("of two files: %v", err)
	}
	if err := errors.Join(os.Remove(path), os.WriteFile(other, bytes.ReplaceAll(whole, []byte("enc.blk"), []byte("dec.blk")), 0o644)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(packed, Options{Pool: pool(t, 1), TextLength: 32}); err == nil || !strings.Contains(err.Error(), other) || !strings.Contains(err.Error(), "model.base") {
		t.Errorf("of a decoder: %v", err)
	}
}
