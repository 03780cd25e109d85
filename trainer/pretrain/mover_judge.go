package pretrain

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/rewards/motion"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/video/flow"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes/moving"
)

// Moves says how a model of clips follows held-out captions.
type Moves struct {
	Guidance float64 `json:"guidance"`
	Clips    int     `json:"clips"`
	Heading  float64 `json:"heading"` // the mean of motion.Heading's value
	Right    float64 `json:"right"`   // the share that agrees with its caption by more than a half

	clips []*video.Clip
}

func (v *Moves) String() string {
	return fmt.Sprintf("guidance %g: heading %.3f, %.0f %% of %d clips as asked", v.Guidance, v.Heading, 100*v.Right, v.Clips)
}

// heldOutMoves are n scenes whose captions are held out.
func heldOutMoves(n int) (list []moving.Scene) {
	var all []moving.Scene
	for _, s := range moving.All() {
		if moving.HeldOut(s.Prompt()) {
			all = append(all, s)
		}
	}
	for i := range n {
		list = append(list, all[i%len(all)])
	}
	return list
}

// JudgeMoves draws clips of held-out captions with a folder's model.
func JudgeMoves(ctx context.Context, pool *tensor.Pool, dir string, n, steps int, guidance float64) (*Moves, error) {
	p, err := pipeline.Open(dir, pipeline.Options{Pool: pool, Precision: pipeline.BF16})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	at, err := p.ClipShape(moving.Frames, moving.Size, moving.Size)
	if err != nil {
		return nil, err
	}
	list := heldOutMoves(n)
	prompts := []string{""}
	for _, s := range list {
		prompts = append(prompts, s.Prompt())
	}
	finals, err := drawn(ctx, p, at, prompts, nil, steps, guidance)
	if err != nil {
		return nil, err
	}
	v := &Moves{Guidance: guidance, Clips: n}
	for i, s := range list {
		raw, err := p.Decode(finals[i], at)
		if err != nil {
			return nil, err
		}
		c := &video.Clip{Width: at.Width, Height: at.Height, Rate: video.Rate{Num: moving.Rate, Den: 1}}
		px := toBytes(raw)
		for each := len(px) / at.Frames; len(px) > 0; px = px[each:] {
			c.Frames = append(c.Frames, px[:each])
		}
		m, err := motion.Of(ctx, c, flow.Farneback{})
		if err != nil {
			return nil, err
		}
		h, err := m.Heading(s.Velocity())
		if err != nil {
			return nil, err
		}
		v.Heading += h.Value / float64(n)
		if h.Value > 0.5 {
			v.Right += 1 / float64(n)
		}
		v.clips = append(v.clips, c)
	}
	return v, nil
}

// write is the clips beside each other, as a PNG that plays.
func (v *Moves) write(path string) error {
	out := &video.Clip{Rate: video.Rate{Num: moving.Rate, Den: 1}}
	for t := range moving.Frames {
		var cells []*vision.Image
		for _, c := range v.clips {
			cells = append(cells, &vision.Image{Width: c.Width, Height: c.Height, Pix: c.Frames[t]})
		}
		sheet, err := vision.Sheet{Columns: 8, Padding: 4, Scale: 2}.Draw(cells)
		if err != nil {
			return err
		}
		out.Width, out.Height, out.Frames = sheet.Width, sheet.Height, append(out.Frames, sheet.Pix)
	}
	var b bytes.Buffer
	if err := video.EncodeAPNG(&b, out); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
