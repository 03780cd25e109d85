// Package owl is OWLv2 (Minderer et al., 2023), with the parameter names of the hub's folders
// (Owlv2ForObjectDetection): boxes of things that a text names, or that another picture shows.
//
//	m, err := owl.Open("owlv2-base-patch16-ensemble", device)
//	found, err := m.Detect(ctx, picture, []string{"a photo of a cat"}, 0.1)
//
// Start with network.go; prepare.go is the preprocessing, which is its own.
package owl

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/clip"
	"github.com/darkroom-rl/darkroom/vision/detr"
	"github.com/darkroom-rl/darkroom/vision/features"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
)

// Config is config.json of an Owlv2ForObjectDetection.
type Config struct {
	Text   clip.TextConfig   `json:"text_config"`
	Vision clip.VisionConfig `json:"vision_config"`
	Out    int               `json:"projection_dim"`
}

// ReadConfig reads a folder's settings.
func ReadConfig(dir string) (Config, error) {
	c := Config{Out: 512, Text: clip.TextConfig{Encoder: clip.Encoder{Width: 512, Inner: 2048, Layers: 12, Heads: 8, Act: "quick_gelu", Eps: 1e-5}, Vocabulary: 49408, Positions: 16},
		Vision: clip.VisionConfig{Encoder: clip.Encoder{Width: 768, Inner: 3072, Layers: 12, Heads: 12, Act: "quick_gelu", Eps: 1e-5}, Side: 768, Patch: 16, Channels: 3}}
	if err := hub.Config(dir, &c, "Owlv2ForObjectDetection", "owlv2"); err != nil {
		return c, err
	}
	c.Text.Out, c.Vision.Out = c.Out, c.Out
	c.Text.End = 2 // texts are pooled at the largest id
	var l hub.Limits
	c.Text.Check(&l)
	c.Vision.Check(&l)
	l.Must(c.Text.Width == c.Out, `"projection_dim" is %d, and hidden_size of texts %d: things and texts are compared in one space`, c.Out, c.Text.Width)
	l.Must(c.Vision.Channels == 3, `"num_channels" is %d; pictures have 3`, c.Vision.Channels)
	l.Must(c.Vision.Side <= mostSide && c.Vision.Side%max(c.Vision.Patch, 1) == 0, `"image_size" is %d; multiples of patch_size %d up to %d are read`, c.Vision.Side, c.Vision.Patch, mostSide)
	return c, l.Err()
}

// mostSide bounds the pictures that a network reads.
const mostSide = 4096

// Model is a folder's network in memory. It may be asked from any goroutine.
type Model struct {
	Config
	*Network
	Prepare Processor
	tokens  *tokenizer.Tokenizer
	device  *features.Device
	params  *nn.Params
}

// Open reads a folder.
func Open(dir string, device *features.Device) (*Model, error) {
	c, err := ReadConfig(dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	m := &Model{Config: c, device: device}
	if m.Prepare, err = readProcessor(dir, c.Vision.Side); err != nil {
		return nil, err
	}
	if m.tokens, err = tokenizer.Open(dir); err != nil {
		return nil, err
	}
	if m.tokens.Size() > c.Text.Vocabulary {
		return nil, fmt.Errorf("%s: the tokenizer has %d tokens, the network %d: it belongs to another network", dir, m.tokens.Size(), c.Text.Vocabulary)
	}
	set, err := safetensors.OpenFolder(dir)
	if err != nil {
		return nil, err
	}
	defer set.Close()
	if m.params, err = device.Load(nn.Rename(set, "vision_model.pre_layernorm", "vision_model.pre_layrnorm"), func(p *nn.Params) { m.Network = New(p, c) }); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return m, nil
}

// Close gives the memory back.
func (m *Model) Close() { m.device.Free(m.params) }

// IDs are a query's tokens, as many as there are positions, the rest 0.
func (m *Model) IDs(query string) ([]int32, error) {
	whole, err := m.tokens.Framed(query)
	if err != nil {
		return nil, err
	}
	if len(whole) > m.Text.Positions {
		return nil, fmt.Errorf("the query %.80q has %d tokens; at most %d are read", query, len(whole), m.Text.Positions)
	}
	return append(whole, make([]int32, m.Text.Positions-len(whole))...), nil
}

// Queries are unit vectors of texts.
func (m *Model) Queries(queries []string) (vectors [][]float64, err error) {
	var ids [][]int32
	for _, q := range queries {
		one, err := m.IDs(q)
		if err != nil {
			return nil, err
		}
		ids = append(ids, one)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	m.device.Run(false, func(tp *autograd.Tape) {
		defer kernels.Recover(&err)
		for _, v := range features.Rows(m.texts.Forward(tp, ids).Projected) {
			vectors = append(vectors, unit(v, 0))
		}
	})
	return vectors, err
}

// unit is a vector over its length, to which floor is added.
func unit(v []float64, floor float64) []float64 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x * x)
	}
	length, out := math.Sqrt(sum)+floor, make([]float64, len(v))
	for i, x := range v {
		out[i] = x / length
	}
	return out
}

// See asks the network about prepared pictures, [n, Side, Side, 3].
func (m *Model) See(pixels []float32, n int) (seen []Sight, err error) {
	side := m.Vision.Side
	if n < 1 || len(pixels) != n*side*side*3 {
		return nil, fmt.Errorf("%d numbers for %d pictures of %d x %d", len(pixels), n, side, side)
	}
	m.device.Run(false, func(tp *autograd.Tape) {
		defer kernels.Recover(&err)
		seen = m.Network.See(tp, tp.Upload("pictures", pixels, n, side, side, 3))
	})
	return seen, err
}

// Detect is the boxes of things that queries name, with scores above least, the surest first.
func (m *Model) Detect(ctx context.Context, picture *vision.Image, queries []string, least float64) ([]detr.Box, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	vectors, err := m.Queries(queries)
	if err != nil || len(vectors) == 0 {
		return nil, err
	}
	x, err := m.Prepare.Apply(picture)
	if err != nil {
		return nil, err
	}
	seen, err := m.See(x, 1)
	if err != nil {
		return nil, err
	}
	found := seen[0].Named(seen[0].Logits(vectors), len(vectors), detr.Size{H: picture.Height, W: picture.Width}, least)
	slices.SortStableFunc(found, func(a, b detr.Box) int {
		switch {
		case a.Score > b.Score:
			return -1
		case a.Score < b.Score:
			return 1
		}
		return 0
	})
	return found, nil
}
