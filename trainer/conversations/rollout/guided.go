package rollout

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations/chat"
)

// Card: answers that begin with part of a solution (G2RPO-A; g2rpoa_trainer.py of its code). The first of a group
// have the first tokens of their prompt's solution as the beginning of their first turn, and draw the following ones.
// The given tokens are part of the answer: rewards and tools read it, its log-probability is the policy's, and it is
// learned from as if it had been drawn, as upstream does. How many tokens are given follows from the scores
// (prompts.Guided).
//
// Invariants (tests): answers of a group that are given nothing are those of a run without guidance; Eval's
// log-probabilities of given tokens are Roll's, bit for bit; a turn's limit counts them.

// solution is the tokens of a prompt's solution; nil where nothing is given.
func (p *Policy) solution(q chat.Prompt) ([]int32, error) {
	if p.Guided == nil {
		return nil, nil
	}
	text, err := p.Guided.Solution(q.Meta)
	if err != nil || text == "" {
		return nil, err
	}
	e, err := p.VLM.Tokens.Encode(text)
	if err != nil {
		return nil, fmt.Errorf("meta.%s: %w", p.Guided.Key, err)
	}
	for _, id := range e.IDs {
		if p.VLM.Tokens.Special(id) {
			name, _ := p.VLM.Tokens.Token(id)
			return nil, fmt.Errorf("meta.%s has the special token %s, which no answer draws\nhint: write the solution as the model would say it, without it", p.Guided.Key, name)
		}
	}
	return e.IDs, nil
}

// forcedTurns are the tokens that a key's turns begin with.
func (p *Policy) forcedTurns(k trainer.Key, solution []int32) [][]int32 {
	if p.Given == nil {
		return p.Prefixes[k]
	}
	return [][]int32{solution[:min(len(solution), p.Given(k))]}
}
