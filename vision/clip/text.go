package clip

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// Text is a text tower: causal, pooled at the end token.
type Text struct {
	TextConfig
	tokens, positions *autograd.Param
	layers            []*layer
	final             *nn.Norm
	projection        *nn.Linear // nil where there is none
}

// NewText asks p for a text tower's parameters, and for its projection where projected is
// set. transformers 5 leaves "text_model." out of the names; both are read.
func NewText(p *nn.Params, c TextConfig, projected bool) *Text {
	m := p.Sub("text_model")
	if p.Has("embeddings.token_embedding.weight") {
		m = p
	}
	m.Ignore("embeddings\\.position_ids")
	t := &Text{TextConfig: c, tokens: m.Embedding("embeddings.token_embedding", c.Vocabulary, c.Width),
		positions: m.Embedding("embeddings.position_embedding", c.Positions, c.Width),
		layers:    newLayers(m, c.Encoder), final: m.LayerNorm("final_layer_norm", c.Width, c.Eps)}
	if projected {
		t.projection = p.Linear("text_projection", c.Width, c.Out, false)
	}
	return t
}

// TextOut is what a text tower says of each text.
type TextOut struct {
	Last      *autograd.Value // [B, S, Width], after the final norm
	Before    *autograd.Value // [B, S, Width], what enters the last layer: what SD3 and SDXL read
	Pooled    *autograd.Value // [B, Width]
	Projected *autograd.Value // [B, Out], where there is a projection
}

// Forward encodes texts of one length, as rows of ids.
func (t *Text) Forward(tp *autograd.Tape, ids [][]int32) TextOut {
	n, flat, at := len(ids[0]), []int32(nil), []int32(nil)
	for i, row := range ids {
		if len(row) != n || n > t.Positions {
			panic(fmt.Sprintf("clip: texts of %d and %d tokens in one call; at most %d fit", n, len(row), t.Positions))
		}
		flat = append(flat, row...)
		at = append(at, int32(i*n+t.end(row)))
	}
	places := make([]int32, len(flat))
	for i := range places {
		places[i] = int32(i % n)
	}
	x := tp.Add(tp.Embedding(t.tokens, flat, len(ids), n), tp.Embedding(t.positions, places, len(ids), n))
	var out TextOut
	for i, l := range t.layers {
		if i == len(t.layers)-1 {
			out.Before = x
		}
		x = l.forward(tp, x, true)
	}
	out.Last = t.final.Apply(tp, x)
	out.Pooled = tp.Gather(out.Last, at)
	if t.projection != nil {
		out.Projected = t.projection.Apply(tp, out.Pooled, autograd.With{Wide: true})
	}
	return out
}

// end is where a text is pooled.
func (t *Text) end(row []int32) int {
	best := 0
	for i, id := range row {
		if t.End == 2 {
			if id > row[best] {
				best = i
			}
		} else if id == int32(t.End) {
			return i
		}
	}
	return best
}
