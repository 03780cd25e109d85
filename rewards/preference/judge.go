package preference

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/features"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Card: the two as rewards.
//
//	HPSv3        mu of a picture and its prompt; sigma is evidence
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

// ask returns the output of a network's head for a text with its pictures, or its clip.
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

// read makes a score of the head's output.
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

// sees returns the question about an item, and its patches.
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

// VideoOptions are of reward videoreward.
type VideoOptions struct {
	Axis string `toml:"axis" enum:"overall,vq,mq,ta" doc:"visual quality, motion quality, alignment with the prompt, or the sum of all"`
	Gray bool   `toml:"gray" doc:"clips are judged without colours, which motion quality can be bought with (GenRL)"`
}

// SetDefaults is VideoAlign's sum.
func (o *VideoOptions) SetDefaults() { *o = VideoOptions{Axis: "overall"} }

// VideoKey is the table of VideoOptions.
type VideoKey struct {
	Video *VideoOptions `toml:"videoreward" doc:"of reward videoreward: which axis counts, and whether colours do"`
}

type videoKeys struct {
	rewards.NetworkKeys
	VideoKey
}

// VideoRewardKind is reward videoreward.
var VideoRewardKind = rewards.Kind{
	Name: "videoreward",
	Published: &rewards.Published{From: []rewards.Repository{{Name: "KwaiVGI/VideoReward", Files: []string{"model_config.json", "checkpoint-*/model.pth"}},
		{Name: "Qwen/Qwen2-VL-2B-Instruct", Files: rewards.Texts("config.json")}}, Numbers: 2_208_985_600},
	Card:    "VideoReward (VideoAlign): a Qwen2-VL that judges a clip's looks, its motion and how it fits the prompt; path holds it as published, with checkpoint-N/model.pth, or as safetensors with its adapter merged.",
	Paper:   "VideoAlign (Liu et al., 2025)",
	Cases:   []string{"judge.videoalign"},
	Judges:  rewards.Clips,
	Traits:  rewards.Weights | rewards.Prompted,
	Options: videoKeys{},
	Open: rewards.Opens(func(k videoKeys, b rewards.Bench) (rewards.Opened, error) {
		return opened(k.NetworkKeys, b, func(dir string, d *features.Device) (*Judge, error) {
			j, err := OpenVideo(dir, d)
			if err == nil {
				set := config.Filled(k.Video)
				j.Axis, j.Gray = set.Axis, set.Gray
			}
			return j, err
		})
	}),
}

type pictureKeys struct {
	rewards.NetworkKeys
	rewards.FrameKeys
}

// HPSv3Kind is reward hpsv3.
var HPSv3Kind = rewards.Kind{
	Name: "hpsv3",
	Published: &rewards.Published{From: []rewards.Repository{{Name: "MizzenAI/HPSv3", Files: []string{pictureFile}},
		{Name: "Qwen/Qwen2-VL-7B-Instruct", Files: rewards.Texts("config.json")}}, Numbers: 8_291_375_616},
	Card:    "HPSv3: a Qwen2-VL that says how much people like a picture of a prompt; path holds HPSv3.safetensors beside Qwen2-VL's settings.",
	Paper:   "HPSv3 (Ma et al., 2025)",
	Judges:  rewards.Pictures,
	Traits:  rewards.Weights | rewards.Slopes | rewards.Prompted,
	Options: pictureKeys{},
	Open: rewards.Opens(func(k pictureKeys, b rewards.Bench) (rewards.Opened, error) {
		var own *Judge
		o, err := opened(k.NetworkKeys, b, func(dir string, d *features.Device) (_ *Judge, err error) {
			own, err = OpenPicture(dir, d)
			return own, err
		})
		o.Judge = sloped{o.Judge, own}
		return o, err
	}),
}

// sloped is a judge that says how pixels change its scores, too.
type sloped struct {
	of rewards.Judge
	rewards.Sloped
}

func (s sloped) Judge(ctx context.Context, items []rewards.Item) []rewards.Result {
	return s.of.Judge(ctx, items)
}

// closable is a reward that holds memory and files.
type closable interface {
	rewards.Reward
	Close() error
}

// opened is a reward that judges one sample at a time.
func opened[J closable](k rewards.NetworkKeys, b rewards.Bench, open func(dir string, d *features.Device) (J, error)) (rewards.Opened, error) {
	dir, d, err := k.Place(b)
	if err != nil {
		return rewards.Opened{}, err
	}
	j, err := open(dir, d)
	if err != nil {
		return rewards.Opened{}, err
	}
	return rewards.Opened{Judge: rewards.Each(j, 1), Close: j.Close}, nil
}
