package judges

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/features"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// A reward is opened, or the error names the missing requirement.
func TestOpenRewards(t *testing.T) {
	bench := Bench{Device: func() (*features.Device, error) { return nil, errors.New("no device in this test") }}
	scene, err := scenes.Parse(`the word "CAT" in red on white`)
	if err != nil {
		t.Fatal(err)
	}
	item := rewards.Item{Prompt: scene.Prompt, Image: &vision.Image{Width: scenes.Size, Height: scenes.Size, Pix: scene.Draw(nil)}}
	for name, want := range map[string]string{
		"layout": "", "scene": "", "background": "", "shade": "", "ocr": "", "jpeg": "", "sharpness": "", "edit": "", "edit_done": "", "edit_kept": "", "preserve": "", "likeness": "path is missing", "direction": "path is missing",
		"aesthetic": "no device", "clip": "no device", "pickscore": "path is missing", "hpsv2": "path is missing", "imagereward": "path is missing", "exec": "command or path is missing", "geneval": "path and url are missing", "http": "url is missing", "judge": "url or path is missing", "telepathy": "cannot be opened",
	} {
		r := experiment.Reward{}
		r.SetDefaults()
		r.Name = name
		o, err := Open(r, bench)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		judged := item
		switch judged.Sources = []*vision.Image{item.Image}; name { // of edits
		case "edit", "edit_done", "edit_kept":
			e, err := scenes.EditOf("a red circle left of a blue square on white", "remove the square")
			if err != nil {
				t.Fatal(err)
			}
			judged.Prompt, judged.Meta = e.Text, rewards.Meta{"scene": []byte(`"` + e.Before.Prompt + `"`)}
			judged.Sources = []*vision.Image{{Width: scenes.Size, Height: scenes.Size, Pix: e.Before.Draw(nil)}}
			judged.Image = &vision.Image{Width: scenes.Size, Height: scenes.Size, Pix: e.After.Draw(nil)}
		}
		got := o.Judge(t.Context(), []rewards.Item{judged})
		if got[0].Missing != nil || !(got[0].Value > 0.5) {
			t.Errorf("%s: %+v", name, got[0])
		}
		if err := o.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Every measure of motion judges a clip, and misses one where there is a picture.
func TestOpenMotion(t *testing.T) {
	c := &video.Clip{Width: 64, Height: 64, Rate: video.Rate{Num: 8, Den: 1}}
	for t := range 4 {
		f := make([]uint8, 3*64*64)
		for i := range f {
			x, y := i/3%64-2*t, i/192
			f[i] = uint8(127 + 30*math.Sin(float64(x)/3) + 30*math.Sin(float64(y)/4+float64(x)/9))
		}
		c.Frames = append(c.Frames, f)
	}
	for name, least := range map[string]float64{"heading": 0.6, "motion": 0.5, "magnitude": 1, "dynamic": 1, "flicker": 0.5, "smooth": 0.5, "warp": -0.01} {
		r := experiment.Reward{}
		r.SetDefaults()
		r.Name = name
		o, err := Open(r, Bench{})
		if err != nil {
			t.Fatal(err)
		}
		got := o.Judge(t.Context(), []rewards.Item{{Clip: c, Meta: rewards.Meta{"motion": []byte("[2, 0]")}}, {Image: vision.New(8, 8)}})
		if got[0].Missing != nil || got[0].Value < least {
			t.Errorf("%s: %+v", name, got[0])
		}
		if got[1].Missing == nil {
			t.Errorf("%s of a picture: %+v", name, got[1])
		}
	}
}

func TestOpenRewardsOutside(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("EMPTY_KEY", "")
	program := filepath.Join(folder, "no program")
	if err := os.WriteFile(program, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		reward string
		set    func(r *experiment.Reward)
	}{
		"EMPTY_KEY":                   {"http", func(r *experiment.Reward) { r.URL, r.KeyEnv = "http://localhost:1", "EMPTY_KEY" }},
		"an exec reward: the program": {"exec", func(r *experiment.Reward) { r.Path = program }},
		"NO_SUCH_VARIABLE":            {"exec", func(r *experiment.Reward) { r.Path, r.Env = os.Args[0], []string{"NO_SUCH_VARIABLE"} }},
		"no device":                   {"clip", func(r *experiment.Reward) { r.Path = folder }},
		"is not installed":            {"ocr", func(r *experiment.Reward) { r.Path = "no such tesseract" }},
	} {
		r := experiment.Reward{Name: c.reward, Timeout: 1}
		c.set(&r)
		if _, err := Open(r, Bench{Device: func() (*features.Device, error) { return nil, errors.New("no device") }}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v: %v, want %q", r, err, name)
		}
	}
	for _, name := range []string{"http", "judge"} {
		r := experiment.Reward{Name: name, Timeout: 1}
		r.URL = "http://localhost:1"
		o, err := Open(r, Bench{})
		if err != nil {
			t.Errorf("%s: %v", r.Name, err)
			continue
		}
		_ = o.Close()
	}
}
