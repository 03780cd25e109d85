package pipeline

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
)

var pythonName = flag.String("python", "python3", "a Python with torch, diffusers, transformers and PEFT")

// python is the one that -python names, if it has diffusers and PEFT.
func python(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath(*pythonName)
	if err != nil {
		t.Skipf("no Python to compare with: %v (-python names one that has diffusers and peft)", err)
	}
	if out, err := exec.Command(path, "-c", "import torch, diffusers, peft, transformers").CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		t.Skipf("%s lacks what is compared with: %v %s (-python names one that has diffusers and peft)", path, err, lines[len(lines)-1])
	}
	return path
}

// trained puts an adapter on a pipeline and moves it by the signs of gradients until its
// pictures differ clearly from the base model's: towards brighter outputs, as a reward
// gradient would.
func trained(t *testing.T, p *Pipeline, c nn.LoRA, pic Picture, s Sampler) *nn.Adapters {
	t.Helper()
	params, err := p.Denoiser()
	if err != nil {
		t.Fatal(err)
	}
	set, err := params.AddLoRA(c)
	if err != nil {
		t.Fatal(err)
	}
	tape := p.Tape(true, autograd.AllBlocks)
	for step := range 6 {
		a, err := p.Forward(tape, s.At, s.Guidance, []Point{{Latents: rounded(pic.Start), Time: s.Times[step%len(s.Times)], Text: pic.Text, Negative: pic.Negative}})
		if err != nil {
			t.Fatal(err)
		}
		grad := make([]float64, s.At.Len())
		for i := range grad {
			grad[i] = 1 / float64(len(grad))
		}
		if err := a.Back([][]float64{grad}); err != nil {
			t.Fatal(err)
		}
		tape.Reset()
		for _, w := range set.Params() {
			if w.Grad() == nil {
				t.Fatalf("nothing reached %s", w.Name)
			}
			x := w.Value.F32()
			for i, g := range w.Grad().F32() {
				if g != 0 {
					x[i] -= float32(math.Copysign(0.03, float64(g)))
				}
			}
			w.Value.UploadF32(x)
			w.Updated()
		}
		params.ZeroGrad()
	}
	return set
}

// pixels draws one picture, 0 to 1.
func pixels(t *testing.T, p *Pipeline, pic Picture, s Sampler) []float32 {
	t.Helper()
	raw, err := p.Decode(sample(t, p, []Picture{pic}, s)[0].Final, s.At)
	if err != nil {
		t.Fatal(err)
	}
	return Pixels(raw)
}

// apart is the largest difference of two pictures' numbers, and of their levels, 0 to 255.
func apart(a, b []float32) (number float64, level int) {
	for i, v := range a {
		number = max(number, math.Abs(float64(v)-float64(b[i])))
		d := int(math.RoundToEven(255*float64(v))) - int(math.RoundToEven(255*float64(b[i])))
		level = max(level, d, -d)
	}
	return number, level
}

// An adapter that was trained here loads in PEFT and in diffusers, one of each loads here,
// and all draw the picture that the other side draws.
func TestRoundTripWithDiffusers(t *testing.T) {
	interpreter := python(t)
	for _, c := range []struct {
		name     string
		guidance Guidance
		call     map[string]any
		targets  []string
		pattern  map[string]any
	}{
		{"pipe_sd3", Guidance{Scale: 3}, map[string]any{"negative_prompt": "blurry", "guidance_scale": 3.0, "max_sequence_length": 32},
			[]string{"to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "add_k_proj", "add_v_proj"}, map[string]any{"transformer_blocks.1.attn.to_q": 2, "add_v_proj": 5}},
		{"pipe_flux", Guidance{Embedded: 3}, map[string]any{"guidance_scale": 3.0, "max_sequence_length": 32},
			[]string{"to_q", "to_k", "to_v", "to_out.0", "proj_mlp", "x_embedder"}, map[string]any{"single_transformer_blocks.1.attn.to_q": 2, "proj_mlp": 5}},
		{"pipe_sd15", Guidance{Scale: 3}, map[string]any{"negative_prompt": "blurry", "guidance_scale": 3.0},
			[]string{"to_q", "to_k", "to_v", "to_out.0", "conv1", "proj_in"}, map[string]any{"mid_block.attentions.0.transformer_blocks.0.attn1.to_q": 2, "proj_in": 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, err := filepath.Abs(filepath.Join(recorded, c.name))
			if err != nil {
				t.Fatal(err)
			}
			work := t.TempDir()
			in := func(name string) string { return filepath.Join(work, name) }
			p := open(t, dir, Options{})
			s, pic := asked(t, p, c.guidance)
			ours := map[string][]float32{"base": pixels(t, p, pic, s)}

			settings := peft.Settings{Rank: 4, Alpha: 6}
			set := trained(t, p, nn.LoRA{Rank: 4, Alpha: 6, Targets: c.targets, Key: rng.New(3)}, pic, s)
			if err := peft.Write(in("ours"), set, settings); err != nil {
				t.Fatal(err)
			}
			written, err := peft.Open(in("ours"), p.Component())
			if err != nil {
				t.Fatal(err)
			}
			defer written.Close()
			if err := written.CopyDiffusers(in("ours.safetensors"), p.Component()); err != nil {
				t.Fatal(err)
			}
			ours["ours, PEFT"] = pixels(t, p, pic, s)
			ours["ours, diffusers"] = ours["ours, PEFT"]

			config := map[string]any{"r": 4, "lora_alpha": 6, "target_modules": c.targets}
			mixed := map[string]any{"r": 3, "lora_alpha": 5, "target_modules": c.targets, "use_rslora": true, "rank_pattern": c.pattern, "alpha_pattern": c.pattern}
			plain := map[string]any{"r": 4, "lora_alpha": 4, "target_modules": c.targets}
			theirs := map[string]string{"peft": in("peft"), "peft, patterns": in("patterns"), "diffusers": in("diffusers.safetensors"), "diffusers, metadata": in("metadata.safetensors")}
			call := map[string]any{"prompt": pic.Text.Prompt, "num_inference_steps": len(s.Rows), "height": s.At.Height, "width": s.At.Width}
			for key, v := range c.call {
				call[key] = v
			}
			if err := safetensors.Write(in("latents.safetensors"), []safetensors.Tensor{upstream(pic.Start, s.At)}, nil); err != nil {
				t.Fatal(err)
			}
			request, err := json.Marshal(map[string]any{"folder": dir, "class": p.Class(), "component": p.Component(), "call": call, "latents": in("latents.safetensors"), "out": in("pictures.safetensors"),
				"adapters": map[string]string{"ours, PEFT": in("ours"), "ours, diffusers": in("ours.safetensors")}, "make": theirs,
				"config": map[string]any{"peft": config, "peft, patterns": mixed, "diffusers": plain, "diffusers, metadata": mixed}})
			if err == nil {
				err = os.WriteFile(in("request.json"), request, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
			run := exec.Command(interpreter, "testdata/roundtrip.py", in("request.json"))
			run.Env = append(os.Environ(), "HF_HUB_OFFLINE=1")
			if out, err := run.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for name, path := range theirs {
				p := open(t, dir, Options{})
				if err := p.AddLoRA(path); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				s, pic := asked(t, p, c.guidance)
				ours[name] = pixels(t, p, pic, s)
			}

			f, err := safetensors.Open(in("pictures.safetensors"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for _, name := range f.Names() {
				stored, err := f.Tensor(name)
				if err != nil {
					t.Fatal(err)
				}
				want, err := stored.Float32(nil)
				if err != nil {
					t.Fatal(err)
				}
				number, level := apart(ours[name], want)
				moved, _ := apart(ours[name], ours["base"])
				t.Logf("%-20s differs by at most %.1e, %d levels of 255; from the base picture by %.2f", name, number, level, moved)
				if !(number <= 1e-4) {
					t.Errorf("%s: the pictures differ by %v", name, number)
				}
				if name != "base" && moved < 0.02 {
					t.Errorf("%s: the adapter moves the picture by %v only", name, moved)
				}
			}
		})
	}
}

// asked is one picture with a start of its own, by the folder's own solver.
func asked(t *testing.T, p *Pipeline, guidance Guidance) (Sampler, Picture) {
	t.Helper()
	at, err := p.Shape(64, 64)
	if err != nil {
		t.Fatal(err)
	}
	schedule, err := p.Schedule(4, at)
	if err != nil {
		t.Fatal(err)
	}
	s := Sampler{At: at, Times: schedule.Timesteps, Guidance: guidance}
	if s.Rows, err = p.Rows(schedule, 0); err != nil {
		t.Fatal(err)
	}
	texts, err := p.Encode("a photo of a red cat on the wooden bridge", "blurry")
	if err != nil {
		t.Fatal(err)
	}
	start := make([]float32, at.Len())
	rng.New(9).Normal(start, 0)
	return s, Picture{Text: texts[0], Negative: texts[1], Start: widened(start)}
}

// upstream is latents as diffusers' pipelines take them.
func upstream(latents []float64, at Shape) safetensors.Tensor {
	if len(at.Latents) == 2 { // packed
		return safetensors.FromF32("latents", []int{1, at.Latents[0], at.Latents[1]}, narrowed(latents))
	}
	c := at.Latents[2]
	planes := make([]float32, len(latents))
	for i, v := range latents {
		planes[i%c*at.Rows*at.Cols+i/c] = float32(v)
	}
	return safetensors.FromF32("latents", []int{1, c, at.Rows, at.Cols}, planes)
}
