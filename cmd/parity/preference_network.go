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

func preferenceNetwork(c *Case, clips bool) {
	opened := how{forwardOnly: true}
	published, err := preference.OpenPublished(c.Dir())
	switch {
	case err == nil:
		defer published.Close()
		opened.source, opened.frozen = published, true
	case !errors.Is(err, fs.ErrNotExist):
		check(err)
	}
	file := filepath.Join(c.Dir(), map[bool]string{true: "model.safetensors", false: "HPSv3.safetensors"}[clips])
	config := must(vlm.ReadConfig(c.Dir()))
	runFolder(c, file, opened, func(n *network) {
		config = must(preference.Fitted(config, n.source))
		s := &preferenceCase{network: n, clips: clips}
		net, special := preference.NewPicture, preference.PictureTokens
		if clips {
			special = preference.VideoTokens
			net = func(p *nn.Params, c vlm.Config) *preference.Network { return preference.NewVideo(p, c, len(special)) }
		}
		network := net(n.params, config)
		check(n.params.Check())
		if published != nil {
			must(published.Adapt(n.params))
		}
		s.tokens = must(tokenizer.Open(c.Dir()))
		s.marks = must(vlm.MarksOf(s.tokens))
		s.cut = must(vlm.OpenProcessor(c.Dir()))
		for i, prompt := range c.Strings("prompts") {
			s.row(network, i, prompt, special)
		}
		s.put()
	})
}

// row asks about one picture or clip.
func (s *preferenceCase) row(net *preference.Network, i int, prompt string, special []string) {
	text, kind := preference.PicturePrompt(prompt), "image"
	patches := s.patches(i)
	if s.clips {
		kind = "video"
		text = must(preference.VideoPrompt(s.Sub("data_config").String("prompt_template_type"), prompt))
	}
	quoted := must(json.Marshal(text))
	messages := must(vlm.ReadMessages(`[{"role": "user", "content": [{"type": "` + kind + `"}, {"type": "text", "text": ` + string(quoted) + `}]}]`))
	text = must(must(vlm.TemplateNamed("qwen2_5_vl")).Render(messages, vlm.Rendering{Generate: true}))
	ids, added := must2(preference.IDs(s.tokens, text, special))
	width := len(patches.Values) / patches.Grids[0].Patches()
	memory := s.tape.Pool().FromF32(kernels.F32, patches.Values, patches.Grids[0].Patches(), width)
	defer memory.Free()
	value := s.tape.Variable(memory)
	q := vlm.Stretch{Pictures: patches}
	onTape := [2]*autograd.Value{value, nil}
	if s.clips {
		q, onTape = vlm.Stretch{Clips: patches}, [2]*autograd.Value{nil, value}
	}
	q.IDs, _ = must2(s.marks.Expand(ids, q.Pictures.Grids, q.Clips.Grids, s.cut.Merge))
	scores := must(net.Scores(s.tape, q, added, onTape[0], onTape[1]))
	s.values, s.rows, s.ids, s.grids = append(s.values, value), append(s.rows, scores), append(s.ids, q.IDs), append(s.grids, patches.Grids...)
}

// patches are a row's picture or clip, resized as upstream does before its processor.
func (s *preferenceCase) patches(i int) vlm.Patches {
	if !s.clips {
		r := rasterInput(s.Case, fmt.Sprintf("image.%d", i))
		soft := must(preference.SoftOf(s.cut, r.Width, r.Height))
		if s.Has(fmt.Sprintf("grad.image.%d", i)) { // the differentiable way
			s.soft = append(s.soft, soft)
			return soft.Patches(to[float32](rasterArray(r).Data))
		}
		w, h := soft.Width, soft.Height
		m := must(r.RGB().Resize(w, h, vision.Bicubic))
		s.Put(fmt.Sprintf("resized.%d", i), rasterArray(m.Raster()))
		return must(s.cut.Apply(m.Raster()))
	}
	clip, data := s.Array(fmt.Sprintf("clip.%d", i)), s.Sub("data_config")
	read := preference.Reading{FPS: numberOr(data, "fps", 0), Count: int(numberOr(data, "num_frames", 0)), MultiPoints: data.String("sample_type") == "multi_pts"}
	places := must(read.Of(clip.Shape[0], s.Floats("clip_fps")[i]))
	w, h := must2(vlm.Pixels{Min: 100352, Max: data.Int("max_frame_pixels")}.MostFirst(clip.Shape[2], clip.Shape[1], 28))
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
	return must(s.cut.Clip(vlm.ClipPixels{Rule: vlm.Qwen2Frames, Pixels: vlm.Pixels{Max: 1 << 30}}, frames...))
}

// put records what was read and scored, and goes back from the cotangent.
func (s *preferenceCase) put() {
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
		scores = append(scores, to[float64](s.rows[i].F32())...)
		seeds = append(seeds, autograd.Seed{Of: s.rows[i], Grad: to[float32](cotangent[i])})
	}
	s.Put("input_ids", Array{[]int{len(s.ids), longest}, ids})
	s.Put("attention_mask", Array{[]int{len(s.ids), longest}, mask})
	s.Put("scores", Array{[]int{len(s.ids), len(scores) / len(s.ids)}, scores}, "image_grid_thw", gridRows(s.grids))
	s.Put("video_grid_thw", gridRows(s.grids))
	s.tape.Backward(seeds...)
	var values, grads []float64
	width := s.values[0].Dim(1)
	for _, v := range s.values {
		values, grads = append(values, to[float64](v.F32())...), append(grads, to[float64](v.Grad().F32())...)
	}
	for name, x := range map[string][]float64{"pixel_values": values, "grad.pixel_values": grads} {
		some := Array{Shape: []int{0, width}}
		for i := 0; i < len(x); i += 37 * width {
			some.Data, some.Shape[0] = append(some.Data, x[i:i+width]...), some.Shape[0]+1
		}
		s.Put(name+"_rows", some, name+"_videos", Array{[]int{len(x) / width, width}, x})
	}
	for i, soft := range s.soft {
		g := soft.Back(s.values[i].Grad().F32())
		a := moveAxes(Array{Shape: []int{1, soft.FromHeight, soft.FromWidth, 3}, Data: to[float64](g)}, 0, 3, 1, 2)
		s.Put(fmt.Sprintf("grad.image.%d", i), Array{Shape: a.Shape[1:], Data: a.Data})
	}
	for name := range s.want {
		weight, ok := strings.CutPrefix(name, "grad.")
		if !ok || strings.HasPrefix(weight, "pixel_values") || strings.HasPrefix(weight, "image.") {
			continue
		}
		g := must(s.params.Grad(strings.Replace(weight, ".default", "", 1)))
		s.Put(name, Array{Shape: g.Shape, Data: to[float64](must(g.Float32(nil)))})
	}
}
