package groundingdino

import (
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
)

// BERT is "text_config".
type BERT struct {
	Kind       string  `json:"model_type"`
	Width      int     `json:"hidden_size"`
	Inner      int     `json:"intermediate_size"`
	Layers     int     `json:"num_hidden_layers"`
	Heads      int     `json:"num_attention_heads"`
	Act        string  `json:"hidden_act"`
	Eps        float32 `json:"layer_norm_eps"`
	Vocabulary int     `json:"vocab_size"`
	Positions  int     `json:"max_position_embeddings"`
	Types      int     `json:"type_vocab_size"`
}

func usualBERT() BERT {
	return BERT{Kind: "bert", Width: 768, Inner: 3072, Layers: 12, Heads: 12, Act: "gelu", Eps: 1e-12, Vocabulary: 30522, Positions: 512, Types: 2}
}

func (b *BERT) check(l *hub.Limits) {
	l.Must(b.Kind == "bert", `"text_config" is of a %q; "bert" is known`, b.Kind)
	l.Must(b.Act == "gelu", `"hidden_act" is %q; "gelu" is known`, b.Act)
	l.Int("hidden_size", b.Width, 1, 1<<14)
	l.Int("intermediate_size", b.Inner, 1, 1<<16)
	l.Int("num_hidden_layers", b.Layers, 1, 256)
	l.Int("num_attention_heads", b.Heads, 1, 256)
	l.Int("vocab_size", b.Vocabulary, 1, 1<<22)
	l.Int("max_position_embeddings", b.Positions, 1, 1<<16)
	l.Int("type_vocab_size", b.Types, 1, 64)
	l.Must(b.Width%max(b.Heads, 1) == 0, `"hidden_size" %d is not a multiple of num_attention_heads %d`, b.Width, b.Heads)
}

// Tokens that end a block of a text: [CLS], [SEP], the full stop and the question mark of BERT's vocabulary.
var ends = []int32{101, 102, 1012, 1029}

// blocks are, for each token of a padded text, the place of the token that ends its block, -1 outside of blocks,
// and the token's number in it. A token sees its block alone; one outside sees itself. A block that ends with the
// text, or with its first token, does not count.
func blocks(ids []int32) (end []int, place []int32) {
	n := len(ids)
	end, place = make([]int, n), make([]int32, n)
	next := n
	for i := n - 1; i >= 0; i-- {
		if slices.Contains(ends, ids[i]) {
			next = i
		}
		end[i] = next
		if next == 0 || next >= n-1 {
			end[i] = -1
		}
	}
	last := -1
	for i := range ids {
		if end[i] >= 0 {
			place[i] = int32(max(i-last-1, 0))
		}
		if slices.Contains(ends, ids[i]) {
			last = i
		}
	}
	return end, place
}

// labelsOf are the numbers of the labels that tokens belong to; -1: none.
func labelsOf(ids []int32) []int {
	of, label := make([]int, len(ids)), -1
	for i, id := range ids {
		of[i] = -1
		if slices.Contains(ends, id) {
			label++
			continue
		}
		of[i] = label
	}
	return of
}

// bert is a BertModel without its pooler: x = norm(x + attention(x)), x = norm(x + mlp(x)).
type bert struct {
	BERT
	words, places, types *autograd.Param
	norm                 *nn.Norm
	layers               []*bertLayer
}

type bertLayer struct {
	attention   *nn.Attention
	after, last *nn.Norm
	mlp         *nn.MLP
}

func newBERT(p *nn.Params, c BERT) *bert {
	p.Ignore("embeddings\\.position_ids", "pooler\\..*")
	w, e := c.Width, p.Sub("embeddings")
	b := &bert{BERT: c, words: e.Embedding("word_embeddings", c.Vocabulary, w), places: e.Embedding("position_embeddings", c.Positions, w), types: e.Embedding("token_type_embeddings", c.Types, w), norm: e.LayerNorm("LayerNorm", w, c.Eps)}
	for i := range c.Layers {
		l := p.At("encoder.layer", i)
		a := l.Sub("attention.self")
		b.layers = append(b.layers, &bertLayer{attention: &nn.Attention{Heads: c.Heads, Q: a.Linear("query", w, w, true), K: a.Linear("key", w, w, true), V: a.Linear("value", w, w, true), Out: l.Linear("attention.output.dense", w, w, true)},
			after: l.LayerNorm("attention.output.LayerNorm", w, c.Eps), last: l.LayerNorm("output.LayerNorm", w, c.Eps),
			mlp: &nn.MLP{Up: l.Linear("intermediate.dense", w, c.Inner, true), Down: l.Linear("output.dense", c.Inner, w, true), Act: kernels.GELUErf}})
	}
	return b
}

// forward is the states of texts of one length n, rows of ids and places in blocks, with scores' bias.
func (b *bert) forward(tp *autograd.Tape, ids, places []int32, rows, n int, bias func(heads int) *autograd.Value) *autograd.Value {
	x := tp.Add(tp.Embedding(b.words, ids, rows, n), tp.Embedding(b.types, make([]int32, rows*n), rows, n))
	x = b.norm.Apply(tp, tp.Add(x, tp.Embedding(b.places, places, rows, n)))
	seen := bias(b.Heads)
	for _, l := range b.layers {
		x = l.after.Apply(tp, l.attention.Apply(tp, x, x, autograd.Attend{Bias: seen}, autograd.With{Residual: x}))
		x = l.last.Apply(tp, l.mlp.Apply(tp, x, autograd.With{Residual: x}))
	}
	return x
}
