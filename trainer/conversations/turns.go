package conversations

import (
	"fmt"
	"math"
	"strings"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
)

// Turns of episodes as [advantage.turns] compares them. An episode begins in its prompt's state; a later turn begins in
// what the turn before it observed: the tokens, and the pixels of the pictures among them.

// addTurns adds to the tokens of every turn, a row an episode, what the turn is worth among those of its state.
func addTurns(t advantage.Turns, tokens [][]float64, samples []trainer.Sample, totals []float64) error {
	var visits []advantage.Visit
	for i, s := range samples {
		e := EpisodeOf(s)
		for k := range e.Turns {
			v := advantage.Visit{Episode: i, Prompt: s.Key.Prompt, State: e.state(k)}
			if k == len(e.Turns)-1 || math.IsNaN(totals[i]) {
				v.Reward = totals[i]
			}
			visits = append(visits, v)
		}
	}
	a, err := t.Of(visits)
	if err != nil {
		return err
	}
	at := 0
	for i, s := range samples {
		e := EpisodeOf(s)
		for _, turn := range e.Turns {
			for k := turn.From; k < turn.To; k++ {
				tokens[i][k-e.Prompt] += a[at]
			}
			at++
		}
	}
	return nil
}

// state is what a turn begins in.
func (e *Episode) state(turn int) string {
	if turn == 0 {
		return ""
	}
	before := e.Turns[turn-1]
	var b strings.Builder
	fmt.Fprint(&b, e.Tokens[before.To:before.Observed])
	for _, shot := range e.Shots {
		if shot.Turn == turn-1 {
			b.WriteString(" " + shot.Hash)
		}
	}
	return b.String()
}
