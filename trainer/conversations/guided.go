package conversations

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// Card: answers that begin with part of a solution (G2RPO-A; g2rpoa_trainer.py of its code). The first of a group have
// the first tokens of their prompt's solution as the beginning of their first turn, and draw what follows. What was
// given is part of the answer: rewards and tools read it, its log-probability is the policy's, and it is learned from
// as if it had been drawn, as upstream does. How many tokens are given follows from the scores (prompts.Guided).
//
// Invariants (tests): answers of a group that are given nothing are those of a run without guidance; Eval says of given
// tokens what Roll did, bit for bit; a turn's limit counts them.

// solution is the tokens of a prompt's solution; nil where nothing is given.
func (p *Policy) solution(q Question) ([]int32, error) {
	if p.Guided == nil {
		return nil, nil
	}
	text, err := p.Guided.Solution(q.Meta)
	if err != nil || text == "" {
		return nil, err
	}
	e, err := p.Speaker.Tokens.Encode(text)
	if err != nil {
		return nil, fmt.Errorf("meta.%s: %w", p.Guided.Key, err)
	}
	for _, id := range e.IDs {
		if p.Speaker.Tokens.Special(id) {
			name, _ := p.Speaker.Tokens.Token(id)
			return nil, fmt.Errorf("meta.%s has the special token %s, which no answer draws\nhint: write the solution as the model would say it, without it", p.Guided.Key, name)
		}
	}
	return e.IDs, nil
}

// begins are the tokens that a key's turns begin with.
func (p *Policy) begins(k trainer.Key, solution []int32) [][]int32 {
	if p.Given == nil {
		return p.stems[k]
	}
	return [][]int32{solution[:min(len(solution), p.Given(k))]}
}

// guide says which keys of an iteration are given how much.
func (m *Model) guide(turn experiment.Turn) {
	g := turn.Episode.Guided
	if g == nil {
		return
	}
	first := g.Of(turn.Rollout.Group)
	m.Guided, m.Given = g, func(k trainer.Key) int {
		if k.Sample >= first {
			return 0
		}
		return turn.Given
	}
}

// solved sees whether there are solutions to give.
func solved(e *experiment.Experiment, list []prompts.Prompt) error {
	g := e.Episode.Guided
	if g == nil {
		return nil
	}
	for _, p := range list {
		text, err := g.Solution(p.Meta)
		if err != nil {
			return fmt.Errorf("prompt %q: %w", p.Text, err)
		}
		if text != "" {
			return nil
		}
	}
	return fmt.Errorf("no prompt has meta.%s, whose beginning [episode.guided] gives\nhint: {\"prompt\": \"...\", \"meta\": {\"%s\": \"First, ...\"}}; episode.guided.key names another key", g.Key, g.Key)
}
