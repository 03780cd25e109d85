// Package mask2former is Mask2Former (Cheng et al., 2022) on Swin, with the parameter names of the hub's folders
// (Mask2FormerForUniversalSegmentation): the masks of a picture's objects, their classes and boxes. It is GenEval's
// detector.
//
//	m, err := mask2former.Open("mask2former-swin-small-coco-instance", device)
//	found, err := m.Detect(ctx, picture, mask2former.Reading{})
//
// Start with network.go; instances.go makes objects of a network's answer, as transformers does it and as mmdet
// does it.
package mask2former

import (
	"context"
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/detr"
	"github.com/darkroom-rl/darkroom/vision/features"
	"github.com/darkroom-rl/darkroom/vision/swin"
)

// Config is config.json of a Mask2FormerForUniversalSegmentation.
type Config struct {
	Backbone swin.Config       `json:"backbone_config"`
	Feature  int               `json:"feature_size"`
	Mask     int               `json:"mask_feature_size"`
	Hidden   int               `json:"hidden_dim"`
	Inner    int               `json:"encoder_feedforward_dim"`
	Encoder  int               `json:"encoder_layers"`
	Decoder  int               `json:"decoder_layers"`
	Heads    int               `json:"num_attention_heads"`
	Forward  int               `json:"dim_feedforward"`
	Queries  int               `json:"num_queries"`
	PreNorm  bool              `json:"pre_norm"`
	Project  bool              `json:"enforce_input_projection"`
	Stride   int               `json:"common_stride"`
	Strides  []int             `json:"feature_strides"`
	Act      string            `json:"activation_function"`
	Labels   map[string]string `json:"id2label"`
}

// ReadConfig reads a folder's settings.
func ReadConfig(dir string) (Config, error) {
	c := Config{Feature: 256, Mask: 256, Hidden: 256, Inner: 1024, Encoder: 6, Decoder: 10, Heads: 8, Forward: 2048, Queries: 100, Stride: 4, Strides: []int{4, 8, 16, 32}, Act: "relu"}
	c.Backbone.SetDefaults()
	if err := hub.Config(dir, &c, "Mask2FormerForUniversalSegmentation", "mask2former"); err != nil {
		return c, err
	}
	return c, c.check()
}

// groups are those of the norms over channels.
const groups = 32

func (c *Config) check() error {
	var l hub.Limits
	c.Backbone.Check(&l)
	for key, v := range map[string]int{"feature_size": c.Feature, "mask_feature_size": c.Mask, "hidden_dim": c.Hidden, "encoder_feedforward_dim": c.Inner, "dim_feedforward": c.Forward} {
		l.Int(key, v, 1, 1<<14)
	}
	l.Int("num_attention_heads", c.Heads, 1, 256)
	l.Int("num_queries", c.Queries, 1, 1<<12)
	l.Int("encoder_layers", c.Encoder, 1, 64)
	l.Int("decoder_layers", c.Decoder, 1, 64)
	l.Must(c.Feature%groups == 0, `"feature_size" %d is no multiple of %d`, c.Feature, groups)
	l.Must(c.Feature%max(c.Heads, 1) == 0 && c.Hidden%max(c.Heads, 1) == 0, `"num_attention_heads" %d does not divide feature_size %d and hidden_dim %d`, c.Heads, c.Feature, c.Hidden)
	l.Must(c.Feature%4 == 0 && c.Hidden%4 == 0, `"feature_size" %d and "hidden_dim" %d must be multiples of 4`, c.Feature, c.Hidden)
	l.Must(c.Act == "relu", `"activation_function" is %q; "relu" is known`, c.Act)
	l.Must(len(c.Backbone.Channels()) == 4, `"out_features" of the backbone has %d maps; 4 are known`, len(c.Backbone.Channels()))
	l.Must(c.Stride == 4 && len(c.Strides) == 4 && c.Strides[1] == 8, `"common_stride" is %d and "feature_strides" %v; 4 and [4, 8, 16, 32] are known`, c.Stride, c.Strides)
	l.Int("id2label", len(c.Labels), 1, 1<<14)
	for i := range len(c.Labels) {
		_, ok := c.Labels[fmt.Sprint(i)]
		l.Must(ok, `"id2label" has no label %d of %d`, i, len(c.Labels))
	}
	return l.Err()
}

// Classes are the labels, in order.
func (c *Config) Classes() []string {
	all := make([]string, len(c.Labels))
	for i := range all {
		all[i] = c.Labels[fmt.Sprint(i)]
	}
	return all
}

// Model is a folder's network in memory. It may be asked from any goroutine.
type Model struct {
	Config
	*Network
	Prepare detr.Processor
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
	if m.Prepare, err = detr.ReadProcessor(dir, detr.EdgeProcessor(groups), true); err != nil {
		return nil, err
	}
	set, err := safetensors.OpenFolder(dir)
	if err != nil {
		return nil, err
	}
	defer set.Close()
	if m.params, err = device.Load(detr.Thirds(set, "in_proj_weight", "in_proj_bias"), func(p *nn.Params) { m.Network = New(p, c) }); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return m, nil
}

// Close gives the memory back.
func (m *Model) Close() { m.device.Free(m.params) }

// An Answer is a network's of a picture: logits of each query's classes, the last for no class, and of
// its mask.
type Answer struct {
	Classes [][]float32 // [queries][classes + 1]
	Masks   []float32   // [Size.H, Size.W, queries]
	Size    detr.Size
}

// Forward asks the network about prepared pictures, [n, size.H, size.W, 3], whose sides are multiples of 32.
func (m *Model) Forward(pixels []float32, n int, size detr.Size) (answers []Answer, err error) {
	if n < 1 || size.H < 32 || size.W < 32 || len(pixels) != n*size.H*size.W*3 || size.H%m.Backbone.Patch != 0 || size.W%m.Backbone.Patch != 0 {
		return nil, fmt.Errorf("%d numbers for %d pictures of %d x %d: sides of 32 and more that are multiples of %d are read", len(pixels), n, size.W, size.H, m.Backbone.Patch)
	}
	m.device.Run(false, func(tp *autograd.Tape) {
		defer kernels.Recover(&err)
		o := m.Network.Forward(tp, tp.Upload("pictures", pixels, n, size.H, size.W, 3))
		classes, masks := o.Classes.F32(), o.Masks.F32()
		q, k, each := m.Queries, len(m.Labels)+1, len(masks)/n
		for i := range n {
			a := Answer{Masks: masks[i*each:][:each], Size: o.Size}
			for j := range q {
				a.Classes = append(a.Classes, classes[(i*q+j)*k:][:k])
			}
			answers = append(answers, a)
		}
	})
	return answers, err
}

// Detect is the objects of a picture.
func (m *Model) Detect(ctx context.Context, picture *vision.Image, r Reading) ([]Instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if r.Published {
		return m.published(picture, r)
	}
	b, err := m.Prepare.Apply([]*vision.Image{picture})
	if err != nil {
		return nil, err
	}
	answers, err := m.Forward(b.Pixels, 1, b.Size)
	if err != nil {
		return nil, err
	}
	return answers[0].Instances(b.Size, b.Inside[0], b.Shown[0], r), nil
}
