package loss

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// Card: supervised fine-tuning of tokens, -log p of each one that is trained, averaged as Aggregate
// says: token-mean is transformers' cross entropy over all trained tokens of the batch, whatever
// rows they lie in. Golden: sft.loss.
//
// Undecided tokens alone: -log p weighs by p(1-p), which has no gradient, so that tokens that are almost certain or
// almost impossible count little (CHORD's φ; Zhang et al., 2025). Golden: methods.loss_chord.

// Likelihood is the loss, and its gradient at the log-probabilities.
func Likelihood(logProb, mask [][]float64, a Aggregate, undecided bool) (value float64, grad [][]float64, err error) {
	w, err := a.Weights(mask)
	if err != nil {
		return 0, nil, err
	}
	grad = zeros(logProb)
	for i, row := range logProb {
		for k, lp := range row {
			if w[i][k] == 0 {
				continue
			}
			by := w[i][k]
			if undecided {
				p := portable.Exp(lp)
				by *= p * (1 - p)
			}
			value -= float64(lp * by)
			grad[i][k] = -by
		}
	}
	return value, grad, nil
}

// Imitation is how written answers are learned from beside rollouts, in the same update (CHORD):
//
//	(1 - μ)·loss of rollouts + μ·loss of written answers
//
// μ rises to Weight over the first Warmup iterations and falls to Least by a cosine over the next Decay.
// Golden: methods.mu_chord.
type Imitation struct {
	Weight float64 `toml:"weight" range:"[0,1]" doc:"share of written answers in the loss, where it is largest; 0: none are read"`
	Least  float64 `toml:"least" range:"[0,1]" doc:"what the share falls to"`
	Warmup int     `toml:"warmup" range:"[0,1e9]" doc:"iterations in which it rises from 0"`
	Decay  int     `toml:"decay" range:"[0,1e9]" doc:"iterations behind these in which it falls; 0: it is least from there on"`
	Tokens string  `toml:"tokens" enum:"undecided,all" doc:"undecided: a token weighs by p(1-p), p its probability (CHORD-φ); all: the cross entropy (CHORD-µ)"`
	Rows   int     `toml:"rows" range:"[1,1e6]" doc:"written answers of an iteration, drawn from rollout.lessons"`
}

// DefaultImitation is off.
func DefaultImitation() Imitation { return Imitation{Tokens: "undecided", Rows: 8} }

// On reports whether written answers are ever read.
func (o Imitation) On() bool { return o.Weight != 0 }

// Share is μ of an iteration, from 0.
func (o Imitation) Share(iteration int) float64 {
	switch n := iteration - o.Warmup; {
	case n < 0:
		return float64(iteration) / float64(o.Warmup) * o.Weight
	case n >= o.Decay:
		return o.Least
	default:
		fallen := 0.5 * (1 + portable.Cos(math.Pi*float64(n)/float64(o.Decay)))
		return float64((o.Weight-o.Least)*fallen) + o.Least
	}
}

// Check reports a share that never is Weight's.
func (o Imitation) Check(report func(key, problem, hint string)) {
	switch {
	case o.Least > o.Weight:
		report("least", "is more than weight, which it falls from", "least at most weight")
	case o.On() && o.Decay == 0 && o.Least != o.Weight:
		report("decay", "at 0 iterations the share is never weight, and least at once", "say how many iterations it takes to fall, or write least = weight")
	}
}

// LessonOptions are the options of objectives that learn from conversations of a file.
type LessonOptions struct {
	Lessons     string `toml:"lessons" doc:"conversations that objectives sft, dpo and kto of an episode learn from in place of rollouts, and loss.imitate beside them: a .jsonl or .parquet file, a folder of a hub's data set, or embed:zoom-lessons; rows are in OpenAI's form (messages, tools, images), TRL's (prompt, completion) or ShareGPT's (conversations). For dpo and kto they have two answers (chosen, rejected; group = 2), or one that is good or bad (completion, label; group = 1)"`
	LessonsMask string `toml:"lessons_mask" enum:"whole,qwen2_vl,qwen3_vl,qwen3_vl_nothink" doc:"which tokens of a conversation are trained: whole is TRL's rule over a rollout's tokens; the others are LLaMA-Factory's forms, which tokenise every turn by itself"`
}
