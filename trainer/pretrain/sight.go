package pretrain

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer/rollout/episodes"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes/cards"
)

// The tower learns to see before it is heard: every token that it makes of a crop says the
// crop's digit in the language model's own vocabulary,
//
//	loss = - mean over crops and their tokens of log p(digit | the tower's token)
//
// where p is the softmax over the rows of the table of words. Through the language model the
// same lesson stays at chance for thousands of crops: what little a digit changes is lost among
// words that all answers share.

// look is a step of this.
func (t *Talker) look(k *episodes.Speaker, s *stage, key rng.Key) (float64, error) {
	var digits []int32
	var crops []*vision.Image
	for i := range s.Batch {
		at := key.Sample(i)
		table, r := cards.Random(at.With("table")), at.With("lesson").Draw()
		card, crop := oneCard(table, table.Draw(), r)
		id := k.Tokens.Encode(fmt.Sprint(card.Digit)).IDs
		if len(id) != 1 {
			return 0, fmt.Errorf("the digit %d is %d tokens, and not one", card.Digit, len(id))
		}
		digits, crops = append(digits, id[0]), append(crops, crop)
	}
	all, err := k.Patches(crops)
	if err != nil {
		return 0, err
	}
	tp := s.tape()
	defer tp.Reset()
	n := 0
	for _, g := range all.Grids {
		n += g.Patches()
	}
	seen, err := k.Model.Tower.Forward(tp, tp.Upload("patches", all.Values, n, len(all.Values)/n), all.Grids)
	if err != nil {
		return 0, err
	}
	var rows, tokens []int32
	var grad []float32
	for i, g := range all.Grids {
		of := g.Tokens(k.Processor.Merge)
		for range of {
			rows, tokens = append(rows, int32(len(rows))), append(tokens, digits[i])
			grad = append(grad, float32(-1/float64(of*s.Batch)))
		}
	}
	lp := k.Model.LogProbs(tp, seen.States, rows, tokens, 1)
	loss := 0.0
	for i, x := range lp.F32() {
		loss += float64(x) * float64(grad[i])
	}
	tp.Backward(autograd.Seed{Of: lp, Grad: grad})
	return loss, nil
}
