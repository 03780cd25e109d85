package pipeline

import (
	"context"
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/clip"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// sight is the tower that sees a clip's pictures. Its weights come and go.
type sight struct {
	config  clip.VisionConfig
	prepare vision.Preprocess
}

// openSight reads the tower's settings and its pipeline's.
func openSight(f *folder) (*sight, error) {
	c, err := readConfig(f, "image_encoder", clip.ReadVisionConfig)
	if err != nil {
		return nil, err
	}
	dir, err := f.part("image_processor")
	if err != nil {
		return nil, err
	}
	s := &sight{config: c}
	if s.prepare, err = features.ReadProcessor(dir, vision.CLIPPillow(c.Side)); err != nil {
		return nil, err
	}
	if s.prepare.Size != c.Side {
		return nil, fmt.Errorf("%s: pictures of %d pixels a side; image_encoder sees %d", dir, s.prepare.Size, c.Side)
	}
	return s, f.headers("image_encoder")
}

// SightPixels is what the tower sees of a picture, [Side, Side, 3]; nil where pictures have no tokens.
func (p *Pipeline) SightPixels(m *vision.Image) ([]float32, error) {
	if p.family.pictures.encoder == nil {
		return nil, nil
	}
	return p.family.pictures.encoder.prepare.Apply(nil, m, vision.ChannelsLast)
}

// see is the tokens of pictures, one after another, and how many they are.
func (p *Pipeline) see(ctx context.Context, pictures []*vision.Image) (tokens []float32, seen int, err error) {
	s := p.family.pictures.encoder
	var tower *clip.Vision
	n, err := p.load("image_encoder", F32, nil, nil, func(params *nn.Params) { tower = clip.NewSight(params, s.config) })
	if err != nil {
		return nil, 0, err
	}
	tp := p.tape(F32)
	for _, m := range pictures {
		var x []float32
		if x, err = p.SightPixels(m); err == nil {
			err = ctx.Err()
		}
		if err != nil {
			break
		}
		y := tower.BeforeLast(tp, tp.Upload("picture", x, 1, s.config.Side, s.config.Side, 3))
		tokens, seen = append(tokens, y.F32()...), seen+y.Dim(1)
		tp.Reset()
	}
	tp.Reset()
	if failed := n.close(); err == nil {
		err = failed
	}
	p.Pool.Trim()
	return tokens, seen, err
}

// Tokens is what the network reads of pictures' tokens, [n, Width]; none where it reads none.
func (g *Given) Tokens() []float32 { return g.tokens }
