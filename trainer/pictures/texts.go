package pictures

import (
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// What the network reads of prompts.

// encode computes the texts of every prompt, and of all that guidance leads away from.
func (m *Model) encode(e *experiment.Experiment) error {
	all := []string{""}
	for n := range m.asked.Len() {
		p := m.asked.Prompt(n)
		if all = append(all, p.Text); p.Negative != nil {
			all = append(all, *p.Negative)
		}
	}
	for _, at := range e.Turns() {
		all = append(all, at.Sampler.Negative)
	}
	_, err := m.Pipeline.Encode(all...)
	return err
}

// texts are Policy.Texts, where prompts that name no negative text have this one.
func (m *Model) texts(otherwise string) func(prompts []int) (texts, negatives []*pipeline.Text, err error) {
	return func(prompts []int) (texts, negatives []*pipeline.Text, err error) {
		all := make([]string, 0, 2*len(prompts))
		for _, n := range prompts {
			p := m.asked.Prompt(n)
			negative := otherwise
			if p.Negative != nil {
				negative = *p.Negative
			}
			all = append(all, p.Text, negative)
		}
		both, err := m.Pipeline.Encode(all...)
		if err != nil {
			return nil, nil, err
		}
		for i := 0; i < len(both); i += 2 {
			texts, negatives = append(texts, both[i]), append(negatives, both[i+1])
		}
		return texts, negatives, nil
	}
}
