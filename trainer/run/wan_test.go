package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/golden"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/vision"
)

// twoNetworks is a recorded Wan 2.2 A14B, and betweenPictures a recorded Wan 2.1 that reads a first and a last picture.
var (
	twoNetworks     = golden.Folder("models") + "/pipe_wan22_t2v"
	betweenPictures = golden.Folder("models") + "/pipe_wan_flf2v"
)

// wanFolder is a folder of one of Wan's pipelines, which is made of a recorded one:
//
//	t2v       Wan 2.1, of texts: the two networks' folder with the first alone
//	ti2v      Wan 2.2 5B: the same with a time for each frame of latents
//	i2v       Wan 2.1 of a first picture: betweenPictures without places of a last one's tokens
//	a14b-i2v  Wan 2.2 A14B of a first picture: betweenPictures without tokens, twice
func wanFolder(t *testing.T, kind string) string {
	t.Helper()
	from := map[bool]string{true: twoNetworks, false: betweenPictures}[kind == "t2v" || kind == "ti2v"]
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.CopyFS(dir, os.DirFS(from)))
	settings := func(name string, change map[string]any) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name))
		must(err)
		said := map[string]any{}
		must(json.Unmarshal(text, &said))
		maps.Copy(said, change)
		maps.DeleteFunc(said, func(_ string, v any) bool { return v == nil })
		text, err = json.Marshal(said)
		must(err)
		must(os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	without := func(pattern string) {
		t.Helper()
		file := filepath.Join(dir, "transformer", "diffusion_pytorch_model.safetensors")
		f, err := safetensors.Open(file)
		must(err)
		var kept []safetensors.Tensor
		for _, name := range f.Names() {
			if !regexp.MustCompile(pattern).MatchString(name) {
				one, err := f.Tensor(name)
				must(err)
				one.Data = slices.Clone(one.Data)
				kept = append(kept, one)
			}
		}
		must(f.Close())
		must(safetensors.Write(file, kept, nil))
	}
	switch kind {
	case "t2v", "ti2v":
		settings("model_index.json", map[string]any{"boundary_ratio": nil, "transformer_2": nil, "expand_timesteps": kind == "ti2v"})
		must(os.RemoveAll(filepath.Join(dir, "transformer_2")))
	case "i2v":
		settings("transformer/config.json", map[string]any{"pos_embed_seq_len": nil})
		without("pos_embed$")
	case "a14b-i2v":
		settings("transformer/config.json", map[string]any{"pos_embed_seq_len": nil, "image_dim": nil, "added_kv_proj_dim": nil})
		without("image_embedder|add_[kv]_proj|norm_added_k")
		settings("model_index.json", map[string]any{"boundary_ratio": 0.9, "image_encoder": nil, "image_processor": nil, "transformer_2": []string{"diffusers", "WanTransformer3DModel"}})
		must(os.CopyFS(filepath.Join(dir, "transformer_2"), os.DirFS(filepath.Join(dir, "transformer"))))
	}
	return dir
}

// adaptersMoved reports, of each network of two, whether the checkpoint's adapter moved: 0 without one, 1 as it
// began, 2 moved.
func adaptersMoved(t *testing.T, dir, checkpoint string) (of [2]int) {
	t.Helper()
	for i, below := range []string{"", model.Second} {
		f, err := safetensors.Open(filepath.Join(dir, "checkpoints", checkpoint, below, "adapter_model.safetensors"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		of[i] = 1
		for _, name := range f.Names() {
			one, err := f.Tensor(name)
			if err != nil {
				t.Fatal(err)
			}
			x, err := one.Float32(nil)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(name, "lora_B.weight") && slices.ContainsFunc(x, func(v float32) bool { return v != 0 }) {
				of[i] = 2
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return of
}

// TestTwoNetworks: of two networks that take turns those are trained that model.experts names, each with an adapter
// of its own. The first ratio is 1; neither threads, nor the samples in a pass, nor a stop change a byte; a network
// whose steps the window leaves out stays as it was.
func TestTwoNetworks(t *testing.T) {
	if !*long {
		t.Skip("trains ten models of two networks: -long, .ci/run slow")
	}
	two := []string{"model.path=" + twoNetworks, "evaluate.prompts=''", "sampler.guidance_2=1.5", "optim.updates=2"} // a second update has something to clip: the floor is measured
	first, second := `sampler.window={ kind = "frozen", size = 1 }`, `sampler.window={ kind = "range", low = 0.4, high = 0.9 }`
	for _, c := range []struct {
		experts, window string
		want            [2]int
	}{
		{"both", `sampler.window={ kind = "full" }`, [2]int{2, 2}}, {"both", first, [2]int{2, 1}}, {"both", second, [2]int{1, 2}},
		{"high", first, [2]int{2, 0}}, {"low", second, [2]int{0, 2}},
	} {
		e := parseText(t, clips, append(two, "model.experts="+c.experts, c.window)...)
		whole := t.TempDir()
		if _, err := train(t, e, whole, false, 2, -1); err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		if l := firstLine(t, whole); len(l.Updates) == 0 || l.Updates[0].Gradient == 0 || l.Check.Ratio != 1 || l.Check.Floor == nil {
			t.Errorf("%+v: %+v, %+v", c, l.Updates, l.Check)
		}
		if got := adaptersMoved(t, whole, "000002"); got != c.want {
			t.Errorf("%+v: adapters are %v", c, got)
		}
		if c.want[1] == 2 && c.window != second || c.experts == "low" {
			brokenLike(t, e, whole)
		}
		if c.experts != "both" || c.want != [2]int{2, 2} {
			continue
		}
		again := parseText(t, clips, append(two, "run.iterations=1", c.window, "optim.lr=1e-30", "model.adapter="+whole)...)
		begun := t.TempDir()
		if _, err := train(t, again, begun, false, 2, -1); err != nil {
			t.Fatal(err)
		}
		if got := adaptersMoved(t, begun, "000001"); got != c.want {
			t.Errorf("a run that begins with both adapters has %v", got)
		}
	}
}

// TestTwoNetworksObjectives: objectives that noise samples ask both networks,
// and whole networks are trained as adapters are.
func TestTwoNetworksObjectives(t *testing.T) {
	two := []string{"model.path=" + twoNetworks, "evaluate.prompts=''", "sampler.guidance_2=1.5", "run.iterations=1", `sampler.window={ kind = "full" }`}
	for name, sets := range map[string][]string{
		"NFT":  {"preset=nft", "sampler.solver=euler", "loss.times=4", "optim.ema=0"},
		"full": {`model.train=["blocks.*attn1.*"]`, "loss.kl={ weight = 0.1 }", "optim.ema=0.5", "loss.noise_floor=off"},
	} {
		e := parseText(t, clips, append(two, sets...)...)
		whole := t.TempDir()
		if _, err := train(t, e, whole, false, 2, -1); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if l := firstLine(t, whole); len(l.Updates) == 0 || l.Updates[0].Gradient == 0 {
			t.Errorf("%s: %+v", name, l.Updates)
		}
		if got := adaptersMoved(t, whole, "000001"); name == "NFT" && got != [2]int{2, 2} {
			t.Errorf("%s: adapters are %v", name, got)
		}
	}
}

// TestTwoNetworksMemory: where both networks are trained, the gradients and averages of both count.
func TestTwoNetworksMemory(t *testing.T) {
	training := func(experts, window string) int64 {
		n, err := Memory(parseText(t, clips, "model.path="+twoNetworks, "sampler.guidance_2=1.5", "model.train=full", "model.precision=f32", "model.experts="+experts, window), cpu.NewDry(cpu.Options{}), 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		return n.Training
	}
	one, both := training("high", `sampler.window={ kind = "frozen", size = 1 }`), training("both", `sampler.window={ kind = "full" }`)
	f, err := safetensors.Open(filepath.Join(twoNetworks, "transformer_2", "diffusion_pytorch_model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// A gradient and two averages in fp32; trained parameters are in fp32 either way.
	if more, least := both-one, 3*f.Bytes*9/10; more < least {
		t.Errorf("one network takes %d bytes, both %d: %d more, and at least %d are needed", one, both, more, least)
	}
}

// TestTwoNetworksRefused: settings that two networks cannot train with are refused before anything is rolled.
func TestTwoNetworksRefused(t *testing.T) {
	two := []string{"model.path=" + twoNetworks, "run.iterations=1", "evaluate.prompts=''", "sampler.guidance_2=1.5"}
	for want, sets := range map[string][]string{
		"steps below 1 are the first one's": {"model.experts=high", `sampler.window={ kind = "full" }`},
		"the second one's is missing":       {"sampler.guidance_2=0"},
		"loss.kl.guidance = 3 is one":       {"loss.kl={weight=1, reference='base', guidance=3}"},
		"to the times of both":              {"model.experts=low", "preset=nft", "sampler.solver=euler"},
		"sampler.frames is missing":         {"sampler.frames=0", "reward=[{name = 'jpeg'}]"},
		"there must be 1 more than":         {"sampler.frames=6"},
	} {
		e := parseText(t, clips, append(two, sets...)...)
		if _, err := train(t, e, t.TempDir(), false, 2, -1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", sets, err)
		}
	}
}

// pictureFiles writes pictures, and gives a function that writes a list of prompts beside them.
func pictureFiles(t *testing.T) (list func(name string, lines ...string) string) {
	t.Helper()
	dir := t.TempDir()
	for i := range 3 {
		m := vision.New(40, 30)
		for k := range m.Pix {
			m.Pix[k] = uint8(60*i + k%53)
		}
		out, err := os.Create(filepath.Join(dir, fmt.Sprintf("%d.png", i)))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(vision.EncodePNG(out, m), out.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return func(name string, lines ...string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
}

// TestClipsOfPictures: a clip begins with the picture that its prompt names, or is made between two, in each of Wan's
// pipelines. The first ratio is 1; neither threads, nor the samples in a pass, nor a stop change a byte; prompts that
// name too few pictures, or too many, are refused.
func TestClipsOfPictures(t *testing.T) {
	if !*long {
		t.Skip("trains four kinds of models, stopped and resumed: -long, .ci/run slow")
	}
	list := pictureFiles(t)
	one := list("one.jsonl", `{"prompt": "a cat runs", "image": "0.png"}`, `{"prompt": "a cat runs", "image": "1.png"}`)
	both := list("both.jsonl", `{"prompt": "a cat runs", "image": ["0.png", "1.png"]}`, `{"prompt": "a cat runs", "image": ["1.png", "2.png"]}`)
	some := list("some.jsonl", `{"prompt": "a cat runs", "image": "0.png"}`, `{"prompt": "a cat runs"}`)
	for kind, prompts := range map[string]string{"flf2v": both, "i2v": one, "ti2v": some, "a14b-i2v": one} {
		path := betweenPictures
		sets := []string{"rollout.prompts=" + prompts, "sampler.guidance=1", "evaluate.prompts=''"}
		if kind != "flf2v" {
			path = wanFolder(t, kind)
		}
		if kind == "a14b-i2v" {
			sets = append(sets, "sampler.guidance_2=1", `sampler.window={ kind = "full" }`)
		}
		e := parseText(t, clips, append(sets, "model.path="+path)...)
		whole := t.TempDir()
		if _, err := train(t, e, whole, false, 2, -1); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		l := firstLine(t, whole)
		if c := l.Check; c == nil || c.Ratio != 1 || len(l.Updates) == 0 || l.Updates[0].Gradient == 0 {
			t.Errorf("%s: %+v, %+v", kind, c, l.Updates)
		}
		if kind == "a14b-i2v" && adaptersMoved(t, whole, "000002") != [2]int{2, 2} {
			t.Errorf("%s: adapters are %v", kind, adaptersMoved(t, whole, "000002"))
		}
		brokenLike(t, e, whole)
	}
	for want, c := range map[string][2]string{
		"it names no image":       {betweenPictures, `{"prompt": "a"}`},
		"a clip's first and last": {betweenPictures, `{"prompt": "a", "image": "0.png"}`},
	} {
		few := list("few.jsonl", c[1], `{"prompt": "b", "image": ["0.png", "1.png"]}`)
		e := parseText(t, clips, "model.path="+c[0], "rollout.prompts="+few, "sampler.guidance=1", "evaluate.prompts=''")
		if _, err := train(t, e, t.TempDir(), false, 2, -1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", c[1], err)
		}
	}
}
