package compare

import (
	"strings"

	"github.com/darkroom-rl/darkroom/record/ledger"
)

// An iteration's numbers come one after another. A sample's advantage depends on the scores of its whole
// group, so the score of a later line is an earlier cause. rank orders the parts of an iteration.
type rank int

const (
	asked     rank = iota // prompts, window
	made                  // tokens of an episode
	scored                // a reward's score
	totalled              // rewards in one number
	credited              // advantages
	pictured              // the ledger's fields of samples beside their scores
	described             // the ledger's means
	moved                 // updates of the weights
	weighed               // weights in a checkpoint
	evaluated             // held-out samples
	summed                // held-out means
	watched               // monitors
)

// A file has lines that are compared.
type file struct {
	name  string
	ranks map[string]rank // by the first part of a number's name
	rest  rank
	held  rank // of lines that are held out
}

// files are those that have lines, but for timing.jsonl.
func files() []file {
	keys := map[string]rank{"iteration": asked, "attempt": asked, "prompt": asked, "sample": asked, "text": asked}
	with := func(more map[string]rank) map[string]rank {
		for k, v := range keys {
			more[k] = v
		}
		return more
	}
	return []file{
		{"samples.jsonl", with(map[string]rank{"scores": scored, "total": totalled, "advantage": credited}), described, evaluated},
		{ledger.TranscriptsFile, with(map[string]rank{"said": made, "pieces": made, "episode": made, "total": totalled, "advantage": credited}), described, evaluated},
		{ledger.HeldOutFile, map[string]rank{}, evaluated, evaluated},
		{"ledger.jsonl", with(map[string]rank{"stage": asked, "window": asked, "prompts": asked, "diversity": pictured, "pictures": pictured, "episodes": pictured, "updates": moved, "heldout": summed, "monitors": watched, "rollback": watched}), described, summed},
	}
}

// rankOf is the rank of a number in a line.
func (f file) rankOf(number string, heldOut bool) rank {
	if heldOut {
		return f.held
	}
	first, _, _ := strings.Cut(number, ".")
	first, _, _ = strings.Cut(first, "[")
	if r, ok := f.ranks[first]; ok {
		return r
	}
	return f.rest
}
