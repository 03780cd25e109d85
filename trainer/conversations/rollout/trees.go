package rollout

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/trainer"
)

// Card: episodes that grow on trees (Tree-GRPO, arXiv 2509.21240; search_r1/llm_agent/generation_ts.py of its code).
// A tree begins with an episode. In each round it gets branches: a branch goes on from a place that is drawn, evenly
// and with replacement, among the question and the ends of the tree's turns after which an episode went on; a turn
// that several branches share counts once. It plays the turns before that place again, since the decoder's keys and
// values of them are not kept: tools answer the same, and tokens have the bits that they had. They are its own, and
// learned from.
//
// Invariants (tests): a branch has its stem's tokens, log-probabilities and pictures; trees are the same however many
// episodes are under way, and beside other prompts; Eval's log-probabilities of all tokens are Roll's.

// root names a tree.
type root struct{ iteration, prompt, tree int }

func (p *Policy) rootOf(k trainer.Key) root {
	tree, _ := p.Tree.Of(k.Sample)
	return root{k.Iteration, k.Prompt, tree}
}

// rollTrees plays whole groups, round by round.
func (p *Policy) rollTrees(keys []trainer.Key) ([]trainer.Sample, error) {
	samples, grown := make([]trainer.Sample, len(keys)), map[root][]*Episode{}
	done := 0
	for round := 0; round <= p.Tree.Rounds; round++ {
		var now []trainer.Key
		var places []int
		q := *p
		q.Prefixes = map[trainer.Key][][]int32{}
		for i, k := range keys {
			if _, its := p.Tree.Of(k.Sample); its != round {
				continue
			}
			now, places = append(now, k), append(places, i)
			if round == 0 {
				continue
			}
			tree := grown[p.rootOf(k)]
			if len(tree) == 0 {
				return nil, fmt.Errorf("sample %d of prompt %d is a branch, and its tree was not asked for", k.Sample, k.Prompt)
			}
			q.Prefixes[k] = p.prefix(k, tree)
		}
		if p.Progress != nil {
			q.Progress = func(n, _ int) { p.Progress(done+n, len(keys)) }
		}
		played, err := q.rollAll(now, nil)
		p.Parallel, p.Spare = q.Parallel, q.Spare
		if err != nil {
			return nil, err
		}
		for n, s := range played {
			samples[places[n]] = s
			e := EpisodeOf(s)
			e.Stem = len(q.Prefixes[s.Key])
			grown[p.rootOf(s.Key)] = append(grown[p.rootOf(s.Key)], e)
		}
		done += len(now)
	}
	return samples, nil
}

// prefix are the turns before the place that a branch goes on from.
func (p *Policy) prefix(k trainer.Key, tree []*Episode) [][]int32 {
	type place struct{ episode, turns int }
	all := []place{{0, 0}}
	for i, e := range tree {
		for turns := e.Stem + 1; turns < len(e.Turns); turns++ {
			all = append(all, place{i, turns})
		}
	}
	at := all[int(p.Draws.Of("branches", k).Draw().Float64()*float64(len(all)))]
	var stem [][]int32
	e := tree[at.episode]
	for _, t := range e.Turns[:at.turns] {
		stem = append(stem, e.Tokens[t.From:t.To])
	}
	return stem
}
