// Package groundingdino is Grounding DINO (Liu et al., 2023) on Swin and BERT, with the parameter names of the
// hub's folders (GroundingDinoForObjectDetection): boxes of things that a text names.
//
//	m, err := groundingdino.Open("grounding-dino-tiny", device)
//	found, err := m.Detect(ctx, picture, []string{"a cat", "a remote control"}, 0.4)
//
// Start with network.go; text.go is BERT and the blocks of a text.
package groundingdino

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/detr"
	"github.com/darkroom-rl/darkroom/vision/features"
	"github.com/darkroom-rl/darkroom/vision/swin"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
)

// Config is config.json of a GroundingDinoForObjectDetection.
type Config struct {
	Backbone      swin.Config `json:"backbone_config"`
	Text          BERT        `json:"text_config"`
	Width         int         `json:"d_model"`
	Queries       int         `json:"num_queries"`
	Levels        int         `json:"num_feature_levels"`
	Encoder       int         `json:"encoder_layers"`
	EncoderInner  int         `json:"encoder_ffn_dim"`
	EncoderHeads  int         `json:"encoder_attention_heads"`
	EncoderPoints int         `json:"encoder_n_points"`
	Decoder       int         `json:"decoder_layers"`
	DecoderInner  int         `json:"decoder_ffn_dim"`
	DecoderHeads  int         `json:"decoder_attention_heads"`
	DecoderPoints int         `json:"decoder_n_points"`
	Act           string      `json:"activation_function"`
	Eps           float32     `json:"layer_norm_eps"`
	MostText      int         `json:"max_text_len"`
	Temperature   float64     `json:"positional_embedding_temperature"`
	Kind          string      `json:"position_embedding_type"`
	QueryDim      int         `json:"query_dim"`
	TwoStage      bool        `json:"two_stage"`
	Learned       bool        `json:"embedding_init_target"`
	SharedBoxes   bool        `json:"decoder_bbox_embed_share"`
	SharedStages  bool        `json:"two_stage_bbox_embed_share"`
}

// groups are those of the norms over channels.
const groups = 32

// ReadConfig reads a folder's settings.
func ReadConfig(dir string) (Config, error) {
	c := Config{Text: usualBERT(), Width: 256, Queries: 900, Levels: 4, Encoder: 6, EncoderInner: 2048, EncoderHeads: 8, EncoderPoints: 4, Decoder: 6, DecoderInner: 2048, DecoderHeads: 8,
		DecoderPoints: 4, Act: "relu", Eps: 1e-5, MostText: 256, Temperature: 20, Kind: "sine", QueryDim: 4, TwoStage: true, Learned: true, SharedBoxes: true}
	c.Backbone.SetDefaults()
	c.Backbone.Indices = []int{2, 3, 4}
	if err := hub.Config(dir, &c, "GroundingDinoForObjectDetection", "grounding-dino"); err != nil {
		return c, err
	}
	return c, c.check()
}

func (c *Config) check() error {
	var l hub.Limits
	c.Backbone.Check(&l)
	c.Text.check(&l)
	for key, v := range map[string]int{"d_model": c.Width, "encoder_ffn_dim": c.EncoderInner, "decoder_ffn_dim": c.DecoderInner} {
		l.Int(key, v, 2, 1<<14)
	}
	l.Int("encoder_layers", c.Encoder, 1, 64)
	l.Int("decoder_layers", c.Decoder, 1, 64)
	l.Int("num_queries", c.Queries, 1, 1<<12)
	l.Int("encoder_n_points", c.EncoderPoints, 1, 64)
	l.Int("decoder_n_points", c.DecoderPoints, 1, 64)
	l.Int("encoder_attention_heads", c.EncoderHeads, 2, 256)
	l.Int("decoder_attention_heads", c.DecoderHeads, 1, 256)
	l.Int("max_text_len", c.MostText, 4, 1<<12)
	l.Must(c.Width%groups == 0, `"d_model" %d is no multiple of %d`, c.Width, groups)
	heads := max(c.EncoderHeads, 2)
	l.Must(c.Width%heads == 0 && heads%2 == 0 && c.Width%max(c.DecoderHeads, 1) == 0, `"d_model" %d and encoder_ffn_dim %d do not go with %d and %d heads`, c.Width, c.EncoderInner, c.EncoderHeads, c.DecoderHeads)
	l.Must(c.EncoderInner%heads == 0, `"encoder_ffn_dim" %d is no multiple of encoder_attention_heads %d`, c.EncoderInner, c.EncoderHeads)
	l.Must(c.Act == "relu", `"activation_function" is %q; "relu" is known`, c.Act)
	l.Must(c.Kind == "sine", `"position_embedding_type" is %q; "sine" is known`, c.Kind)
	l.Must(c.QueryDim == 4 && c.TwoStage && c.Learned && c.SharedBoxes && !c.SharedStages, `"query_dim", "two_stage", "embedding_init_target", "decoder_bbox_embed_share" and "two_stage_bbox_embed_share" are known as 4, true, true, true and false, as published`)
	n := len(c.Backbone.Channels())
	l.Must(c.Levels >= n && c.Levels <= n+2 && n > 0, `"num_feature_levels" is %d; the backbone's %d maps and up to two more are known`, c.Levels, n)
	return l.Err()
}

// Model is a folder's network in memory. It may be asked from any goroutine.
type Model struct {
	Config
	*Network
	Prepare detr.Processor
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
	if m.Prepare, err = detr.ReadProcessor(dir, detr.EdgeProcessor(0), true); err != nil {
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
	if m.params, err = device.Load(set, func(p *nn.Params) { m.Network = New(p, c) }); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return m, nil
}

// Close gives the memory back.
func (m *Model) Close() { m.device.Free(m.params) }

// Question joins labels to the text of the network's training: "a cat. a remote control."
func Question(labels []string) string {
	parts := make([]string, len(labels))
	for i, l := range labels {
		parts[i] = strings.ToLower(strings.TrimSpace(l))
	}
	return strings.Join(parts, ". ") + "."
}

// IDs are a text's tokens with those around it.
func (m *Model) IDs(text string) ([]int32, error) {
	ids, err := m.tokens.Framed(text)
	if err != nil {
		return nil, err
	}
	if len(ids) > m.MostText {
		return nil, fmt.Errorf("the text %.80q has %d tokens; at most %d are read\nhint: ask for fewer labels at once", text, len(ids), m.MostText)
	}
	return ids, nil
}

// An Answer is logits of each query's tokens, -Inf beyond the text, and boxes (cx, cy, w, h) as shares of the
// picture.
type Answer struct {
	Logits [][]float32 // [queries][MostText]
	Boxes  []float32
}

// Forward asks about prepared pictures and a text for each.
func (m *Model) Forward(b detr.Batch, ids [][]int32) (answers []Answer, err error) {
	if len(b.Inside) != len(ids) || len(ids) == 0 || b.Size.H < 32 || b.Size.W < 32 {
		return nil, fmt.Errorf("%d pictures of %d x %d and %d texts: a text a picture is read, and sides of 32 and more", len(b.Inside), b.Size.W, b.Size.H, len(ids))
	}
	m.device.Run(false, func(tp *autograd.Tape) {
		defer kernels.Recover(&err)
		answers = m.Network.Forward(tp, b, ids)
	})
	return answers, err
}

// Found are boxes of queries whose surest token exceeds least, in the order of queries, with the numbers of all
// tokens above text but the first column's and the last's.
func (a Answer) Found(shown detr.Size, least, text float64) (boxes []detr.Box, tokens [][]int) {
	for q, row := range a.Logits {
		score := detr.Sigmoid(float64(slices.Max(row)))
		if !(score > least) {
			continue
		}
		boxes = append(boxes, detr.Box{Score: score, Box: detr.Corners(a.Boxes[4*q:], float64(shown.W), float64(shown.H))})
		var of []int
		for i := 1; i < len(row)-1; i++ {
			if detr.Sigmoid(float64(row[i])) > text {
				of = append(of, i)
			}
		}
		tokens = append(tokens, of)
	}
	return boxes, tokens
}

// Phrase is the text of tokens, as BERT's tokenizer writes it.
func (m *Model) Phrase(ids []int32, tokens []int) string {
	var some []int32
	for _, t := range tokens {
		id := int32(0) // padding
		if t < len(ids) {
			id = ids[t]
		}
		some = append(some, id)
	}
	return m.tokens.Decode(some)
}

// Detect is the boxes of labels, with scores above least, the surest first. A box is of the label with its surest
// token.
func (m *Model) Detect(ctx context.Context, picture *vision.Image, labels []string, least float64) ([]detr.Box, error) {
	if err := ctx.Err(); err != nil || len(labels) == 0 {
		return nil, err
	}
	ids, err := m.IDs(Question(labels))
	if err != nil {
		return nil, err
	}
	b, err := m.Prepare.Apply([]*vision.Image{picture})
	if err != nil {
		return nil, err
	}
	answers, err := m.Forward(b, [][]int32{ids})
	if err != nil {
		return nil, err
	}
	of := labelsOf(ids)
	var found []detr.Box
	for q, row := range answers[0].Logits {
		best := -1
		for i := range ids {
			if of[i] >= 0 && of[i] < len(labels) && (best < 0 || row[i] > row[best]) {
				best = i
			}
		}
		if best < 0 {
			continue
		}
		if score := detr.Sigmoid(float64(row[best])); score > least {
			found = append(found, detr.Box{Label: of[best], Score: score, Box: detr.Corners(answers[0].Boxes[4*q:], float64(picture.Width), float64(picture.Height))})
		}
	}
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
