package answers

import "fmt"

// Card: rewards on tokens (PyVision-RL's accumulative tool reward, reward_manager/naive.py). A
// reply's score sits on its last token; what tools earned stays on the tokens where they earned
// it, and counts only where the answer is right.
// Invariant (test): a wrong answer has its score and nothing else.

// OnTokens spreads a reply's score over its tokens, of which the first length are its own.
func OnTokens(score float64, right bool, earned []float64, length int) ([]float64, error) {
	if length < 1 || length > len(earned) {
		return nil, fmt.Errorf("a reply of %d tokens among %d: it needs at least one, to put its score on", length, len(earned))
	}
	out := make([]float64, len(earned))
	if right {
		copy(out, earned)
	}
	out[length-1] += score
	return out, nil
}
