// Package brief has models that are made in moments, for tests of runs, of pictures and of the program: the recipe of a
// vision-language model (Talker), and the embedded denoiser made smaller (Denoiser).
package brief

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/trainer/pretrain"
)

// Talker is the recipe: its steps teach the model the form of calls and answers, and no more.
func Talker(steps int) pretrain.Talker {
	t := pretrain.DefaultTalker()
	t.Name = "speaker"
	t.Model.Width, t.Model.Inner, t.Model.Heads, t.Model.Layers = 64, 96, 2, 1
	t.Model.VisionWidth, t.Model.VisionInner, t.Model.VisionHeads, t.Model.VisionLayers = 32, 32, 1, 1
	t.Sight.Steps, t.Places.Steps, t.Skill.Steps, t.Aim.Steps = 0, 0, 0, 0
	t.Start.Steps, t.Start.Batch, t.Start.LR, t.Start.Warmup, t.Start.EMA = steps, 4, 4e-3, 5, 0.8
	t.Talk.Skills, t.Judge.Tables = 0, 2
	return t
}

// Side is that of the denoiser's pictures.
const Side = 32

// Denoiser makes a folder with the embedded model of pictures, with two of its six layers and pictures of half the
// side: a tenth of its work.
func Denoiser(dir string) error {
	from, err := assets.Resolve("embed:tiny-sd3")
	if err != nil {
		return err
	}
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		return err
	}
	return shorten(filepath.Join(dir, "transformer"))
}

// shorten keeps the first layer of a denoiser and the last, which has parts of its own.
func shorten(dir string) error {
	config, weights := filepath.Join(dir, "config.json"), filepath.Join(dir, "diffusion_pytorch_model.safetensors")
	text, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	is := string(text)
	for _, change := range [][2]string{{`"num_layers": 6`, `"num_layers": 2`}, {`"sample_size": 16`, `"sample_size": 8`}} {
		if !strings.Contains(is, change[0]) {
			return fmt.Errorf("%s does not say %s", config, change[0])
		}
		is = strings.Replace(is, change[0], change[1], 1)
	}
	if err := os.WriteFile(config, []byte(is), 0o644); err != nil {
		return err
	}
	f, err := safetensors.Open(weights)
	if err != nil {
		return err
	}
	defer f.Close()
	var kept []safetensors.Tensor
	between := regexp.MustCompile(`^transformer_blocks\.[1-4]\.`)
	for _, name := range f.Names() {
		if between.MatchString(name) {
			continue
		}
		t, err := f.Tensor(name)
		if err != nil {
			return err
		}
		t.Name = strings.Replace(name, "transformer_blocks.5.", "transformer_blocks.1.", 1)
		t.Data = append([]byte(nil), t.Data...) // the file is written over
		kept = append(kept, t)
	}
	return safetensors.Write(weights, kept, nil)
}
