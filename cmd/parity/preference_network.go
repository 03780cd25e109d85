package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/rewards/preference"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// A preferenceCase is a network's on its way: texts, pictures or clips, scores, gradients.
type preferenceCase struct {
	*network
	tokens *tokenizer.Tokenizer
	marks  vlm.Marks
	cut    *vlm.Processor
	clips  bool
	values []*autograd.Value // patches of each row
	rows   []*autograd.Value // scores of each row
	ids    [][]int32
	grids  []vlm.Grid
	soft   []preference.Soft // of pictures whose own gradient was recorded
}

func preferenceNetwork(c *Case, clips bool) (err error) {
	opened := how{forwardOnly: true}
	published, err := preference.OpenPublished(c.Dir())
	switch {
	case err == nil:
		defer func() { err = errors.Join(err, published.Close()) }()
		opened.source, opened.frozen = published, true
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	file := filepath.Join(c.Dir(), map[bool]string{true: "model.safetensors", false: "HPSv3.safetensors"}[clips])
	config, err := vlm.ReadConfig(c.Dir())
	if err != nil {
		return err
	}
	return runFolder(c, file, opened, func(n *network) error {
		if config, err = preference.Fitted(config, n.source); err != nil {
			return err
		}
		s := &preferenceCase{network: n, clips: clips}
		net, special := preference.NewPicture, preference.PictureTokens
		if clips {
			special = preference.VideoTokens
			net = func(p *nn.Params, c vlm.Config) *preference.Network { return preference.NewVideo(p, c, len(special)) }
		}
		network := net(n.params, config)
		if err := n.params.Check(); err != nil {
			return err
		}
		if published != nil {
			if _, err := published.Adapt(n.params); err != nil {
				return err
			}
		}
		if s.tokens, err = tokenizer.Open(c.Dir()); err != nil {
			return err
		}
		if s.marks, err = vlm.MarksOf(s.tokens); err != nil {
			return err
		}
		if s.cut, err = vlm.OpenProcessor(c.Dir()); err != nil {
			return err
		}
		for i, prompt := range c.Strings("prompts") {
			if err := s.row(network, i, prompt, special); err != nil {
				return err
			}
		}
		return s.put()
	})
}

// row asks about one picture or clip.
func (s *preferenceCase) row(net *preference.Network, i int, prompt string, special []string) error {
	text, kind := preference.PicturePrompt(prompt), "image"
	patches, err := s.patches(i)
	if err != nil {
		return err
	}
	if s.clips {
		kind = "video"
		if text, err = preference.VideoPrompt(s.Sub("data_config").String("prompt_template_type"), prompt); err != nil {
			return err
		}
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		return err
	}
	messages, err := vlm.ReadMessages(`[{"role": "user", "content": [{"type": "` + kind + `"}, {"type": "text", "text": ` + string(quoted) + `}]}]`)
	if err != nil {
		return err
	}
	t, err := vlm.TemplateNamed("qwen2_5_vl")
	if err != nil {
		return err
	}
	if text, err = t.Render(messages, vlm.Rendering{Generate: true}); err != nil {
		return err
	}
	ids, added, err := preference.IDs(s.tokens, text, special)
	if err != nil {
		return err
	}
	width := len(patches.Values) / patches.Grids[0].Patches()
	memory := s.tape.Pool().FromF32(kernels.F32, patches.Values, patches.Grids[0].Patches(), width)
	defer memory.Free()
	value := s.tape.Variable(memory)
	q := vlm.Stretch{Pictures: patches}
	onTape := [2]*autograd.Value{value, nil}
	if s.clips {
		q, onTape = vlm.Stretch{Clips: patches}, [2]*autograd.Value{nil, value}
	}
	if q.IDs, _, err = s.marks.Expand(ids, q.Pictures.Grids, q.Clips.Grids, s.cut.Merge); err != nil {
		return err
	}
	scores, err := net.Scores(s.tape, q, added, onTape[0], onTape[1])
	if err != nil {
		return err
	}
	s.values, s.rows, s.ids, s.grids = append(s.values, value), append(s.rows, scores), append(s.ids, q.IDs), append(s.grids, patches.Grids...)
	return nil
}

// patches are a row's picture or clip, resized as upstream does before its processor.
func (s *preferenceCase) patches(i int) (vlm.Patches, error) {
	if !s.clips {
		r, err := rasterInput(s.Case, fmt.Sprintf("image.%d", i))
		if err != nil {
			return vlm.Patches{}, err
		}
		soft, err := preference.SoftOf(s.cut, r.Width, r.Height)
		if err != nil {
			return vlm.Patches{}, err
		}
		if s.Has(fmt.Sprintf("grad.image.%d", i)) { // the differentiable way
			s.soft = append(s.soft, soft)
			return soft.Patches(toF32(rasterArray(r).Data)), nil
		}
		w, h := soft.Width, soft.Height
		m, err := r.RGB().Resize(w, h, vision.Bicubic)
		if err != nil {
			return vlm.Patches{}, err
		}
		s.Put(fmt.Sprintf("resized.%d", i), rasterArray(m.Raster()))
		return s.cut.Apply(m.Raster())
	}
	clip, data := s.Array(fmt.Sprintf("clip.%d", i)), s.Sub("data_config")
	read := preference.Reading{FPS: numberOr(data, "fps", 0), Count: int(numberOr(data, "num_frames", 0)), MultiPoints: data.String("sample_type") == "multi_pts"}
	places, err := read.Of(clip.Shape[0], s.Floats("clip_fps")[i])
	if err != nil {
		return vlm.Patches{}, err
	}
	w, h, err := vlm.Pixels{Min: 100352, Max: data.Int("max_frame_pixels")}.MostFirst(clip.Shape[2], clip.Shape[1], 28)
	if err != nil {
		return vlm.Patches{}, err
	}
	var frames []*vision.Raster
	resized := Array{Shape: []int{len(places), 3, h, w}}
	for _, k := range places {
		r := vision.NewRaster(clip.Shape[2], clip.Shape[1], 3)
		for j, v := range clip.Data[k*len(r.Pix) : (k+1)*len(r.Pix)] {
			r.Pix[j] = uint8(v)
		}
		m := preference.Frame(r.RGB(), w, h)
		frames = append(frames, m.Raster())
		resized.Data = append(resized.Data, channelsFirst(Array{Shape: []int{1, h, w, 3}, Data: rasterArray(m.Raster()).Data}).Data...)
	}
	s.Put(fmt.Sprintf("resized.%d", i), resized)
	return s.cut.Clip(vlm.ClipPixels{Rule: vlm.Qwen2Frames, Pixels: vlm.Pixels{Max: 1 << 30}}, frames...)
}

// put records what was read and scored, and goes back from the cotangent.
func (s *preferenceCase) put() error {
	longest := 0
	for _, ids := range s.ids {
		longest = max(longest, len(ids))
	}
	pad, _ := s.tokens.Role("pad_token")
	var ids, mask, scores []float64
	var seeds []autograd.Seed
	cotangent := samples(s.Array("cotangent"))
	for i, row := range s.ids {
		for k := range longest {
			id, real := float64(pad), 0.0
			if k < len(row) {
				id, real = float64(row[k]), 1
			}
			ids, mask = append(ids, id), append(mask, real)
		}
		scores = append(scores, widened(s.rows[i].F32())...)
		seeds = append(seeds, autograd.Seed{Of: s.rows[i], Grad: toF32(cotangent[i])})
	}
	s.Put("input_ids", Array{[]int{len(s.ids), longest}, ids})
	s.Put("attention_mask", Array{[]int{len(s.ids), longest}, mask})
	s.Put("scores", Array{[]int{len(s.ids), len(scores) / len(s.ids)}, scores})
	s.Put("image_grid_thw", gridRows(s.grids))
	s.Put("video_grid_thw", gridRows(s.grids))
	s.tape.Backward(seeds...)
	var values, grads []float64
	width := s.values[0].Dim(1)
	for _, v := range s.values {
		values, grads = append(values, widened(v.F32())...), append(grads, widened(v.Grad().F32())...)
	}
	for name, x := range map[string][]float64{"pixel_values": values, "grad.pixel_values": grads} {
		some := Array{Shape: []int{0, width}}
		for i := 0; i < len(x); i += 37 * width {
			some.Data, some.Shape[0] = append(some.Data, x[i:i+width]...), some.Shape[0]+1
		}
		s.Put(name+"_rows", some)
		s.Put(name+"_videos", Array{[]int{len(x) / width, width}, x})
	}
	for i, soft := range s.soft {
		g := soft.Back(s.values[i].Grad().F32())
		a := moveAxes(Array{Shape: []int{1, soft.FromHeight, soft.FromWidth, 3}, Data: widened(g)}, 0, 3, 1, 2)
		s.Put(fmt.Sprintf("grad.image.%d", i), Array{Shape: a.Shape[1:], Data: a.Data})
	}
	for name := range s.want {
		weight, ok := strings.CutPrefix(name, "grad.")
		if !ok || strings.HasPrefix(weight, "pixel_values") || strings.HasPrefix(weight, "image.") {
			continue
		}
		g, err := s.params.Grad(strings.Replace(weight, ".default", "", 1))
		if err != nil {
			return err
		}
		x, err := g.Float32(nil)
		if err != nil {
			return err
		}
		s.Put(name, Array{Shape: g.Shape, Data: widened(x)})
	}
	return nil
}
