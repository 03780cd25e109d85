package pictures

import (
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/trainer"
)

// A pass is questions about pictures of one size, made of pictures of the same sizes, that go through the network at
// once.
type pass struct {
	*Form
	questions []pipeline.Question
	known     [][]float64 // what was answered while these were rolled; nil: they are asked
}

// passes are points with their texts and sources, in their order.
func (p *Policy) passes(at []trainer.Point) (all []pass, err error) {
	keys := make([]trainer.Key, len(at))
	for i, point := range at {
		keys[i] = point.Key
	}
	sources, err := p.sources(keys)
	if err != nil {
		return nil, err
	}
	texts, negatives, err := p.Texts(promptsOf(keys))
	if err != nil {
		return nil, err
	}
	most := func(i int) int { return p.perPassOf(p.form(keys[i]), sources[i]) }
	alike := func(a, b int) bool {
		return pipeline.SameSizes(sources[a], sources[b]) && p.Pipeline.Expert(at[a].Time) == p.Pipeline.Expert(at[b].Time)
	}
	for s := range p.stretches(keys, most, alike) {
		one := pass{Form: s.Form}
		for i := s.from; i < s.to; i++ {
			one.questions = append(one.questions, pipeline.Question{Latents: at[i].State, Time: at[i].Time, Text: texts[i], Negative: negatives[i], Given: sources[i]})
		}
		all = append(all, one)
	}
	return all, nil
}

// sources are what the pictures of keys are made of.
func (p *Policy) sources(keys []trainer.Key) ([]*pipeline.Given, error) {
	if p.Sources == nil {
		return make([]*pipeline.Given, len(keys)), nil
	}
	return p.Sources(keys)
}

// each is how many runs an output takes.
func (p *Policy) each() int { return runs(p.Guidance) }

// runs is how many an output takes under a guidance.
func runs(g pipeline.Guidance) int {
	if g.Combines() {
		return 2
	}
	return 1
}

// perPass is how many points a pass has.
func (p *Policy) perPass(f *Form) int { return p.perPassOf(f, nil) }

// perPassOf is how many it has of pictures that are made of others.
func (p *Policy) perPassOf(f *Form, of *pipeline.Given) int {
	n := p.Micro
	if n == 0 {
		n = 4096 / max(1, f.At.Tokens+of.Length())
	}
	if p.twin {
		n /= 2
	}
	return max(1, n)
}
