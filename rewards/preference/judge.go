package preference

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/features"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Card: the two as rewards.
//
//	HPSv3        mu of a picture and its prompt; sigma is told
//	VideoReward  (score - mean)/std of an axis, by the folder's model_config.json: visual quality (VQ), motion
//	             quality (MQ), alignment with the prompt (TA), or their sum, which is its project's "Overall"
//
// A clip turned gray cannot buy motion quality with colours (LongCat, GenRL: MQ of gray clips).
// Held to qwen2vl.videoreward's recorded rewards where DARKROOM_GOLDEN names the recorded cases.

// Judge is an open folder. It may be asked from any goroutine.
type Judge struct {
	Axis string // of VideoReward: "vq", "mq" or "ta"; else their sum
	Gray bool   // of VideoReward: clips are judged without their colours

	device  *features.Device
	params  *nn.Params
	weights io.Closer
	network *Network
	tokens  *tokenizer.Tokenizer
	marks   vlm.Marks
	cut     *vlm.Processor
	clips   bool
	said    settings
}

// settings is model_config.json of VideoReward.
type settings struct {
	Data struct {
		FPS      float64  `json:"fps"`
		Count    int      `json:"num_frames"`
		Pixels   int      `json:"max_frame_pixels"`
		Sample   string   `json:"sample_type"`
		Template string   `json:"prompt_template_type"`
		Axes     []string `json:"eval_dim"`
	} `json:"data_config"`
	Model struct {
		Special bool `json:"use_special_tokens"`
	} `json:"model_config"`
	Adapter struct {
		On     bool    `json:"lora_enable"`
		Rank   int     `json:"lora_r"`
		Alpha  float32 `json:"lora_alpha"`
		RSLoRA bool    `json:"use_rslora"`
	} `json:"peft_lora_config"`
	Scale map[string]float64 `json:"inference_config"`
}

// pictureFile is HPSv3's file of weights.
const pictureFile = "HPSv3.safetensors"

// OpenPicture opens HPSv3: its file of weights beside Qwen2-VL's settings and tokenizer.
func OpenPicture(dir string, d *features.Device) (*Judge, error) {
	j := &Judge{device: d}
	return j, j.open(dir, pictureFile, func(p *nn.Params, c vlm.Config) { j.network = NewPicture(p, c) })
}

// OpenVideo opens VideoReward: as published, with its adapter beside the weights, or as safetensors with the adapter merged.
func OpenVideo(dir string, d *features.Device) (*Judge, error) {
	j := &Judge{device: d, clips: true}
	if err := j.readSettings(filepath.Join(dir, "model_config.json")); err != nil {
		return nil, err
	}
	network := func(p *nn.Params, c vlm.Config) { j.network = NewVideo(p, c, len(VideoTokens)) }
	p, err := OpenPublished(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return j, j.merged(dir, network)
	}
	if err != nil {
		return nil, err
	}
	j.weights = p
	var adapted error
	if err := j.load(dir, p, func(params *nn.Params, c vlm.Config) {
		network(params, c)
		_, adapted = p.Adapt(params)
	}); err != nil {
		return nil, err
	}
	if adapted != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", dir, adapted), j.Close())
	}
	return j, nil
}

// merged opens weights that hold the adapter.
func (j *Judge) merged(dir string, network func(p *nn.Params, c vlm.Config)) error {
	if j.said.Adapter.On {
		return fmt.Errorf("%s: \"lora_enable\" is true, and there is no checkpoint-N/model.pth: put it there, or merge the adapter into the weights (peft's merge_and_unload) and make the setting false", filepath.Join(dir, "model_config.json"))
	}
	return j.open(dir, "", network)
}

// open reads a folder, whose weights may be one file of a name of its own.
func (j *Judge) open(dir, file string, network func(p *nn.Params, c vlm.Config)) error {
	src, err := j.source(dir, file)
	if err != nil {
		return err
	}
	return j.load(dir, src, network)
}

// load reads a folder's settings, and makes the network of a source, which is closed where that fails.
func (j *Judge) load(dir string, src nn.Source, network func(p *nn.Params, c vlm.Config)) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, j.weights.Close())
		}
	}()
	config, err := vlm.ReadConfig(dir)
	if err != nil {
		return err
	}
	if j.tokens, err = tokenizer.Open(dir); err != nil {
		return err
	}
	if j.marks, err = vlm.MarksOf(j.tokens); err != nil {
		return err
	}
	if j.cut, err = vlm.OpenProcessor(dir); err != nil {
		return err
	}
	if config, err = Fitted(config, src); err == nil {
		j.params, err = j.device.Load(src, func(p *nn.Params) { network(p, config) })
	}
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}

// source opens the weights.
func (j *Judge) source(dir, file string) (nn.Source, error) {
	if _, err := os.Stat(filepath.Join(dir, file)); err == nil && file != "" {
		f, err := safetensors.Open(filepath.Join(dir, file))
		j.weights = f
		return f, err
	}
	set, err := safetensors.OpenFolder(dir)
	j.weights = set
	return set, err
}

// readSettings refuses what VideoReward was not published with.
func (j *Judge) readSettings(path string) error {
	if err := hub.JSON(path, &j.said); err != nil {
		return err
	}
	switch s := j.said; {
	case !s.Model.Special || s.Data.Template != "detailed_special" || strings.Join(s.Data.Axes, " ") != "VQ MQ TA":
		return fmt.Errorf("%s: template %q with axes %v: published folders have \"detailed_special\" and VQ, MQ, TA, read at special tokens", path, s.Data.Template, s.Data.Axes)
	case s.Data.Pixels < 1:
		return fmt.Errorf("%s: \"max_frame_pixels\" is %d; it must be positive", path, s.Data.Pixels)
	}
	for _, axis := range j.said.Data.Axes {
		if !(j.said.Scale[axis+"_std"] > 0) {
			return fmt.Errorf("%s: \"inference_config\" has no positive %s_std", path, axis)
		}
	}
	return nil
}

// Close gives memory and files back.
func (j *Judge) Close() error {
	j.device.Free(j.params)
	return j.weights.Close()
}

// Score judges a picture, or a clip.
func (j *Judge) Score(ctx context.Context, item rewards.Item) (s rewards.Score, err error) {
	text, patches, err := j.sees(item)
	if err != nil {
		return s, err
	}
	out, err := j.ask(ctx, j.network, text, patches)
	if err != nil {
		return s, err
	}
	return j.read(out), nil
}

// ask is what a network's head says of a text with its pictures, or its clip.
func (j *Judge) ask(ctx context.Context, n *Network, text string, patches vlm.Patches) (out []float32, err error) {
	q, added, err := j.question(text, patches)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	j.device.Run(false, func(tp *autograd.Tape) {
		v, failed := n.Scores(tp, q, added, nil, nil)
		if err = failed; err == nil {
			out = v.F32()
		}
	})
	return out, err
}

// read makes a score of what the head says.
func (j *Judge) read(out []float32) rewards.Score {
	if !j.clips {
		return rewards.Score{Value: float64(out[0]), Parts: map[string]float64{"sigma": float64(out[1])}}
	}
	s := rewards.Score{Parts: map[string]float64{}}
	for k, axis := range j.said.Data.Axes {
		v := (float64(out[k]) - j.said.Scale[axis+"_mean"]) / j.said.Scale[axis+"_std"]
		name := strings.ToLower(axis)
		if s.Parts[name] = v; name == j.Axis || j.Axis == "" || j.Axis == "overall" {
			s.Value += v
		}
	}
	return s
}

// sees is what is asked about an item, and its patches.
func (j *Judge) sees(item rewards.Item) (text string, patches vlm.Patches, err error) {
	if !j.clips {
		if item.Image == nil {
			return "", patches, errors.New("there is no picture to judge")
		}
		patches, err = j.pictures(item.Image)
		return PicturePrompt(item.Prompt), patches, err
	}
	if item.Clip == nil {
		return "", patches, errors.New("there is no clip to judge")
	}
	frames, err := item.Frames(1)
	if err != nil {
		return "", patches, err
	}
	if patches, err = j.clip(frames, item.Clip.Rate.FPS()); err != nil {
		return "", patches, err
	}
	text, err = VideoPrompt(j.said.Data.Template, item.Prompt)
	return text, patches, err
}

// pictures are HPSv3's and EditReward's: at 256 cells of 28 x 28 pixels each, as near as their sides allow.
func (j *Judge) pictures(all ...*vision.Image) (vlm.Patches, error) {
	var cut []*vision.Raster
	for _, m := range all {
		w, h, err := pictureSize(m.Width, m.Height)
		if err != nil {
			return vlm.Patches{}, err
		}
		if m.Width != w || m.Height != h {
			if m, err = m.Resize(w, h, vision.Bicubic); err != nil {
				return vlm.Patches{}, err
			}
		}
		cut = append(cut, m.Raster())
	}
	return j.cut.Apply(cut...)
}

// clip is VideoReward's: some frames, each at most as large as the folder says.
func (j *Judge) clip(all []*vision.Image, rate float64) (vlm.Patches, error) {
	d := j.said.Data
	places, err := Reading{FPS: d.FPS, Count: d.Count, MultiPoints: d.Sample == "multi_pts"}.Of(len(all), rate)
	if err != nil {
		return vlm.Patches{}, err
	}
	w, h, err := vlm.Pixels{Min: 128 * 28 * 28, Max: d.Pixels}.MostFirst(all[0].Width, all[0].Height, 28)
	if err != nil {
		return vlm.Patches{}, err
	}
	var frames []*vision.Raster
	for _, k := range places {
		m := all[k]
		if j.Gray {
			m = gray(m)
		}
		frames = append(frames, Frame(m, w, h).Raster())
	}
	return j.cut.Clip(vlm.ClipPixels{Rule: vlm.Qwen2Frames, Pixels: vlm.Pixels{Max: 1 << 30}}, frames...)
}

// gray is a picture without colours, as GenRL makes it: weighted by 0.299, 0.587 and 0.114, and cut to bytes.
func gray(m *vision.Image) *vision.Image {
	out := vision.New(m.Width, m.Height)
	for i := 0; i < len(m.Pix); i += 3 {
		v := float64(0.299*float64(m.Pix[i])) + float64(0.587*float64(m.Pix[i+1])) + float64(0.114*float64(m.Pix[i+2]))
		out.Pix[i], out.Pix[i+1], out.Pix[i+2] = uint8(v), uint8(v), uint8(v)
	}
	return out
}

// question is a text with its picture or clip, and the ids of the answers' tokens.
func (j *Judge) question(text string, patches vlm.Patches) (q vlm.Stretch, added []int32, err error) {
	shown, special := strings.Repeat(`{"type": "image"}, `, len(patches.Grids)), PictureTokens
	if q.Pictures = patches; j.clips {
		shown, special = `{"type": "video"}, `, VideoTokens
		q = vlm.Stretch{Clips: patches}
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		return q, nil, err
	}
	messages, err := vlm.ReadMessages(`[{"role": "user", "content": [` + shown + `{"type": "text", "text": ` + string(quoted) + `}]}]`)
	if err != nil {
		return q, nil, err
	}
	t, err := vlm.TemplateNamed("qwen2_5_vl") // Qwen2-VL's is the same
	if err != nil {
		return q, nil, err
	}
	if text, err = t.Render(messages, vlm.Rendering{Generate: true}); err != nil {
		return q, nil, err
	}
	ids, added, err := IDs(j.tokens, text, special)
	if err != nil {
		return q, nil, err
	}
	q.IDs, _, err = j.marks.Expand(ids, q.Pictures.Grids, q.Clips.Grids, j.cut.Merge)
	return q, added, err
}
