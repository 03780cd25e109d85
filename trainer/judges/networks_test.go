package judges

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/golden"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/neural"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/features"
)

var recordedRewards = golden.Folder("rewards") + "/neural/"

// A network is a reward whose folder is opened.
type network struct {
	reward, path string
	sets         []string
}

func (n network) open(d *features.Device) (Opened, error) {
	sets := n.sets
	if n.path != "" {
		sets = append(sets, "path="+n.path)
	}
	r, err := experiment.ParseReward(n.reward, sets)
	if n.path != "" && err != nil {
		return Opened{}, err
	}
	return Open(r, Bench{Device: func() (*features.Device, error) { return d, nil }})
}

// TestNetworks: each name opens its folder and judges, in the scale that its project publishes
// or that was asked for; recorded numbers stand in the folders' cases.
func TestNetworks(t *testing.T) {
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	d := features.On(tensor.NewPool(be), features.F32)
	open := func(name string) *vision.Image {
		m, err := vision.Open(recordedRewards+name, vision.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	prompt := "a photo of a red cup"
	var frames [][]uint8
	for _, name := range []string{"image_0.png", "image_1.png", "image_2.png", "image_3.png"} {
		frames = append(frames, open("dino_vit/"+name).Pix)
	}
	first := open("dino_vit/image_0.png")
	clip := &video.Clip{Width: first.Width, Height: first.Height, Frames: frames}
	edited := func(meta string) rewards.Item {
		item := rewards.Item{Image: open("dinov2/image_1.png"), Sources: []*vision.Image{open("dinov2/image_0.png")}}
		if err := json.Unmarshal([]byte(meta), &item.Meta); err != nil {
			t.Fatal(err)
		}
		return item
	}
	for _, c := range []struct {
		network
		item rewards.Item
		want float64
	}{
		{network{"clip", "clip_laion", nil}, rewards.Item{Prompt: prompt, Image: open("clip_laion/image_0.png")}, 0.0332807},
		{network{"pickscore", "clip_laion", nil}, rewards.Item{Prompt: prompt, Image: open("clip_laion/image_0.png")}, 3.328076},
		{network{"pickscore", "clip_laion", []string{"scaling=pickscore_mixgrpo"}}, rewards.Item{Prompt: prompt, Image: open("clip_laion/image_0.png")}, -1.8339905},
		{network{"hpsv2", "hpsv2", nil}, rewards.Item{Prompt: prompt, Image: open("hpsv2/image_0.png")}, 0.6327244},
		{network{"aesthetic", "aesthetic", nil}, rewards.Item{Image: open("aesthetic/image_0.png")}, 4.9329495},
		{network{"dino", "dino_vit", nil}, rewards.Item{Clip: clip}, 0.683557},
		{network{"backdrop", "clip_laion", nil}, rewards.Item{Clip: clip}, 0.922837}, // VBench's loop over transformers' CLIPModel
		// By transformers 5.23's Dinov2Model: last_hidden_state of both pictures, squeezed to 32 x 32 by Pillow (bilinear).
		{network{"likeness", "dinov2", nil}, edited(`{}`), 0.9856145},
		{network{"likeness", "dinov2", []string{"likeness.of=patches"}}, edited(`{}`), 0.8198623},
		{network{"likeness", "dinov2", []string{"likeness.of=patches"}}, edited(`{"changes": [[0, 0, 18, 40]]}`), 0.8203611},
		{network{"likeness", "dinov2", []string{"likeness.of=subject"}}, edited(`{"subject": [4, 8, 28, 36]}`), 0.9770976},
	} {
		c.path = recordedRewards + c.path
		o, err := c.open(d)
		if err != nil {
			t.Fatal(err)
		}
		r := o.Judge(context.Background(), []rewards.Item{c.item})[0]
		if r.Missing != nil || math.Abs(r.Value-c.want) > 1e-5*(1+math.Abs(c.want)) {
			t.Errorf("%s: %v, %v; recorded is %v", c.reward, r.Value, r.Missing, c.want)
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestNetworkMistakes: an error about a network has a remedy.
func TestNetworkMistakes(t *testing.T) {
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	d := features.On(tensor.NewPool(be), features.F32)
	mixed := t.TempDir()
	if err := os.CopyFS(mixed, os.DirFS(recordedRewards+"clip_laion")); err != nil {
		t.Fatal(err)
	}
	head, err := os.ReadFile(recordedRewards + "aesthetic/" + neural.HeadFile)
	if err == nil {
		err = os.WriteFile(mixed+"/"+neural.HeadFile, head, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		network
		says string
	}{
		{network{"pickscore", "", nil}, "path is missing"},
		{network{"clip", "nowhere", nil}, "no such folder"},
		{network{"clip", recordedRewards, nil}, "neither config.json"},
		{network{"aesthetic", recordedRewards + "clip_laion", nil}, neural.HeadFile},
		{network{"aesthetic", mixed, nil}, "they belong to different networks"},
		{network{"dino", recordedRewards + "clip_laion", nil}, "it describes CLIPModel"},
		{network{"clip", recordedRewards + "dino_vit", nil}, "it describes ViTModel"},
		{network{"imagereward", recordedRewards + "clip_laion", nil}, "med_config.json"},
	} {
		if _, err := c.open(d); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v; %q was expected", c.network, err, c.says)
		}
	}
	r := experiment.Reward{Name: "clip"}
	r.Path, r.Scaling = recordedRewards+"clip_laion", "pickscore"
	if _, err := Open(r, Bench{}); err == nil || !strings.Contains(err.Error(), `scaling "pickscore" is not known`) {
		t.Errorf("a scaling that there is not: %v", err)
	}
}

// TestImageReward: a folder of ImageReward judges pictures for their prompts, with gradients; transformers' results
// are beside it.
func TestImageReward(t *testing.T) {
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	r, err := experiment.ParseReward("imagereward", []string{"path=../../vision/blip/testdata/tiny"})
	if err != nil {
		t.Fatal(err)
	}
	o, err := Open(r, Bench{Device: func() (*features.Device, error) { return features.On(tensor.NewPool(be), features.F32), nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	m, err := vision.Open("../../vision/blip/testdata/tiny/image_0.png", vision.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	const want = -0.5133958458900452
	got := o.Judge(context.Background(), []rewards.Item{{Prompt: "a red circle on white", Image: m}, {Prompt: "a red circle on white"}, {Prompt: strings.Repeat("a red ", 20), Image: m}})
	if got[0].Missing != nil || math.Abs(got[0].Value-want) > 1e-5 || got[1].Missing == nil || got[2].Value == got[0].Value || len(got[2].Evidence) != 1 {
		t.Errorf("%+v, want %v", got, want)
	}
	d, _, ok := o.Gradient(false)
	if !ok {
		t.Fatal("it has no gradient")
	}
	px := vision.Pixels{Width: m.Width, Height: m.Height, RGB: make([]float32, len(m.Pix))}
	for i, v := range m.Pix {
		px.RGB[i] = float32(v) / 255
	}
	// Off by 0.0094: pictures of numbers are resized without being rounded to bytes.
	values, grads, err := d.PixelGradient(context.Background(), []rewards.Item{{Prompt: "a red circle on white"}}, []vision.Pixels{px})
	if err != nil || math.Abs(values[0]-want) > 0.01 || len(grads[0]) != len(m.Pix) {
		t.Errorf("%v, %v", values, err)
	}
}

// TestPrecision: two rewards on one folder, in fp32 and in bf16, share the device; scores are near, and not the same.
func TestPrecision(t *testing.T) {
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	pool := tensor.NewPool(be)
	d := features.On(pool, features.F32)
	item := rewards.Item{Prompt: "a red circle", Image: &vision.Image{Width: 40, Height: 30, Pix: make([]uint8, 3*40*30)}}
	for i := range item.Image.Pix {
		item.Image.Pix[i] = uint8(i * 7)
	}
	score := func(precision string) float64 {
		o, err := network{"clip", recordedRewards + "clip_laion", []string{fmt.Sprintf("precision=%q", precision)}}.open(d)
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		r := o.Judge(t.Context(), []rewards.Item{item})[0]
		if r.Missing != nil {
			t.Fatal(r.Missing)
		}
		return r.Value
	}
	wide, narrow := score("f32"), score("bf16")
	if wide == narrow || math.Abs(wide-narrow) > 0.02*max(1, math.Abs(wide)) || score("") != wide {
		t.Errorf("fp32 %v, bf16 %v", wide, narrow)
	}
	if s := pool.Stats(); s.Live != 0 {
		t.Errorf("%d pieces of memory are left", s.Live)
	}
}
