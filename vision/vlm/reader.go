package vlm

import (
	"fmt"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
)

// NewReader asks for the parameters of a model that only reads prompts, as the text encoders of
// pipelines do: it has no head, and no tower where it sees no pictures, so that their weights are not
// read.
func NewReader(p *nn.Params, c Config, sees bool) *Model {
	p.Ignore(`lm_head\..*`, `mtp\..*`, `.*\.rotary(_pos)?_emb\.inv_freq`)
	text, tower := places(p, c)
	m := &Model{Config: c}
	if sees {
		m.Tower = newTower(tower, c.Family, c.Vision)
	} else {
		p.Ignore(`(model\.)?visual\..*`)
	}
	m.read(text)
	return m
}

// places are where the parameters of the language model and of the tower are.
func places(p *nn.Params, c Config) (text, tower *nn.Params) {
	flat := c.Vision.Layers == 0 // a language model alone
	if nested := p.Sub("model.language_model"); c.Family.third() && !flat || nested.Has("embed_tokens.weight") {
		return nested, p.Sub("model.visual")
	}
	return p.Sub("model"), p.Sub("visual")
}

// read asks for the language model without its head.
func (m *Model) read(text *nn.Params) {
	t := m.Text
	m.tokens = text.Embedding("embed_tokens", t.Vocabulary, t.Width)
	for i := range t.Layers {
		layer := newTextLayer(text.At("layers", i), t, i)
		if e, ok := layer.mlp.(*experts); ok {
			e.heard = &m.heard
		}
		m.layers = append(m.layers, layer)
	}
	m.norm = t.textNorm(text, "norm", t.Width)
}

// Language models without eyes, which pipelines have as text encoders: Qwen3ForCausalLM is Qwen3-VL's
// language model, whose indices are the tokens' numbers.

// ReadReaderConfig reads config.json of a model for NewReader: one that ReadConfig knows, or a Qwen3ForCausalLM.
func ReadReaderConfig(dir string) (Config, error) {
	var said struct {
		Kind string `json:"model_type"`
	}
	path := filepath.Join(dir, "config.json")
	if err := hub.JSON(path, &said); err != nil {
		return Config{}, err
	}
	if said.Kind != "qwen3" {
		return ReadConfig(dir)
	}
	c := FamilyQwen3VL.defaults()
	c.Text.Theta, c.Text.HeadDim, c.Text.KVHeads, c.Text.Longest = 1e4, 128, 32, 32768
	if err := hub.JSON(path, &c.Text); err != nil {
		return c, err
	}
	t := &c.Text
	t.settleRope()
	t.settleDelta()
	t.settleExperts(c.Family)
	t.Sections, t.Interleaved, t.HeadNorms = []int{0, 0, 0}, true, true
	c.Plain, c.Picture, c.Clip = true, -1, -2
	c.Vision = TowerConfig{Merge: 1}
	var l hub.Limits
	l.Int("vocab_size", t.Vocabulary, 1, 1<<22)
	l.Int("hidden_size", t.Width, 1, 1<<16)
	l.Int("intermediate_size", t.Inner, 1, maxWidth)
	l.Int("num_hidden_layers", t.Layers, 1, 512)
	l.Int("num_attention_heads", t.Heads, 1, 512)
	l.Int("num_key_value_heads", t.KVHeads, 1, 512)
	l.Int("head_dim", t.HeadDim, 2, 1024)
	l.Float("rms_norm_eps", float64(t.Eps), 0, 1)
	t.checkRope(&l)
	l.Must(t.Act == "silu", `"hidden_act" is %q; "silu" is known`, t.Act)
	l.Must(!t.Sliding, `"use_sliding_window" is true; attention to all that came before is known`)
	l.Must(t.Bias == nil || !*t.Bias, `"attention_bias" is true; Qwen3 without is known`)
	l.Must(t.KVHeads < 1 || t.Heads%t.KVHeads == 0, `%d heads and %d of keys do not divide`, t.Heads, t.KVHeads)
	l.Must(t.HeadDim%2 == 0, `"head_dim" %d is odd`, t.HeadDim)
	if err := l.Err(); err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// PaddedStates are States of a text of which only the first tokens, seen of them, are keys: those behind
// them are padding, whose own states some pipelines read.
func (m *Model) PaddedStates(tp *autograd.Tape, ids []int32, seen int) ([]*autograd.Value, error) {
	in, err := m.input(tp, nil, []Stretch{{IDs: ids}}, onTape{})
	if err != nil {
		return nil, alone(err)
	}
	see := m.whole(tp, in.ends)
	see.attend = func(_ int, q, k, v *autograd.Value) *autograd.Value {
		return tp.Attention(q, k, v, autograd.Attend{Heads: m.Text.Heads, KVHeads: m.Text.KVHeads, Causal: true, KeyLens: []int32{int32(seen)}})
	}
	var all []*autograd.Value
	last := m.run(tp, in, nil, see, func(x *autograd.Value) { all = append(all, x) })
	return append(all, last), nil
}
