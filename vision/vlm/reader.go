package vlm

import "github.com/darkroom-rl/darkroom/kernels/nn"

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
