// Package rtdetr is RT-DETR, RT-DETRv2, D-FINE and RF-DETR (Zhao et al., 2023; Lv et al., 2024; Peng et al., 2024;
// Robinson et al., 2025), with the parameter names of the hub's folders (RTDetrForObjectDetection,
// RTDetrV2ForObjectDetection, DFineForObjectDetection, RfDetrForObjectDetection): boxes of a closed list of classes.
//
//	m, err := rtdetr.Open("rtdetr_r50vd", device)
//	found, err := m.Detect(ctx, picture, 0.5)
//
// Start with network.go; dfine.go and rfdetr.go are the parts of those two alone; backbone.go and hgnet.go are the
// backbones.
package rtdetr

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/detr"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// Config is config.json of an RTDetrForObjectDetection, an RTDetrV2ForObjectDetection or a DFineForObjectDetection.
type Config struct {
	Kind        string            `json:"model_type"`
	Backbone    Backbone          `json:"backbone_config"`
	Hidden      int               `json:"encoder_hidden_dim"`
	EncoderIn   []int             `json:"encoder_in_channels"`
	EncoderFF   int               `json:"encoder_ffn_dim"`
	EncoderHead int               `json:"encoder_attention_heads"`
	Encoder     int               `json:"encoder_layers"`
	EncoderAct  string            `json:"encoder_activation_function"`
	Act         string            `json:"activation_function"`
	Project     []int             `json:"encode_proj_layers"`
	Temperature float64           `json:"positional_encoding_temperature"`
	EvalSize    []int             `json:"eval_size"`
	Before      bool              `json:"normalize_before"`
	Expansion   float64           `json:"hidden_expansion"`
	Width       int               `json:"d_model"`
	DecoderIn   []int             `json:"decoder_in_channels"`
	DecoderFF   int               `json:"decoder_ffn_dim"`
	DecoderHead int               `json:"decoder_attention_heads"`
	Decoder     int               `json:"decoder_layers"`
	DecoderAct  string            `json:"decoder_activation_function"`
	Points      counts            `json:"decoder_n_points"`
	Levels      int               `json:"num_feature_levels"`
	Queries     int               `json:"num_queries"`
	Learned     bool              `json:"learn_initial_query"`
	Eps         float32           `json:"layer_norm_eps"`
	Offset      float64           `json:"decoder_offset_scale"` // of version 2 and D-FINE
	Method      string            `json:"decoder_method"`       // of version 2 and D-FINE: "default" or "discrete"
	Labels      map[string]string `json:"id2label"`

	// Of D-FINE.
	Bins          int     `json:"max_num_bins"`
	Scale         float64 `json:"reg_scale"`
	Up            float64 `json:"up"`
	Depth         float64 `json:"depth_mult"`
	Surest        int     `json:"top_prob_values"`
	QualityWidth  int     `json:"lqe_hidden_dim"`
	QualityLayers int     `json:"lqe_layers"`
	Answering     int     `json:"eval_idx"` // the layer that answers
}

// counts are a number of each level, or one for all.
type counts []int

func (c *counts) UnmarshalJSON(data []byte) error {
	var one int
	if json.Unmarshal(data, &one) == nil {
		*c = counts{one}
		return nil
	}
	return json.Unmarshal(data, (*[]int)(c))
}

// fine says that it is a D-FINE.
func (c *Config) fine() bool { return c.Kind == "d_fine" }

// points are those of each level.
func (c *Config) points() []int {
	if len(c.Points) == 1 {
		return slices.Repeat(c.Points, c.Levels)
	}
	return c.Points
}

var acts = map[string]kernels.UnaryOp{"silu": kernels.SiLU, "relu": kernels.ReLU, "gelu": kernels.GELUErf}

// ReadConfig reads a folder's settings.
func ReadConfig(dir string) (Config, error) {
	c := Config{Hidden: 256, EncoderIn: []int{512, 1024, 2048}, EncoderFF: 1024, EncoderHead: 8, Encoder: 1, EncoderAct: "gelu", Act: "silu", Project: []int{2}, Temperature: 10000,
		Expansion: 1, Width: 256, DecoderIn: []int{256, 256, 256}, DecoderFF: 1024, DecoderHead: 8, Decoder: 6, DecoderAct: "relu", Points: counts{4}, Levels: 3, Queries: 300, Eps: 1e-5,
		Offset: 0.5, Method: "default", Backbone: usualBackbone(),
		Bins: 32, Scale: 4, Up: 0.5, Depth: 1, Surest: 4, QualityWidth: 64, QualityLayers: 2, Answering: -1}
	if err := hub.Config(dir, &c, "RTDetrForObjectDetection", "rt_detr", "RTDetrV2ForObjectDetection", "rt_detr_v2", "DFineForObjectDetection", "d_fine"); err != nil {
		return c, err
	}
	if c.Backbone.Kind == "" {
		c.Backbone.Kind = "rt_detr_resnet"
		if c.fine() {
			c.Backbone.Kind = "hgnet_v2"
		}
	}
	return c, c.check()
}

func (c *Config) check() error {
	var l hub.Limits
	c.Backbone.check(&l)
	for key, v := range map[string]int{"encoder_hidden_dim": c.Hidden, "encoder_ffn_dim": c.EncoderFF, "d_model": c.Width, "decoder_ffn_dim": c.DecoderFF} {
		l.Int(key, v, 1, 1<<14)
	}
	l.Int("encoder_layers", c.Encoder, 0, 64)
	l.Int("decoder_layers", c.Decoder, 1, 64)
	l.Int("num_feature_levels", c.Levels, 1, 4)
	l.Must(len(c.Points) == 1 || len(c.Points) == c.Levels, `"decoder_n_points" has %d numbers; one, or one of each of %d levels, was expected`, len(c.Points), c.Levels)
	for _, n := range c.Points {
		l.Int("decoder_n_points", n, 1, 64)
	}
	l.Int("num_queries", c.Queries, 1, 1<<12)
	l.Int("encoder_attention_heads", c.EncoderHead, 1, 256)
	l.Int("decoder_attention_heads", c.DecoderHead, 1, 256)
	l.Must(c.Hidden%max(c.EncoderHead, 1) == 0 && c.Hidden%4 == 0, `"encoder_hidden_dim" %d must be a multiple of 4 and of encoder_attention_heads %d`, c.Hidden, c.EncoderHead)
	l.Must(c.Width%max(c.DecoderHead, 1) == 0, `"d_model" %d is no multiple of decoder_attention_heads %d`, c.Width, c.DecoderHead)
	l.Float("hidden_expansion", c.Expansion, 0.01, 16)
	l.Float("positional_encoding_temperature", c.Temperature, 1, 1e9)
	for key, name := range map[string]string{"activation_function": c.Act, "encoder_activation_function": c.EncoderAct, "decoder_activation_function": c.DecoderAct} {
		_, ok := acts[name]
		l.Must(ok, `%q is %q; "silu", "relu" and "gelu" are known`, key, name)
	}
	n := len(c.Backbone.Channels())
	l.Must(len(c.EncoderIn) == n && len(c.DecoderIn) == n && c.Levels == n, `"encoder_in_channels", "decoder_in_channels" and num_feature_levels %d are of as many maps as the backbone has, %d`, c.Levels, n)
	for _, p := range c.Project {
		l.Must(p >= 0 && p < n, `"encode_proj_layers" has map %d of %d`, p, n)
	}
	l.Must(c.Method == "default" || c.Method == "discrete", `"decoder_method" is %q; "default" and "discrete" are known`, c.Method)
	if c.fine() {
		c.checkFine(&l)
	}
	checkLabels(&l, c.Labels)
	return l.Err()
}

func checkLabels(l *hub.Limits, labels map[string]string) {
	l.Int("id2label", len(labels), 1, 1<<14)
	for i := range len(labels) {
		_, ok := labels[fmt.Sprint(i)]
		l.Must(ok, `"id2label" has no label %d of %d`, i, len(labels))
	}
}

func (c *Config) checkFine(l *hub.Limits) {
	l.Int("max_num_bins", c.Bins, 4, 1<<10)
	l.Must(c.Bins%2 == 0, `"max_num_bins" is %d; an even number was expected`, c.Bins)
	l.Int("top_prob_values", c.Surest, 1, min(c.Bins+1, 1<<10))
	l.Int("lqe_hidden_dim", c.QualityWidth, 1, 1<<14)
	l.Int("lqe_layers", c.QualityLayers, 1, 64)
	l.Float("depth_mult", c.Depth, 0, 16)
	l.Must(c.elanWidth() >= 1, `"hidden_expansion" %v leaves no channels of encoder_hidden_dim %d`, c.Expansion, c.Hidden)
	l.Must(c.Answering == -1 || c.Answering == c.Decoder-1, `"eval_idx" is %d; the last of %d layers, -1 or %d, is known`, c.Answering, c.Decoder, c.Decoder-1)
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
	Config   // of an RF-DETR Kind, Queries and Labels alone
	Prepare  detr.Processor
	network  network
	side     int // of pictures; 0: any
	multiple int // of their sides
	device   *features.Device
	params   *nn.Params
}

// A network gives the logits [B, queries, classes] and the boxes [B, queries, 4] of pictures [B, H, W, 3].
type network interface {
	Forward(tp *autograd.Tape, pictures *autograd.Value) (logits, boxes []float32)
}

// Open reads a folder of an RT-DETR or a D-FINE.
func Open(dir string, device *features.Device) (*Model, error) {
	c, err := ReadConfig(dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	m := &Model{Config: c, device: device, multiple: 32}
	if m.Prepare, err = detr.ReadProcessor(dir, detr.SquareProcessor(640), false); err != nil {
		return nil, err
	}
	folded := func(set *safetensors.Set) nn.Source { return detr.Folded(set) }
	if err := m.load(dir, folded, func(p *nn.Params) network { return New(p, c) }); err != nil {
		return nil, err
	}
	return m, nil
}

// load reads a folder's weights.
func (m *Model) load(dir string, read func(*safetensors.Set) nn.Source, build func(*nn.Params) network) error {
	set, err := safetensors.OpenFolder(dir)
	if err != nil {
		return err
	}
	defer set.Close()
	if m.params, err = m.device.Load(read(set), func(p *nn.Params) { m.network = build(p) }); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}

// Close gives the memory back.
func (m *Model) Close() { m.device.Free(m.params) }

// An Answer is a network's of a picture: logits of each query's classes, and boxes (cx, cy, w, h) as shares.
type Answer struct{ Logits, Boxes []float32 }

// Forward asks the network about prepared pictures, [n, size.H, size.W, 3].
func (m *Model) Forward(pixels []float32, n int, size detr.Size) (answers []Answer, err error) {
	if d := m.multiple; n < 1 || size.H < d || size.W < d || size.H%d != 0 || size.W%d != 0 || len(pixels) != n*size.H*size.W*3 {
		return nil, fmt.Errorf("%d numbers for %d pictures of %d x %d: sides that are multiples of %d are read", len(pixels), n, size.W, size.H, d)
	}
	if m.side > 0 && size != (detr.Size{H: m.side, W: m.side}) {
		return nil, fmt.Errorf("pictures of %d x %d; %d x %d are read", size.W, size.H, m.side, m.side)
	}
	m.device.Run(false, func(tp *autograd.Tape) {
		defer kernels.Recover(&err)
		logits, boxes := m.network.Forward(tp, tp.Upload("pictures", pixels, n, size.H, size.W, 3))
		each := len(logits) / n
		for i := range n {
			answers = append(answers, Answer{logits[i*each:][:each], boxes[i*m.Queries*4:][:m.Queries*4]})
		}
	})
	return answers, err
}

// Detect is the boxes of a picture with scores above least, the surest first.
func (m *Model) Detect(ctx context.Context, picture *vision.Image, least float64) ([]detr.Box, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b, err := m.Prepare.Apply([]*vision.Image{picture})
	if err != nil {
		return nil, err
	}
	answers, err := m.Forward(b.Pixels, 1, b.Size)
	if err != nil {
		return nil, err
	}
	return detr.Top(answers[0].Logits, answers[0].Boxes, m.Queries, b.Shown[0], least), nil
}
