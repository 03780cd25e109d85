package vlm

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/features"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
)

// folderOf writes a whole folder of drawn weights; rename gives tensors other names.
func folderOf(t *testing.T, f Family, rename func(name string) string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../internal/golden/vlm/tokenizer")); err != nil {
		t.Fatal(err)
	}
	tokens, err := tokenizer.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	marks, err := MarksOf(tokens)
	if err != nil {
		t.Fatal(err)
	}
	c := small(f)
	c.Text.Vocabulary, c.Picture, c.Clip = tokens.Size()+3, marks.Picture, marks.Clip
	w := newWorkshop(t, c, autograd.Options{}, ".*")
	all, err := w.p.Stored()
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		all[i].Name = rename(all[i].Name)
	}
	if err := safetensors.Write(filepath.Join(dir, "model.safetensors"), all, nil); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "config.json", settingsOf(c))
	put(t, dir, "preprocessor_config.json", map[string]any{"patch_size": 4, "merge_size": 2, "temporal_patch_size": 2, "min_pixels": 64, "max_pixels": 1024})
	put(t, dir, "generation_config.json", map[string]any{"do_sample": true, "temperature": 0.7, "eos_token_id": []int{3, 5}})
	return dir
}

func asStored(name string) string { return name }

func put(t *testing.T, dir, name string, v map[string]any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// settingsOf is a model's config.json in the nested layout.
func settingsOf(c Config) map[string]any {
	x, v := c.Text, c.Vision
	return map[string]any{"model_type": c.Family.String(), "image_token_id": c.Picture, "video_token_id": c.Clip,
		"text_config": map[string]any{"vocab_size": x.Vocabulary, "hidden_size": x.Width, "intermediate_size": x.Inner, "num_hidden_layers": x.Layers,
			"num_attention_heads": x.Heads, "num_key_value_heads": x.KVHeads, "head_dim": x.HeadDim, "rms_norm_eps": x.Eps, "rope_theta": x.Theta,
			"rope_scaling": map[string]any{"type": "mrope", "mrope_section": x.Sections},
			"layer_types":  x.Kinds, "linear_conv_kernel_dim": x.Taps, "linear_key_head_dim": x.KeyDim, "linear_value_head_dim": x.ValueDim,
			"linear_num_key_heads": x.KeyHeads, "linear_num_value_heads": x.ValueHeads, "partial_rotary_factor": x.Turning,
			"num_experts": x.Experts, "num_experts_per_tok": x.Chosen, "moe_intermediate_size": x.ExpertInner, "decoder_sparse_step": x.SparseStep, "mlp_only_layers": x.Dense},
		"vision_config": map[string]any{"depth": v.Layers, "hidden_size": v.Width, "intermediate_size": v.Inner, "num_heads": v.Heads, "out_hidden_size": v.Out,
			"patch_size": v.Patch, "window_size": v.Window, "fullatt_block_indexes": v.Whole, "num_position_embeddings": v.Side, "deepstack_visual_indexes": v.Deep}}
}

func options(w workshop) Options {
	return Options{Pool: w.pool, DType: w.o.DType, Math: w.o.Math, Template: "qwen2_5_vl"}
}

// spotted is a picture with something to see.
func spotted(width, height int) *vision.Raster {
	r := vision.NewRaster(width, height, 3)
	for i := range r.Pix {
		r.Pix[i] = uint8(7 * i % 251)
	}
	return r
}

// TestOpen: a folder with the published names of parameters and one with today's read, draw and
// adapt alike.
func TestOpen(t *testing.T) {
	w := newWorkshop(t, small(FamilyQwen25VL), autograd.Options{})
	published := folderOf(t, FamilyQwen25VL, asStored)
	today := folderOf(t, FamilyQwen25VL, func(n string) string {
		if rest, ok := strings.CutPrefix(n, "model."); ok {
			return "model.language_model." + rest
		}
		return strings.Replace(n, "visual.", "model.visual.", 1)
	})
	text, err := Qwen25VL.Render([]Message{{Role: "user", Content: []Part{{Kind: PicturePart}, {Text: "What is this?"}}}}, Rendering{Generate: true})
	if err != nil {
		t.Fatal(err)
	}
	answer := func(o Options, dir string) ([]float32, *Folder) {
		f, err := Open(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		s, err := f.Read(text, spotted(40, 28))
		if err != nil {
			t.Fatal(err)
		}
		d := f.Decoder(1)
		defer d.Close()
		z, err := d.Extend(0, s)
		if err != nil {
			t.Fatal(err)
		}
		return z, f
	}
	o := options(w)
	a, f := answer(o, published)
	if b, _ := answer(o, today); !slices.Equal(a, b) {
		t.Error("names of parameters change the logits")
	}
	if g := f.Generation; g.Temperature != 0.7 || !slices.Equal(g.Ends, []int32{3, 5}) || g.TopP != 1 || !g.Sample {
		t.Errorf("the folder recommends %+v", g)
	}
	o.LoRA = &nn.LoRA{Rank: 2, Alpha: 4, Targets: []string{"q_proj", "down_proj"}}
	b, f := answer(o, published)
	if !slices.Equal(a, b) {
		t.Error("a fresh adapter changes the logits")
	}
	if m := f.Adapters.Modules(); !slices.Contains(m, "model.language_model.layers.2.self_attn.q_proj") || slices.Contains(m, "model.visual.blocks.0.attn.qkv") {
		t.Errorf("adapters sit on %v", m)
	}
	for _, p := range f.Adapters.Params() {
		x := p.Value.F32()
		for i := range x {
			x[i] += 0.05 * float32(i%7-3)
		}
		p.Value.UploadF32(x)
		p.Updated()
	}
	dir := t.TempDir()
	if err := peft.Write(dir, f.Adapters, peft.Settings{Rank: 2, Alpha: 4}); err != nil {
		t.Fatal(err)
	}
	s, err := f.Read(text, spotted(40, 28))
	if err != nil {
		t.Fatal(err)
	}
	d := f.Decoder(1)
	defer d.Close()
	changed, err := d.Extend(0, s)
	if err != nil || slices.Equal(changed, a) {
		t.Fatalf("the adapter changes nothing (%v)", err)
	}
	o.LoRA, o.Adapter = nil, dir
	if b, _ = answer(o, today); !slices.Equal(b, changed) {
		t.Error("an adapter that was written and read is another")
	}
}

// TestRatioIsOne: with an adapter that has learned something, the trainer's log-probabilities are
// those of the rollout, bit for bit, and its gradients reach the adapter.
func TestRatioIsOne(t *testing.T) {
	for _, of := range []Family{FamilyQwen3VL, FamilyQwen35, FamilyQwen3VLMoE} {
		for name, o := range precisions {
			t.Run(of.String()+", "+name, func(t *testing.T) { ratioIsOne(t, of, name, o) })
		}
	}
}

func ratioIsOne(t *testing.T, of Family, name string, o autograd.Options) {
	w := newWorkshop(t, small(of), o)
	opt := options(w)
	opt.LoRA = &nn.LoRA{Rank: 3, Alpha: 6, Targets: []string{"all-linear"}}
	f, err := Open(folderOf(t, of, asStored), opt)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range f.Adapters.Params() {
		x := p.Value.F32()
		for i := range x {
			x[i] += 0.03 * float32(i%5-2)
		}
		p.Value.UploadF32(x)
		p.Updated()
	}
	s, err := f.Read("Look: "+picture+" what?", spotted(40, 28))
	if err != nil {
		t.Fatal(err)
	}
	d := f.Decoder(1)
	if _, err := d.Extend(0, s); err != nil {
		t.Fatal(err)
	}
	var rows, said []int32
	var old []float32
	for i := range int32(9) {
		id := 3 + 7*i
		lp, err := d.LogProbs([]int32{id}, 1)
		if err != nil {
			t.Fatal(err)
		}
		rows, said, old = append(rows, int32(d.Len(0)-1)), append(said, id), append(old, lp[0])
		if _, err := d.Step([]int{0}, []int32{id}); err != nil {
			t.Fatal(err)
		}
	}
	s.IDs = slices.Clone(d.IDs(0))
	tp := f.Tape(true, autograd.AllBlocks)
	h, err := f.Hidden(tp, s)
	if err != nil {
		t.Fatal(err)
	}
	y := f.LogProbs(tp, h, rows, said, 1)
	if !slices.Equal(y.F32(), old) {
		t.Errorf("%s: log-probabilities are %v, and were %v", name, y.F32(), old)
	}
	_, seed := autograd.Sum(y)
	tp.Backward(seed)
	for _, p := range f.Adapters.Params() {
		if !strings.Contains(p.Name, "layers.2.") && p.Grad() == nil {
			t.Errorf("%s: no gradient reaches %s", name, p.Name)
		}
	}
	tp.Reset()
	d.Close()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestValueHead: values start at 0 and move against their gradient.
func TestValueHead(t *testing.T) {
	w := newWorkshop(t, small(FamilyQwen25VL), autograd.Options{})
	f, err := Open(folderOf(t, FamilyQwen25VL, asStored), options(w))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	v, err := NewValueHead(w.pool, f.Text.Width, rng.New(1))
	if err != nil {
		t.Fatal(err)
	}
	defer v.Params.Free()
	value := func() float64 {
		tp := f.Tape(true, 0)
		defer tp.Reset()
		h, err := f.Hidden(tp, Stretch{IDs: []int32{5, 6, 7, 8}})
		if err != nil {
			t.Fatal(err)
		}
		mean, seed := autograd.Mean(v.Values(tp, h, []int32{1, 3}))
		tp.Backward(seed)
		return mean
	}
	if got := value(); got != 0 {
		t.Errorf("a fresh head says %v", got)
	}
	before := 0.0
	for _, p := range v.Params.All() {
		x, g := p.Value.F32(), p.Grad().F32()
		for i := range x {
			x[i] += 0.01 * g[i]
			before += 0.01 * float64(g[i]) * float64(g[i])
		}
		p.Value.UploadF32(x)
		p.Updated()
	}
	if got := value(); math.Abs(got-before) > 1e-5*before { // it is linear
		t.Errorf("a step of 0.01 along the gradient gives %v, not %v", got, before)
	}
}

// TestAnswerer: the same question has the same answer, which ends; chances are those of the
// tokens one by one.
func TestAnswerer(t *testing.T) {
	w := newWorkshop(t, small(FamilyQwen25VL), autograd.Options{})
	dir := folderOf(t, FamilyQwen25VL, asStored)
	a, err := OpenAnswerer(dir, features.On(w.pool, features.F32), "qwen2_5_vl")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	ctx, pictures := context.Background(), []*vision.Image{spotted(40, 28).RGB(), spotted(20, 20).RGB()}
	a.Most = 6
	if said, err := a.Complete(ctx, pictures, "Which is better?"); !errors.Is(err, ErrTooLong) {
		t.Fatalf("drawn weights answered %q, %v", said, err)
	}
	s, err := a.question(pictures, "Which is better?")
	if err != nil {
		t.Fatal(err)
	}
	d := a.NewDecoder(w.pool, autograd.Options{}, 1)
	defer d.Close()
	z, err := d.Extend(0, s)
	if err != nil {
		t.Fatal(err)
	}
	likeliest, err := d.Draw(Sampling{Banned: a.Config.Banned()})
	if err != nil {
		t.Fatal(err)
	}
	first := likeliest[0].ID
	e, err := a.Tokens.Encode("Yes, it is")
	if err != nil {
		t.Fatal(err)
	}
	second := e.IDs
	if z[first] < z[second[0]] {
		t.Fatal("the likeliest token is not")
	}
	lp, err := d.LogProbs(second[:1], 1)
	if err != nil {
		t.Fatal(err)
	}
	sum := float64(lp[0])
	for i, id := range second[:len(second)-1] {
		if _, err := d.Step([]int{0}, []int32{id}); err != nil {
			t.Fatal(err)
		}
		if lp, err = d.LogProbs(second[i+1:i+2], 1); err != nil {
			t.Fatal(err)
		}
		sum += float64(lp[0])
	}
	p, err := a.Chances(ctx, pictures, "Which is better?", []string{"Yes, it is", "No"})
	if err != nil || p[0] != math.Exp(sum) || !(p[1] > 0 && p[1] < 1) {
		t.Errorf("chances of %v, %v; token by token %v", p, err, math.Exp(sum))
	}
	a.Generation.Ends = []int32{first}
	for range 2 {
		if said, err := a.Complete(ctx, pictures, "Which is better?"); err != nil || said != "" {
			t.Errorf("an answer that ends at once: %q, %v", said, err)
		}
	}
	if _, err := a.Complete(ctx, []*vision.Image{nil}, "?"); err == nil {
		t.Error("no picture was judged")
	}
	if _, err := a.Chances(ctx, nil, "?", []string{""}); err == nil {
		t.Error("an empty answer has a chance")
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	a.Generation.Ends = []int32{3}
	if _, err := a.Complete(gone, pictures, "?"); !errors.Is(err, context.Canceled) {
		t.Errorf("a question that was taken back: %v", err)
	}
}

// TestHostileFolders: a folder that is spoilt in one place is an error that names it.
func TestHostileFolders(t *testing.T) {
	w := newWorkshop(t, small(FamilyQwen3VL), autograd.Options{})
	whole := folderOf(t, FamilyQwen3VL, asStored)
	live := w.pool.Stats().Live
	if f, err := Open(whole, options(w)); err != nil {
		t.Fatal(err)
	} else if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	in := func(file string, change func(m map[string]any)) func(dir string) {
		return func(dir string) {
			data, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				t.Fatal(err)
			}
			var m map[string]any
			if err := json.Unmarshal(data, &m); err != nil {
				t.Fatal(err)
			}
			change(m)
			put(t, dir, file, m)
		}
	}
	text := func(key string, v any) func(dir string) {
		return in("config.json", func(m map[string]any) { m["text_config"].(map[string]any)[key] = v })
	}
	tower := func(key string, v any) func(dir string) {
		return in("config.json", func(m map[string]any) { m["vision_config"].(map[string]any)[key] = v })
	}
	top := func(file, key string, v any) func(dir string) {
		return in(file, func(m map[string]any) { m[key] = v })
	}
	remove := func(file string) func(dir string) {
		return func(dir string) {
			if err := os.Remove(filepath.Join(dir, file)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for want, spoil := range map[string]func(dir string){
		"qwen9_vl":                      top("config.json", "model_type", "qwen9_vl"),
		"quantised":                     top("config.json", "quantization_config", map[string]any{"bits": 4}),
		`"image_token_id"`:              top("config.json", "image_token_id", -4),
		"the tokenizer's marks":         top("config.json", "image_token_id", 5),
		`"vocab_size" is 1099511627776`: text("vocab_size", 1<<40),
		"they do not belong together":   text("vocab_size", 534),
		"its shape is":                  text("intermediate_size", 1<<17),
		"layers.3.":                     text("num_hidden_layers", 512),
		"no such parameter":             text("num_hidden_layers", 1),
		"mrope_section":                 text("rope_scaling", map[string]any{"mrope_section": []int{1 << 40, 1, 1}}),
		`"dynamic"`:                     text("rope_scaling", map[string]any{"mrope_section": []int{3, 1, 2}, "rope_type": "dynamic"}),
		`"factor"`:                      text("rope_scaling", map[string]any{"mrope_section": []int{3, 1, 2}, "rope_type": "yarn"}),
		"use_sliding_window":            text("use_sliding_window", true),
		"num_position_embeddings":       tower("num_position_embeddings", 35),
		"deepstack_visual_indexes":      tower("deepstack_visual_indexes", []int{9}),
		"the tower reads":               tower("spatial_merge_size", 1),
		"preprocessor_config.json":      remove("preprocessor_config.json"),
		"eos_token_id":                  top("generation_config.json", "eos_token_id", "end"),
		"none of the vocabulary's":      top("generation_config.json", "eos_token_id", 1<<30),
		"temperature":                   top("generation_config.json", "temperature", -1),
		"tokenizer":                     remove("tokenizer.json"),
		"model.safetensors":             func(dir string) { os.WriteFile(filepath.Join(dir, "model.safetensors"), []byte("none"), 0o644) },
		"config.json":                   func(dir string) { os.WriteFile(filepath.Join(dir, "config.json"), []byte("{"), 0o644) },
	} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
			t.Fatal(err)
		}
		spoil(dir)
		f, err := Open(dir, options(w))
		if err == nil {
			f.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q was expected, not %v", want, err)
		}
	}
	o := options(w)
	o.Template = ""
	if _, err := Open(whole, o); err == nil || !strings.Contains(err.Error(), "chat template") {
		t.Errorf("a folder without a template: %v", err)
	}
	if n := w.pool.Stats().Live; n != live {
		t.Errorf("%d pieces of memory are in use after refusals, %d before", n, live)
	}
}

// TestNames: either name becomes the one that is asked for, and others stay.
func TestNames(t *testing.T) {
	for _, pair := range [][2]string{
		{"model.layers.3.self_attn.q_proj", "model.language_model.layers.3.self_attn.q_proj"},
		{"model.layers.3.mlp.up_proj.weight", "model.language_model.layers.3.mlp.up_proj.weight"},
		{"visual.blocks.0.attn.qkv", "model.visual.blocks.0.attn.qkv"},
		{"model.norm.weight", "model.language_model.norm.weight"},
		{"model.embed_tokens", "model.language_model.embed_tokens"},
		{"lm_head", "lm_head"},
	} {
		for _, name := range pair {
			if got := Transformers4.Of(name); got != pair[0] {
				t.Errorf("%s of old: %s", name, got)
			}
			if got := Transformers5.Of(name); got != pair[1] {
				t.Errorf("%s of today: %s", name, got)
			}
		}
	}
	if NamesOf([]string{"lm_head.weight", "model.language_model.norm.weight"}) != Transformers5 || NamesOf([]string{"model.norm.weight"}) != Transformers4 {
		t.Error("a folder's names are not recognised")
	}
}
