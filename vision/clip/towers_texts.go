package clip

import (
	"context"
	"errors"
	"math"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/vision/features"
)

var errNoTexts = errors.New("the towers were opened for pictures alone")

// Texts are texts' vectors, each computed once.
func (t *Towers) Texts(ctx context.Context, texts []string) ([][]float64, error) {
	if t.tokens == nil {
		return nil, errNoTexts
	}
	t.remembered.Lock()
	defer t.remembered.Unlock()
	found := map[string][]float64{} // nil: to be computed
	var fresh []string
	for _, s := range texts {
		if _, seen := found[s]; seen {
			continue
		}
		if found[s] = t.texts[s]; found[s] == nil {
			fresh = append(fresh, s)
		}
	}
	for len(fresh) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n := min(len(fresh), t.textBatch())
		vectors, err := t.encode(fresh[:n])
		if err != nil {
			return nil, err
		}
		for i, s := range fresh[:n] {
			found[s] = vectors[i]
			t.remember(s, vectors[i])
		}
		fresh = fresh[n:]
	}
	out := make([][]float64, len(texts))
	for i, s := range texts {
		out[i] = found[s]
	}
	return out, nil
}

func (t *Towers) textBatch() int {
	if t.Batch > 0 {
		return t.Batch
	}
	return 8
}

func (t *Towers) remember(s string, v []float64) {
	if len(t.order) == mostTexts {
		delete(t.texts, t.order[0])
		t.order = t.order[1:]
	}
	t.order = append(t.order, s)
	t.texts[s] = v
}

// encode runs the text tower. Texts that are shorter than others get more of their last
// token: nothing of a text sees what follows it, and it is pooled at the first.
func (t *Towers) encode(texts []string) ([][]float64, error) {
	rows, longest := make([][]int32, len(texts)), 0
	for i, s := range texts {
		var err error
		if rows[i], _, err = t.IDs(s); err != nil {
			return nil, err
		}
		longest = max(longest, len(rows[i]))
	}
	for i, r := range rows {
		for len(r) < longest {
			r = append(r, r[len(r)-1])
		}
		rows[i] = r
	}
	var vectors [][]float64
	t.Run(false, func(tp *autograd.Tape) { vectors = features.Rows(t.model.Text.Forward(tp, rows).Projected) })
	for _, v := range vectors {
		for _, x := range v {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return nil, errors.New("the text tower gives numbers that are not finite; its weights may be damaged")
			}
		}
	}
	return vectors, nil
}
