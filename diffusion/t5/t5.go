// Package t5 is the encoder half of T5 (v1.1) and UMT5 (Raffel et al., 2020; Chung et al.,
// 2023), with the hub's parameter names: text encoders of SD3, FLUX and Wan.
//
// Start with Model.Forward; Config.bucket has the relative positions.
package t5

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/portable"
)

// Config is config.json of an encoder.
type Config struct {
	Width      int     `json:"d_model"`
	Inner      int     `json:"d_ff"`
	HeadDim    int     `json:"d_kv"`
	Heads      int     `json:"num_heads"`
	Layers     int     `json:"num_layers"`
	Vocabulary int     `json:"vocab_size"`
	Buckets    int     `json:"relative_attention_num_buckets"`
	Distance   int     `json:"relative_attention_max_distance"`
	Eps        float32 `json:"layer_norm_epsilon"`
	FeedFwd    string  `json:"feed_forward_proj"` // "gated-gelu" or "relu"
	ModelType  string  `json:"model_type"`        // "umt5": every layer has its own positions
}

// ReadConfig reads a folder's config.json.
func ReadConfig(dir string) (Config, error) {
	c := Config{Width: 512, Inner: 2048, HeadDim: 64, Heads: 8, Layers: 6, Vocabulary: 32128, Buckets: 32, Distance: 128, Eps: 1e-6, FeedFwd: "relu"}
	if err := hub.Config(dir, &c, "T5EncoderModel", "T5ForConditionalGeneration", "T5Model", "UMT5EncoderModel", "UMT5ForConditionalGeneration", "UMT5Model", "t5", "umt5"); err != nil {
		return c, err
	}
	return c, c.check()
}

func (c Config) check() error {
	var l hub.Limits
	l.Int("d_model", c.Width, 1, 1<<15)
	l.Int("d_ff", c.Inner, 1, 1<<17)
	l.Int("d_kv", c.HeadDim, 1, 1024)
	l.Int("num_heads", c.Heads, 1, 1024)
	l.Int("num_layers", c.Layers, 1, 512)
	l.Int("vocab_size", c.Vocabulary, 1, 1<<22)
	l.Int("relative_attention_num_buckets", c.Buckets, 4, 1<<16)
	l.Int("relative_attention_max_distance", c.Distance, c.Buckets/4+1, 1<<20)
	l.Float("layer_norm_epsilon", float64(c.Eps), 0, 1)
	l.Must(c.FeedFwd == "gated-gelu" || c.FeedFwd == "relu", `"feed_forward_proj" is %q; "gated-gelu" and "relu" are known`, c.FeedFwd)
	return l.Err()
}

// Model is the encoder.
type Model struct {
	Config
	tokens *autograd.Param
	layers []*layer
	final  *nn.Norm
}

// layer: x += out(attention(norm(x)) with relative biases, unscaled), x += mlp(norm(x)).
type layer struct {
	before, between *nn.Norm
	attention       *nn.Attention
	bias            *autograd.Param // nil: that of the first layer
	mlp             interface {
		Apply(*autograd.Tape, *autograd.Value, autograd.With) *autograd.Value
	}
}

// Today names tensors as transformers does: those of GGUF files have llama.cpp's names.
func Today(src nn.Source) nn.Source {
	if !slices.Contains(src.Names(), "token_embd.weight") {
		return src
	}
	return nn.Rename(src, "token_embd", "shared", "enc.output_norm", "encoder.final_layer_norm", "enc.blk.", "encoder.block.",
		".attn_q.", ".layer.0.SelfAttention.q.", ".attn_k.", ".layer.0.SelfAttention.k.", ".attn_v.", ".layer.0.SelfAttention.v.",
		".attn_o.", ".layer.0.SelfAttention.o.", ".attn_rel_b.", ".layer.0.SelfAttention.relative_attention_bias.",
		".attn_norm.", ".layer.0.layer_norm.", ".ffn_norm.", ".layer.1.layer_norm.",
		".ffn_gate.", ".layer.1.DenseReluDense.wi_0.", ".ffn_up.", ".layer.1.DenseReluDense.wi_1.", ".ffn_down.", ".layer.1.DenseReluDense.wo.")
}

// New asks p for the encoder's parameters; p.Check reports problems with them. A folder's decoder is left alone.
func New(p *nn.Params, c Config) *Model {
	p.Ignore(`decoder\..*`, `lm_head\.weight`, `encoder\.embed_tokens\.weight`)
	m := &Model{Config: c, tokens: p.Embedding("shared", c.Vocabulary, c.Width), final: p.RMSNorm("encoder.final_layer_norm", c.Width, c.Eps)}
	inner := c.Heads * c.HeadDim
	for i := range c.Layers {
		b := p.At("encoder.block", i)
		a, f := b.Sub("layer.0.SelfAttention"), b.Sub("layer.1.DenseReluDense")
		l := &layer{before: b.RMSNorm("layer.0.layer_norm", c.Width, c.Eps), between: b.RMSNorm("layer.1.layer_norm", c.Width, c.Eps),
			attention: &nn.Attention{Heads: c.Heads, Q: a.Linear("q", c.Width, inner, false), K: a.Linear("k", c.Width, inner, false),
				V: a.Linear("v", c.Width, inner, false), Out: a.Linear("o", inner, c.Width, false)}}
		if i == 0 || c.ModelType == "umt5" {
			l.bias = a.Embedding("relative_attention_bias", c.Buckets, c.Heads)
		}
		if c.FeedFwd == "relu" {
			l.mlp = &nn.MLP{Up: f.Linear("wi", c.Width, c.Inner, false), Down: f.Linear("wo", c.Inner, c.Width, false), Act: kernels.ReLU}
		} else {
			l.mlp = &nn.GatedMLP{Gate: f.Linear("wi_0", c.Width, c.Inner, false), Up: f.Linear("wi_1", c.Width, c.Inner, false),
				Down: f.Linear("wo", c.Inner, c.Width, false), Act: kernels.GELUTanh}
		}
		m.layers = append(m.layers, l)
	}
	return m
}

// Forward encodes texts of one length. lengths, where not nil, are how many tokens of each
// text are seen as keys; all rows are computed. It returns [B, S, Width].
func (m *Model) Forward(tp *autograd.Tape, ids [][]int32, lengths []int32) *autograd.Value {
	n, flat := len(ids[0]), []int32(nil)
	for _, row := range ids {
		if len(row) != n {
			panic(fmt.Sprintf("t5: texts of %d and %d tokens in one call", n, len(row)))
		}
		flat = append(flat, row...)
	}
	x := tp.Embedding(m.tokens, flat, len(ids), n)
	buckets := m.buckets(n)
	var bias *autograd.Value
	for _, l := range m.layers {
		if l.bias != nil {
			bias = tp.Permute(tp.EmbeddingWide(l.bias, buckets, 1, n, n), 0, 3, 1, 2)
		}
		out := tp.Block(func(in ...*autograd.Value) []*autograd.Value {
			h := l.before.Apply(tp, in[0])
			y := l.attention.Apply(tp, h, h, autograd.Attend{Scale: 1, KeyLens: lengths, Bias: in[1]}, autograd.With{Residual: in[0]})
			tp.Release(h)
			g := l.between.Apply(tp, y)
			return []*autograd.Value{l.mlp.Apply(tp, g, autograd.With{Residual: y})}
		}, x, bias)
		tp.Release(x)
		x = out[0]
	}
	return m.final.Apply(tp, x)
}

// Relative positions: a query at i looks at a key at j through the number of a bucket of
// j - i, which is a row of a table with a bias for each head. Half of the buckets are for
// keys that come later; in each half, half are for distances 0, 1, 2, ... and the rest grow
// as the logarithm up to Distance:
//
//	exact + floor(log(d/exact) / log(Distance/exact) · (half - exact))
//
// in fp32, as upstream computes it: borders between buckets depend on it.
func (c Config) bucket(offset int) int32 {
	half := c.Buckets / 2
	at, d := 0, offset
	if offset > 0 {
		at = half
	} else {
		d = -offset
	}
	exact := half / 2
	if d < exact {
		return int32(at + d)
	}
	ratio := float32(portable.Log(float64(float32(d)/float32(exact)))) / float32(portable.Log(float64(c.Distance)/float64(exact)))
	far := exact + int(ratio*float32(half-exact))
	return int32(at + min(far, half-1))
}

// buckets are those of all pairs of n tokens, row by query.
func (c Config) buckets(n int) []int32 {
	byOffset := make([]int32, 2*n-1)
	for o := range byOffset {
		byOffset[o] = c.bucket(o - n + 1)
	}
	all := make([]int32, 0, n*n)
	for i := range n {
		all = append(all, byOffset[n-1-i:2*n-1-i]...)
	}
	return all
}
