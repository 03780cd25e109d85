package preference

import (
	"fmt"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Network is Qwen2-VL or Qwen2.5-VL with a head on the states of its answers' tokens, behind the last norm:
//
//	VideoReward  score k = row k of a linear layer at the k-th token (VQ, MQ, TA)
//	HPSv3        (mu, sigma) = linear, ReLU, linear, ReLU, linear at its one token; mu is the reward
//	EditReward   as HPSv3, with a head for each of two questions
//
// Tokens' positions are plain, 0 to L-1 on all axes, pictures' cells too: upstream calls the decoder without
// positions. Another index moves the scores by a third and more.
//
// Held to qwen2vl.videoreward and qwen2vl.hpsv3: tokens, patches, scores, gradients at patches and weights.
type Network struct {
	Model *vlm.Model
	head  func(tp *autograd.Tape, states *autograd.Value) *autograd.Value
}

// NewEdit asks p for EditReward: one model, and a head for each of its questions.
func NewEdit(p *nn.Params, c vlm.Config) (both [2]*Network) {
	m := vlm.New(p, c)
	for i := range both {
		both[i] = &Network{Model: m, head: ranked(p.Sub(fmt.Sprintf("rm_heads.head_%d", i)), c)}
	}
	return both
}

// Fitted is a folder's settings with as many tokens as its table has: reward tokens are added to the
// tokenizer's, and the table was cut to that.
func Fitted(c vlm.Config, src nn.Source) (vlm.Config, error) {
	t, err := src.Tensor("model.embed_tokens.weight")
	if err != nil {
		var nested error // as transformers names it since 4.52
		if t, nested = src.Tensor("model.language_model.embed_tokens.weight"); nested != nil {
			return c, err
		}
	}
	c.Text.Vocabulary, c.Plain = t.Shape[0], true
	return c, nil
}

// NewVideo asks p for VideoReward, with a score for each of n tokens.
func NewVideo(p *nn.Params, c vlm.Config, n int) *Network {
	out := &Network{Model: vlm.New(p, c)}
	head := p.Linear("rm_head", c.Text.Width, n, false)
	out.head = func(tp *autograd.Tape, states *autograd.Value) *autograd.Value {
		all := head.Apply(tp, states, autograd.With{Wide: true})
		var own []int32 // of each token, its own score
		for k := range n {
			own = append(own, int32(k*n+k))
		}
		return tp.Gather(tp.Reshape(all, n*n, 1), own, n)
	}
	return out
}

// NewPicture asks p for HPSv3.
func NewPicture(p *nn.Params, c vlm.Config) *Network {
	return &Network{Model: vlm.New(p, c), head: ranked(p.Sub("rm_head"), c)}
}

// ranked asks p for a head of three layers.
func ranked(p *nn.Params, c vlm.Config) func(tp *autograd.Tape, states *autograd.Value) *autograd.Value {
	first, second, last := p.Linear("0", c.Text.Width, 1024, true), p.Linear("3", 1024, 16, true), p.Linear("5", 16, 2, true)
	return func(tp *autograd.Tape, states *autograd.Value) *autograd.Value {
		h := first.Apply(tp, states, autograd.With{Act: kernels.ReLU})
		return last.Apply(tp, second.Apply(tp, h, autograd.With{Act: kernels.ReLU}), autograd.With{Wide: true})
	}
}

// Scores are those of a text with its picture or clip, whose patches may be on the tape; tokens are the ids of
// the answers' tokens.
func (n *Network) Scores(tp *autograd.Tape, s vlm.Stretch, tokens []int32, pictures, clips *autograd.Value) (*autograd.Value, error) {
	hidden, err := n.Model.HiddenOf(tp, s, pictures, clips)
	if err != nil {
		return nil, err
	}
	var rows []int32
	for i, id := range s.IDs {
		if slices.Contains(tokens, id) {
			rows = append(rows, int32(i))
		}
	}
	if len(rows) != len(tokens) {
		return nil, fmt.Errorf("the text has %d of the %d tokens that scores are read at", len(rows), len(tokens))
	}
	return n.head(tp, tp.Gather(hidden, rows, len(rows))), nil
}

// IDs are a text's tokens; each of special, in its order, is an id after the tokenizer's own.
func IDs(t *tokenizer.Tokenizer, text string, special []string) (ids, added []int32, err error) {
	for k := range special {
		added = append(added, int32(t.Size()+k))
	}
	for text != "" {
		at, which := len(text), -1
		for k, s := range special {
			if i := strings.Index(text, s); i >= 0 && i < at {
				at, which = i, k
			}
		}
		e, err := t.Encode(text[:at])
		if err != nil {
			return nil, nil, err
		}
		ids = append(ids, e.IDs...)
		if which < 0 {
			break
		}
		ids, text = append(ids, added[which]), text[at+len(special[which]):]
	}
	return ids, added, nil
}
