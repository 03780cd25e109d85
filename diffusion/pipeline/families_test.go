package pipeline

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/vision"
)

// cases are a family's recorded pipelines that this repository holds. An edit of one picture is read from the folder of
// the edit of several.
func cases(f Family) (found []string) {
	for _, name := range f.Cases {
		if _, err := os.Stat(filepath.Join(recorded, name)); err == nil {
			found = append(found, name)
		}
	}
	if f.Class == qwenEdit.Class && found == nil {
		return qwenEditPlus.Cases
	}
	return found
}

// TestFamilyValues: every family describes itself; each of its parts is needed, and a folder without it is refused
// with the part's name.
func TestFamilyValues(t *testing.T) {
	classes := map[string]bool{}
	for _, f := range Families() {
		if f.Class == "" || f.Name == "" || f.Card == "" || f.Paper == "" || len(f.Parts) == 0 || len(f.Cases) == 0 || classes[f.Class] {
			t.Errorf("%q is told twice, or lacks a name, a card, a paper, parts or cases: %+v", f.Class, f)
		}
		classes[f.Class] = true
		found := cases(f)
		if found == nil {
			t.Errorf("%s: none of its recorded pipelines, %v, is in %s", f.Class, f.Cases, recorded)
			continue
		}
		dir := copied(t, found[0])
		index := filepath.Join(dir, "model_index.json")
		edit(t, index, map[string]any{"_class_name": f.Class})
		whole, err := os.ReadFile(index)
		if err != nil {
			t.Fatal(err)
		}
		two := &autograd.Tokens{Ranks: 2}
		if p, err := Open(dir, Options{Pool: pool(t, 1), Tokens: two}); f.Shared != (err == nil) || err != nil && !strings.Contains(err.Error(), "cannot share the tokens of a "+f.Class) {
			t.Errorf("%s, of ranks that share tokens: %v", f.Class, err)
		} else if err == nil {
			p.Close()
		}
		p := open(t, dir, Options{})
		if p.Class() != f.Class || !slices.Contains(f.Parts, p.Component()) {
			t.Errorf("%s opens as a %s with the denoiser %s", f.Class, p.Class(), p.Component())
		}
		for _, part := range f.Parts {
			edit(t, index, map[string]any{part: nil})
			if p, err := Open(dir, Options{Pool: pool(t, 1)}); err == nil {
				t.Errorf("%s opens without %s", f.Class, part)
				p.Close()
			} else if !strings.Contains(err.Error(), `"`+part+`"`) {
				t.Errorf("%s without %s: %v", f.Class, part, err)
			}
			if err := os.WriteFile(index, whole, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestFamilies: of every family, in both precisions and at sides that are odd multiples of the least: a picture is
// the same alone and among three, in a folder whose denoiser lies in two files, and, where a Qwen3 reads texts, in
// one whose settings are transformers 5's; without guidance no negative text is read; the pictures of edits and clips
// count, one picture or several.
func TestFamilies(t *testing.T) {
	var all []string
	for _, f := range Families() {
		all = append(all, cases(f)...)
	}
	for _, name := range slices.Compact(all) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, precision := range []Precision{F32, BF16} {
				whole := madeOf(t, filepath.Join(recorded, name), precision)
				if !slices.Equal(whole.alone, whole.among[1]) {
					t.Errorf("%v: a picture depends on its batch", precision)
				}
				if slices.Equal(whole.alone, whole.unguided) {
					t.Errorf("%v: guidance changes nothing", precision)
				}
				for i, other := range whole.sources {
					if slices.Equal(whole.alone, other) {
						t.Errorf("%v: other sources, %d, change nothing", precision, i)
					}
				}
				for form, change := range map[string]func(dir string) bool{
					"in two files":      func(dir string) bool { return sharded(t, dir) },
					"of transformers 5": func(dir string) bool { return rewritten(t, filepath.Join(dir, "text_encoder", "config.json")) },
				} {
					dir := copied(t, name)
					if !change(dir) {
						continue
					}
					if other := madeOf(t, dir, precision); !slices.Equal(whole.alone, other.alone) {
						t.Errorf("%v: a folder %s makes another picture", precision, form)
					}
				}
			}
		})
	}
}

// guidanceFor is guidance by two outputs, as a pipeline's networks take it.
func guidanceFor(p *Pipeline) Guidance {
	g := Guidance{Scale: 3, Norm: p.Defaults().Norm}
	switch {
	case p.Defaults().Embedded:
		g.Scale, g.Embedded = 2, 3
	case p.Experts() == 2:
		g.Second = 2
	case p.Class() == zImage.Class:
		g.Most = 0.9
	}
	return g
}

// made are the last latents of a picture.
type made struct {
	alone, unguided []float64
	among           [][]float64 // beside two others, of which it is the second
	sources         [][]float64 // made of other pictures
}

func madeOf(t *testing.T, dir string, precision Precision) (m made) {
	t.Helper()
	ctx := context.Background()
	p := open(t, dir, Options{Precision: precision, TextLength: 128, SourceArea: 48 * 48, SightArea: 48 * 48})
	g := guidanceFor(p)
	side := p.side()
	at, err := p.Shape(3*side, 5*side)
	if p.Clips() {
		at, err = p.ClipShape(5, 3*side, 5*side)
	}
	if err != nil {
		t.Fatal(err)
	}
	if p.folder.class == "FluxKontextPipeline" {
		p.SourceArea = AsIs
	}
	schedule, err := p.Schedule(2, at)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := p.Rows(schedule, 0)
	if err != nil {
		t.Fatal(err)
	}
	picture := func(prompt string, draw int, sources ...*vision.Image) Picture {
		var given *Given
		if most, _ := p.Edits(); most > 0 {
			given, err = p.Source(ctx, sources[:min(most, len(sources))]...)
		} else if may, _, _, _ := p.Gives(); may {
			given, err = p.Give(ctx, at, sources[0], gray(200))
		}
		if err != nil {
			t.Fatal(err)
		}
		return drawnOf(t, p, given, prompt, 5, draw)
	}
	run := func(g Guidance, pics ...Picture) (finals [][]float64) {
		for _, track := range sample(t, p, pics, Sampler{At: at, Rows: rows, Times: schedule.Timesteps, Guidance: g, Batch: 3}) {
			finals = append(finals, track.Final)
		}
		return finals
	}
	tall, wide := shaded(64, 96, 40), shaded(80, 64, 120)
	own := picture("a red cat", 0, tall)
	m.alone = run(g, own)[0]
	m.among = run(g, picture("a small robot", 1, tall), own, picture("a red cat", 2, tall))
	bare := own
	bare.Negative = nil
	m.unguided = run(Guidance{Scale: 1, Embedded: g.Embedded, Second: min(g.Second, 1)}, bare)[0]
	if most, _ := p.Edits(); most > 0 {
		m.sources = append(m.sources, run(g, picture("a red cat", 0, wide))[0])
		if most > 1 {
			m.sources = append(m.sources, run(g, picture("a red cat", 0, tall, wide))[0])
		}
	} else if may, _, _, _ := p.Gives(); may {
		m.sources = append(m.sources, run(g, picture("a red cat", 0, wide))[0])
	}
	return m
}

// sharded puts a folder's denoiser into two files and an index, as diffusers does with large ones.
func sharded(t *testing.T, dir string) bool {
	t.Helper()
	part := filepath.Join(dir, "transformer")
	if _, err := os.Stat(part); err != nil {
		part = filepath.Join(dir, "unet")
	}
	path := filepath.Join(part, "diffusion_pytorch_model.safetensors")
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	index, halves := map[string]any{}, [2][]safetensors.Tensor{}
	files := [2]string{"diffusion_pytorch_model-00001-of-00002.safetensors", "diffusion_pytorch_model-00002-of-00002.safetensors"}
	for i, name := range f.Names() {
		x, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		x.Data = slices.Clone(x.Data)
		halves[i%2], index[name] = append(halves[i%2], x), files[i%2]
	}
	for i, half := range halves {
		if err := safetensors.Write(filepath.Join(part, files[i]), half, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	path += ".index.json"
	if err := os.WriteFile(path, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	edit(t, path, map[string]any{"metadata": map[string]any{}, "weight_map": index})
	return true
}

// rewritten writes a Qwen3's settings as transformers 5 does, with another base of its frequencies than the default.
func rewritten(t *testing.T, path string) bool {
	t.Helper()
	var said struct {
		Kind  string  `json:"model_type"`
		Theta float64 `json:"rope_theta"`
	}
	data, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(data, &said) != nil || said.Kind != "qwen3" {
		return false
	}
	edit(t, path, map[string]any{"rope_theta": nil, "rope_scaling": nil, "torch_dtype": nil, "dtype": "float32",
		"rope_parameters": map[string]any{"rope_type": "default", "rope_theta": said.Theta}})
	return true
}
