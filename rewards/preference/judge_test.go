package preference

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// recorded is a case of the published projects, with its folder and tensors.
func recorded(t *testing.T, name string, into any) (dir string, numbers func(name string) safetensors.Tensor) {
	t.Helper()
	root := os.Getenv("DARKROOM_GOLDEN")
	if root == "" {
		t.Skip("the recorded networks are not part of the repository: DARKROOM_GOLDEN names the folder of recorded cases")
	}
	dir = filepath.Join(root, "qwen2vl", name)
	text, err := os.ReadFile(filepath.Join(dir, "case.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open(filepath.Join(dir, "tensors.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return dir, func(name string) safetensors.Tensor {
		x, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
}

func device() *features.Device { return features.On(tensor.NewPool(ref.Backend{}), features.F32) }

// TestVideoReward: the recorded rewards of two clips, each axis and their sum.
func TestVideoReward(t *testing.T) {
	var c struct {
		Prompts []string
		Args    struct {
			FPS []float64 `json:"clip_fps"`
		}
		Rewards []map[string]float64
	}
	dir, numbers := recorded(t, "videoreward", &c)
	j, err := OpenVideo(dir, device())
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for i, prompt := range c.Prompts {
		x := numbers(fmt.Sprintf("clip.%d", i))
		clip := &video.Clip{Width: x.Shape[2], Height: x.Shape[1], Rate: video.Rate{Num: int(c.Args.FPS[i]), Den: 1}}
		each := len(x.Data) / x.Shape[0]
		for f := range x.Shape[0] {
			clip.Frames = append(clip.Frames, x.Data[f*each:(f+1)*each])
		}
		got, err := j.Score(t.Context(), rewards.Item{Prompt: prompt, Clip: clip})
		if err != nil {
			t.Fatal(err)
		}
		for axis, want := range c.Rewards[i] {
			v := got.Value
			if axis != "Overall" {
				v = got.Parts[strings.ToLower(axis)]
			}
			if math.Abs(v-want) > 2e-4 {
				t.Errorf("%s of clip %d is %v, and was recorded as %v", axis, i, v, want)
			}
		}
	}
}

// TestHPSv3: the recorded scores of two pictures.
func TestHPSv3(t *testing.T) {
	var c struct{ Prompts []string }
	dir, numbers := recorded(t, "hpsv3", &c)
	j, err := OpenPicture(dir, device())
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	want, err := numbers("scores").Float32(nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, prompt := range c.Prompts {
		x := numbers(fmt.Sprintf("image.%d", i))
		m := &vision.Image{Width: x.Shape[1], Height: x.Shape[0], Pix: x.Data}
		got, err := j.Score(t.Context(), rewards.Item{Prompt: prompt, Image: m})
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(got.Value-float64(want[2*i])) > 2e-4 || math.Abs(got.Parts["sigma"]-float64(want[2*i+1])) > 2e-4 {
			t.Errorf("picture %d: %+v, recorded %v", i, got, want[2*i:2*i+2])
		}
	}
}

// TestEditReward: on the recorded network of HPSv3, each question goes to a head of its own, and the value is the mean
// of both; pictures before and after are not the same to it, and a sample of no picture has no score.
func TestEditReward(t *testing.T) {
	if _, err := (&EditJudge{}).Score(t.Context(), rewards.Item{Image: vision.New(8, 8)}); !errors.Is(err, rewards.ErrNoSource) {
		t.Errorf("a sample of no picture: %v", err)
	}
	dir, numbers := recorded(t, "hpsv3", &struct{}{})
	j, err := OpenEdit(editFolder(t, dir), device())
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	var m [2]*vision.Image
	for i := range m {
		x := numbers(fmt.Sprintf("image.%d", i))
		m[i] = &vision.Image{Width: x.Shape[1], Height: x.Shape[0], Pix: x.Data}
	}
	ask := func(before, after *vision.Image) rewards.Score {
		got, err := j.Score(t.Context(), rewards.Item{Prompt: "make the sky red", Image: after, Sources: []*vision.Image{before}})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	there, back := ask(m[0], m[1]), ask(m[1], m[0])
	if there.Parts["quality"] != 3 || there.Value != (there.Parts["following"]+3)/2 || there.Parts["following"] == 3 {
		t.Errorf("%+v: the second head says 3", there)
	}
	if there.Parts["following"] == back.Parts["following"] {
		t.Errorf("%+v, whichever picture is before", there)
	}
}

// editFolder is HPSv3's with two heads: its own, and one that says 3; named as transformers names them since 4.52.
func editFolder(t *testing.T, from string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"config.json", "chat_template.json", "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json"} {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f, err := safetensors.Open(filepath.Join(from, pictureFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []safetensors.Tensor
	for _, name := range f.Names() {
		x, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		layer, head := strings.CutPrefix(name, "rm_head.")
		if rest, decoder := strings.CutPrefix(name, "model."); decoder {
			x.Name = "model.language_model." + rest
		} else if strings.HasPrefix(name, "visual.") {
			x.Name = "model." + name
		}
		if !head {
			all = append(all, x)
			continue
		}
		x.Name = "rm_heads.head_0." + layer
		second := make([]float32, x.Len())
		if layer == "5.bias" {
			second[0] = 3
		}
		all = append(all, x, safetensors.FromF32("rm_heads.head_1."+layer, x.Shape, second))
	}
	if err := safetensors.Write(filepath.Join(dir, "model.safetensors"), all, nil); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestSettings: settings that VideoReward was not published with are refused, with a remedy.
func TestSettings(t *testing.T) {
	const said = `{"data_config": {"fps": 2, "max_frame_pixels": 200704, "prompt_template_type": "detailed_special", "eval_dim": ["VQ", "MQ", "TA"]},
		"model_config": {"use_special_tokens": true}, "peft_lora_config": {"lora_enable": false},
		"inference_config": {"VQ_mean": 1, "VQ_std": 2, "MQ_mean": 1, "MQ_std": 2, "TA_mean": 1, "TA_std": 4}}`
	file := filepath.Join(t.TempDir(), "model_config.json")
	read := func(text string) (*Judge, error) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		j := &Judge{clips: true}
		return j, j.readSettings(file)
	}
	j, err := read(said)
	if err != nil {
		t.Fatal(err)
	}
	for axis, want := range map[string]float64{"": 4.75, "overall": 4.75, "vq": 1, "mq": 2, "ta": 1.75} {
		j.Axis = axis
		if s := j.read([]float32{3, 5, 8}); s.Value != want || s.Parts["mq"] != 2 {
			t.Errorf("axis %q: %+v, not %v", axis, s, want)
		}
	}
	for old, next := range map[string][2]string{"detailed_special": {"detailed", "published folders have"},
		`"MQ_std": 2`: {`"MQ_std": 0`, "no positive MQ_std"}, "200704": {"0", "must be positive"}} {
		if _, err := read(strings.Replace(said, old, next[0], 1)); err == nil || !strings.Contains(err.Error(), next[1]) {
			t.Errorf("%s: %v", next[0], err)
		}
	}
	if _, err := read(strings.Replace(said, `"lora_enable": false`, `"lora_enable": true`, 1)); err != nil {
		t.Error(err)
	}
	if _, err := OpenVideo(filepath.Dir(file), device()); err == nil || !strings.Contains(err.Error(), "no checkpoint-N/model.pth") {
		t.Errorf("an adapter that is not there: %v", err)
	}
	m := &vision.Image{Width: 1, Height: 1, Pix: []uint8{200, 100, 50}}
	if g := gray(m); g.Pix[0] != 124 || g.Pix[2] != 124 {
		t.Errorf("gray is %v", g.Pix)
	}
	if _, err := j.Score(t.Context(), rewards.Item{Image: m}); err == nil {
		t.Error("a picture is judged as a clip")
	}
}

// TestHPSv3Slope: the gradient at a recorded picture is its score's, by differences along it.
func TestHPSv3Slope(t *testing.T) {
	var c struct{ Prompts []string }
	dir, numbers := recorded(t, "hpsv3_tensor", &c)
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	j, err := OpenPicture(dir, features.On(tensor.NewPool(be), features.F32))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	x := numbers("image.0")
	m := vision.Pixels{Width: x.Shape[1], Height: x.Shape[0]}
	for _, v := range x.Data {
		m.RGB = append(m.RGB, float32(v)/255)
	}
	item := []rewards.Item{{Prompt: c.Prompts[0]}}
	_, grads, err := j.PixelGradient(t.Context(), item, []vision.Pixels{m})
	if err != nil {
		t.Fatal(err)
	}
	norm := 0.0
	for _, g := range grads[0] {
		norm += float64(g) * float64(g)
	}
	along := func(by float64) float64 {
		moved := vision.Pixels{Width: m.Width, Height: m.Height}
		for i, v := range m.RGB {
			moved.RGB = append(moved.RGB, v+float32(by*float64(grads[0][i])/math.Sqrt(norm)))
		}
		values, _, err := j.PixelGradient(t.Context(), item, []vision.Pixels{moved})
		if err != nil {
			t.Fatal(err)
		}
		return values[0]
	}
	if got := (along(0.02) - along(-0.02)) / 0.04; !(norm > 0) || math.Abs(got/math.Sqrt(norm)-1) > 0.02 {
		t.Errorf("along its gradient the score changes by %v, and the gradient's length is %v", got, math.Sqrt(norm))
	}
}

// TestHalves: an adapter beside other trained weights, as upstream's second layout has them, reads as one file:
// trained weights replace the base's, and the scale is model_config.json's.
func TestHalves(t *testing.T) {
	p, err := OpenPublished("testdata/halves")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if got := strings.Join(p.Names(), " "); got != "model.embed_tokens.weight model.layers.0.self_attn.q_proj.weight rm_head.weight" {
		t.Errorf("weights of the base: %s", got)
	}
	if p.lora.Rank != 1 || p.lora.Alpha != 2 || strings.Join(p.lora.Targets, " ") != "model.layers.0.self_attn.q_proj" {
		t.Errorf("the adapter is %+v", p.lora)
	}
	for name, want := range map[string]float32{"model.embed_tokens.weight": 5, "model.layers.0.self_attn.q_proj.weight": 2, "rm_head.weight": 6} {
		x, err := p.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := x.Float32(nil); err != nil || v[0] != want || x.Name != name {
			t.Errorf("%s is %v (%v), not %v", x.Name, v, err, want)
		}
	}
	if names := (pairsOf{p}).Names(); len(names) != 2 || names[0] != "model.layers.0.self_attn.q_proj.lora_A.weight" {
		t.Errorf("pairs: %v", names)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/halves")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "checkpoint-3", restFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenPublished(dir); err == nil || !strings.Contains(err.Error(), "what was trained besides") {
		t.Errorf("without the rest: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenPublished(dir); err == nil || !strings.Contains(err.Error(), "model_name_or_path") {
		t.Errorf("without a base: %v", err)
	}
}
