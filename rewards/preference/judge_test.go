package preference

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

// TestSettings: what VideoReward was not published with is refused, with what to do.
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
	for old, next := range map[string][2]string{`"lora_enable": false`: {`"lora_enable": true`, "must be merged"}, "detailed_special": {"detailed", "published folders have"},
		`"MQ_std": 2`: {`"MQ_std": 0`, "no positive MQ_std"}, "200704": {"0", "must be positive"}} {
		if _, err := read(strings.Replace(said, old, next[0], 1)); err == nil || !strings.Contains(err.Error(), next[1]) {
			t.Errorf("%s: %v", next[0], err)
		}
	}
	m := &vision.Image{Width: 1, Height: 1, Pix: []uint8{200, 100, 50}}
	if g := gray(m); g.Pix[0] != 124 || g.Pix[2] != 124 {
		t.Errorf("gray is %v", g.Pix)
	}
	if _, err := j.Score(t.Context(), rewards.Item{Image: m}); err == nil {
		t.Error("a picture is judged as a clip")
	}
}
