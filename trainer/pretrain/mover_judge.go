package pretrain

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/rng"
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
	Thing    float64 `json:"thing"`   // the mean worth of a frame, as of moving.Look
	Right    float64 `json:"right"`   // the share that agrees with its caption by more than a half

	clips []*video.Clip
}

func (v *Moves) String() string {
	return fmt.Sprintf("guidance %g: heading %.3f, thing %.3f, %.0f %% of %d clips as asked", v.Guidance, v.Heading, v.Thing, 100*v.Right, v.Clips)
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
	var given []*pipeline.Given
	for i, s := range list {
		prompts = append(prompts, s.Prompt())
		if may, _, _, _ := p.Gives(); may {
			first := s.Begin(moving.Jitter(rng.New(1).With("judge").Sample(i).Draw())).Frames[0]
			g, err := p.Give(ctx, at, &vision.Image{Width: moving.Size, Height: moving.Size, Pix: first}, nil)
			if err != nil {
				return nil, err
			}
			given = append(given, g)
		}
	}
	finals, err := drawn(ctx, p, at, prompts, given, steps, guidance)
	if err != nil {
		return nil, err
	}
	v := &Moves{Guidance: guidance, Clips: n}
	for i, scene := range list {
		raw, err := p.Decode(finals[i], at)
		if err != nil {
			return nil, err
		}
		if err := v.add(ctx, scene, toBytes(raw)); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// add measures a clip, the pixels of its frames one after another.
func (v *Moves) add(ctx context.Context, s moving.Scene, px []uint8) error {
	c := &video.Clip{Width: moving.Size, Height: moving.Size, Rate: video.Rate{Num: moving.Rate, Den: 1}}
	n, each := float64(v.Clips), len(px)/moving.Frames
	for ; len(px) > 0; px = px[each:] {
		c.Frames = append(c.Frames, px[:each])
		v.Thing += s.Look(px).Value / float64(v.Clips*moving.Frames)
	}
	m, err := motion.Of(ctx, c, flow.Farneback{})
	if err != nil {
		return err
	}
	h, err := m.Heading(s.Velocity())
	if err != nil {
		return err
	}
	v.Heading += h.Value / n
	if h.Value > 0.5 {
		v.Right += 1 / n
	}
	v.clips = append(v.clips, c)
	return nil
}

// reportAutoencoder says what rewards see in drawn clips that went through the autoencoder.
func (r *wanRun) reportAutoencoder() error {
	seen, err := r.reconstructed()
	if err != nil {
		return err
	}
	r.Say(fmt.Sprintf("reconstructed: heading %.3f, thing %.3f", seen.Heading, seen.Thing))
	return seen.write(filepath.Join(r.dir, "reconstruction.png"))
}

// reconstructed measures drawn clips of held-out captions that went through the autoencoder.
func (r *wanRun) reconstructed() (*Moves, error) {
	v, params, err := r.openVAE(false)
	if err != nil {
		return nil, err
	}
	defer params.Free()
	seen := &Moves{Clips: r.Judge.Prompts}
	for i, s := range heldOutMoves(seen.Clips) {
		x := clipFloats(r.film(s, moving.Jitter(r.key.With("judge").Sample(i).Draw())))
		tp := (&stage{pool: r.pool}).tape()
		mu, _ := v.Encode(tp, tp.Upload("clip", x, moving.Frames, moving.Size, moving.Size, 3))
		y := v.Decode(tp, v.Scaled(tp, mu)).F32()
		tp.Reset()
		if err := seen.add(r.context(), s, toBytes(y)); err != nil {
			return nil, err
		}
	}
	return seen, nil
}

// context stops judgement.
func (h Hooks) context() context.Context {
	if h.Context == nil {
		return context.Background()
	}
	return h.Context
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
