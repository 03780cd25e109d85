package blip

import (
	"context"
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// The published scores have mean 0 and deviation 1 over the annotators' pictures.
const (
	rawMean = 0.16717362830052426
	rawSD   = 1.0333394966054072
)

// mostTokens of a text are read, with those around it.
const mostTokens = 35

// Rewards are pictures' scores, each for its prompt.
func (m *Model) Rewards(ctx context.Context, prompts []string, pictures []*vision.Image) ([]float64, error) {
	return m.each(prompts, len(pictures), func(t *features.Tower, from, to int) ([][]float64, error) { return t.Images(ctx, pictures[from:to]) })
}

// Prepared are the scores of prepared pictures.
func (m *Model) Prepared(ctx context.Context, prompts []string, prepared [][]float32) ([]float64, error) {
	return m.each(prompts, len(prepared), func(t *features.Tower, from, to int) ([][]float64, error) { return t.Vectors(ctx, prepared[from:to]) })
}

// Gradient is the scores of pictures of numbers, and how each number changes its picture's.
func (m *Model) Gradient(ctx context.Context, prompts []string, pictures []vision.Pixels) (rewards []float64, grads [][]float32, err error) {
	return m.pull(prompts, len(pictures), func(t *features.Tower, from, to int, at features.At) ([][]float32, error) {
		return t.PullPixels(ctx, pictures[from:to], at)
	})
}

// PreparedGradient is Gradient of prepared pictures.
func (m *Model) PreparedGradient(ctx context.Context, prompts []string, prepared [][]float32) (rewards []float64, grads [][]float32, err error) {
	return m.pull(prompts, len(prepared), func(t *features.Tower, from, to int, at features.At) ([][]float32, error) {
		return t.Pull(ctx, prepared[from:to], at)
	})
}

func (m *Model) pull(prompts []string, n int, back func(t *features.Tower, from, to int, at features.At) ([][]float32, error)) (rewards []float64, grads [][]float32, err error) {
	_, err = m.each(prompts, n, func(t *features.Tower, from, to int) ([][]float64, error) {
		g, err := back(t, from, to, func(_ int, raw [][]float64) ([][]float64, error) {
			d := make([][]float64, len(raw))
			for i, r := range raw {
				rewards, d[i] = append(rewards, published(r[0])), []float64{1 / rawSD}
			}
			return d, nil
		})
		grads = append(grads, g...)
		return nil, err
	})
	return rewards, grads, err
}

func published(raw float64) float64 { return (raw - rawMean) / rawSD }

const usualBatch = 8

// each runs the network over batches of pictures with their texts.
func (m *Model) each(prompts []string, n int, run func(t *features.Tower, from, to int) ([][]float64, error)) ([]float64, error) {
	if len(prompts) != n {
		return nil, fmt.Errorf("%d prompts for %d pictures", len(prompts), n)
	}
	batch := m.tower.Batch
	if batch <= 0 {
		batch = usualBatch
	}
	var rewards []float64
	for from := 0; from < n; from += batch {
		to := min(n, from+batch)
		ids, lens, err := m.texts(prompts[from:to])
		if err != nil {
			return nil, err
		}
		t := m.tower
		t.Batch = batch
		t.Forward = func(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
			return m.network.Judge(tp, m.network.See(tp, x), ids, lens)
		}
		raw, err := run(&t, from, to)
		if err != nil {
			return nil, fmt.Errorf("of pictures %d to %d: %w", from, to-1, err)
		}
		for _, r := range raw {
			rewards = append(rewards, published(r[0]))
		}
	}
	return rewards, nil
}

// texts are the ids of a batch, as long as its longest text, and how many are each text's.
func (m *Model) texts(prompts []string) (ids [][]int32, lens []int32, err error) {
	longest := 0
	for _, p := range prompts {
		row, seen, err := m.tokens.Fixed(p, mostTokens, m.pad)
		if err != nil {
			return nil, nil, err
		}
		ids, lens = append(ids, row), append(lens, int32(seen))
		longest = max(longest, seen)
	}
	for i := range ids {
		ids[i] = ids[i][:longest]
	}
	return ids, lens, nil
}

// Unread is the end of a prompt that does not fit, "" mostly.
func (m *Model) Unread(prompt string) string {
	whole, err := m.tokens.Encode(prompt)
	if err != nil {
		return "" // who scores it is told
	}
	if room := mostTokens - len(m.tokens.Frame()); len(whole.IDs) > room {
		return strings.TrimSpace(m.tokens.Decode(whole.IDs[room:]))
	}
	return ""
}
