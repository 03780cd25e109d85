package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/cmd/darkroom/inspect"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/internal/golden"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

func zeros(name string, d safetensors.DType, shape ...int) safetensors.Tensor {
	n := d.Bits() / 8
	for _, x := range shape {
		n *= x
	}
	return safetensors.Tensor{Name: name, DType: d, Shape: shape, Data: make([]byte, n)}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// writtenPipeline makes a small pipeline: a sharded encoder, a single VAE in two dtypes, a scheduler.
func writtenPipeline(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "pipe")
	put(t, filepath.Join(root, "model_index.json"), `{"_class_name": "TestPipeline", "_diffusers_version": "0.1",
		"scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"], "image_encoder": [null, null], "expand_timesteps": true,
		"text_encoder": ["transformers", "T5EncoderModel"], "vae": ["diffusers", "AutoencoderKL"]}`)
	put(t, filepath.Join(root, "scheduler", "scheduler_config.json"), `{"_class_name": "FlowMatchEulerDiscreteScheduler", "shift": 3.0}`)
	put(t, filepath.Join(root, "text_encoder", "config.json"), `{"architectures": ["T5EncoderModel"], "d_model": 24}`)
	put(t, filepath.Join(root, "vae", "config.json"), `{"_class_name": "AutoencoderKL", "block_out_channels": [4, 8], "scaling_factor": 1.5305}`)
	var blocks []safetensors.Tensor
	for _, n := range []string{"blocks.0.w", "blocks.2.w", "blocks.10.w"} {
		blocks = append(blocks, zeros(n, safetensors.BF16, 30, 20))
	}
	err := safetensors.WriteFolder(filepath.Join(root, "text_encoder"), "model", blocks, nil, 2500)
	if err != nil {
		t.Fatal(err)
	}
	err = safetensors.Write(filepath.Join(root, "vae", "diffusion_pytorch_model.safetensors"),
		[]safetensors.Tensor{zeros("conv.weight", safetensors.F16, 2, 2, 3, 3), zeros("ids", safetensors.I64, 1, 77), zeros("scale", safetensors.F32)},
		map[string]string{"format": "pt\x1b[31m"})
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// command runs darkroom and returns its exit code, output and errors.
func command(args ...string) (int, string, string) {
	var out, errs bytes.Buffer
	code := execute(context.Background(), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

func TestInspectPipeline(t *testing.T) {
	root := writtenPipeline(t)
	code, out, errs := command("inspect", root)
	want := root + `: pipeline TestPipeline (diffusers 0.1), 1,837 parameters, 4.2 KiB

PART          CLASS                            DTYPE    PARAMETERS     SIZE  WEIGHTS
scheduler     FlowMatchEulerDiscreteScheduler  -                 -        -  -
text_encoder  T5EncoderModel                   BF16          1,800  3.5 KiB  2 shards of model.safetensors.index.json
vae           AutoencoderKL                    F16+F32          37    692 B  diffusion_pytorch_model.safetensors
total                                          BF16+F16+F32   1,837  4.2 KiB  3 files

PART          SETTING             VALUE
scheduler     shift               3.0
text_encoder  d_model             24
vae           block_out_channels  4, 8
              scaling_factor      1.5305
(pipeline)    expand_timesteps    true

note: vae: F16 weights become bf16 (rounded) or f32 when they are loaded, as model.precision says
`
	if squeeze(out) != squeeze(want) || errs != "" || code != exits.Done {
		t.Errorf("exit %d, %s\ngot\n%s\nwant\n%s", code, errs, out, want)
	}
}

// squeeze makes runs of spaces one, so that a test shows text and not widths.
func squeeze(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = strings.Join(strings.Fields(l), " ")
	}
	return strings.Join(lines, "\n")
}

func TestInspectFile(t *testing.T) {
	path := filepath.Join(writtenPipeline(t), "vae", "diffusion_pytorch_model.safetensors")
	code, out, _ := command("inspect", path)
	want := path + `: file, 37 parameters, 692 B

TENSOR       DTYPE  SHAPE     SIZE
conv.weight  F16    2×2×3×3   72 B
ids          I64    1×77     616 B
scale        F32    scalar     4 B

DTYPE  TENSORS  ELEMENTS   SIZE
I64          1        77  616 B
F16          1        36   72 B
F32          1         1    4 B
total        3       114  692 B

weights   diffusion_pytorch_model.safetensors
metadata  format = pt` + "\uFFFD" + `[31m

note: F16 weights become bf16 (rounded) or f32 when they are loaded, as model.precision says
`
	if out != want || code != exits.Done {
		t.Errorf("exit %d, got\n%s\nwant\n%s", code, out, want)
	}
}

func TestInspectJSON(t *testing.T) {
	root := writtenPipeline(t)
	code, out, errs := command("inspect", "--json", "--tensors", root, filepath.Join(root, "text_encoder", "model.safetensors.index.json"))
	var all []inspect.Document
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != exits.Done || len(all) != 2 {
		t.Fatalf("exit %d, %s, %v\n%s", code, errs, err, out)
	}
	p := all[0].Parts[1]
	if all[0].Kind != "pipeline" || p.Name != "text_encoder" || p.Weights.Parameters != 1800 || p.Weights.Bytes != 3600 || len(p.Weights.Files) != 2 {
		t.Errorf("%+v", p)
	}
	var names []string
	for _, x := range all[1].Tensors {
		names = append(names, x.Name)
	}
	if got := strings.Join(names, " "); got != "blocks.0.w blocks.2.w blocks.10.w" || all[1].Tensors[0].File != "model-00001-of-00002.safetensors" {
		t.Errorf("%s in %+v", got, all[1].Tensors)
	}
}

// The readable parts of a broken pipeline are printed, and each mistake with its remedy.
func TestInspectBrokenPipeline(t *testing.T) {
	root := writtenPipeline(t)
	for _, gone := range []string{"scheduler", filepath.Join("text_encoder", "model-00002-of-00002.safetensors")} {
		if err := os.RemoveAll(filepath.Join(root, gone)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, filepath.Join(root, "vae", "config.json"), `{"_class_name": "AutoencoderTiny", "block_out_channels": [[1],[2],{},null]}`)
	code, out, errs := command("inspect", root)
	if code != exits.Failed || strings.Count(errs, "hint: ") != 2 ||
		!strings.Contains(errs, "1 of 2 shards are missing: model-00002-of-00002.safetensors") ||
		!strings.Contains(errs, `there is no "scheduler", but model_index.json names it`) {
		t.Errorf("exit %d\n%s", code, errs)
	}
	for _, want := range []string{"text_encoder T5EncoderModel - - - cannot be read, see below", "vae AutoencoderKL F16+F32 37 692 B",
		"note: vae: model_index.json says AutoencoderKL, config.json AutoencoderTiny", "block_out_channels [1], [2], {}, null"} {
		if !strings.Contains(squeeze(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	_, out, _ = command("inspect", "--json", root)
	if !strings.Contains(out, `"error": "`) {
		t.Errorf("no error in the JSON:\n%s", out)
	}
}

func TestInspectRefuses(t *testing.T) {
	outside := writtenPipeline(t)
	for want, files := range map[string]map[string]string{
		"it has no model_index.json, config.json":                    {"README.md": ""},
		"hint: it holds some: unet (model), vae (model)":             {"vae/config.json": "{}", "unet/config.json": "{}", "x/y": ""},
		"config.json: invalid JSON":                                  {"config.json": `{"a":`},
		"config.json: invalid JSON: no object in it":                 {"config.json": `null`},
		"model_index.json names no part":                             {"model_index.json": `{"_class_name":"X","a":[null,null]}`},
		`it names "../` + filepath.Base(outside):                     {"model_index.json": `{"../` + filepath.Base(outside) + `":["a","B"]}`},
		"no .safetensors file, only pytorch_model.bin":               {"config.json": "{}", "pytorch_model.bin": ""},
		"shards, but their index is missing":                         {"model-00001-of-00002.safetensors": ""},
		"not a regular file but a folder":                            {"config.json/x": ""},
		"exceeded max depth":                                         {"config.json": strings.Repeat("[", 20000)},
		"model.safetensors: 3 bytes are too few for a safetensors f": {"config.json": "{}", "model.safetensors": "abc"},
	} {
		root := filepath.Join(t.TempDir(), "m")
		for name, text := range files {
			put(t, filepath.Join(root, filepath.FromSlash(name)), text)
		}
		code, _, errs := command("inspect", root)
		if code != exits.Failed || !strings.Contains(errs, want) || !strings.Contains(errs, "hint: ") {
			t.Errorf("exit %d\n%s\nwant %q", code, errs, want)
		}
	}
}

// TestInspectGGUF: a file of llama.cpp's format is listed with its types, and says where it goes.
func TestInspectGGUF(t *testing.T) {
	for name, want := range map[string]string{"gguf_sd3/model.gguf": "model.base (--base), the folder of its pipeline", "gguf_t5/model.gguf": "an encoder of T5 or UMT5"} {
		path := filepath.Join(golden.Folder("quant"), filepath.FromSlash(name))
		var out, errs bytes.Buffer
		if code := execute(t.Context(), []string{"inspect", path}, strings.NewReader(""), &out, &errs); code != exits.Done {
			t.Fatalf("exit code %d, %s", code, errs.String())
		}
		for _, w := range []string{want, "TENSOR", "Q8_0", "parameters", "general."} {
			if !strings.Contains(out.String(), w) {
				t.Errorf("%s: no %q in\n%s", name, w, out.String())
			}
		}
	}
}
