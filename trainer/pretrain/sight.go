package pretrain

import (
	"fmt"
	"image"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer/rollout/episodes"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes/cards"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// The tower learns to see before it is heard: every token that it makes of a crop says the
// crop's digit in the language model's own vocabulary, and every token of a whole table the
// colour of the card that lies there,
//
//	loss = - mean over pictures and their tokens of log p(word | the tower's token)
//
// where p is the softmax over the rows of the table of words. Through the language model the
// same lesson stays at chance for thousands of crops: what little a digit changes is lost among
// words that all answers share.

// nothing is what is said of a place without a card.
const nothing = " picture"

// look is a step of this.
func (t *Talker) look(k *episodes.Speaker, s *stage, key rng.Key) (float64, error) {
	var words [][]string
	var shown []*vision.Image
	for i := range s.Batch {
		at := key.Sample(i)
		table, r := cards.Random(at.With("table")), at.With("lesson").Draw()
		if m := table.Draw(); r.Float64() < t.Talk.Read {
			card, crop := oneCard(table, m, r)
			words, shown = append(words, []string{fmt.Sprint(card.Digit)}), append(shown, crop)
		} else {
			words, shown = append(words, t.places(table)), append(shown, m)
		}
	}
	all, err := k.Patches(shown)
	if err != nil {
		return 0, err
	}
	var rows, tokens []int32
	var grad []float32
	for i, g := range all.Grids {
		of := g.Tokens(k.Processor.Merge)
		for at := range of {
			id := k.Tokens.Encode(words[i][at%len(words[i])]).IDs
			if len(id) != 1 {
				return 0, fmt.Errorf("%q is %d tokens, and not one", words[i][at%len(words[i])], len(id))
			}
			rows, tokens = append(rows, int32(len(rows))), append(tokens, id[0])
			grad = append(grad, float32(-1/float64(of*s.Batch)))
		}
	}
	tp := s.tape()
	defer tp.Reset()
	seen, err := k.Model.Tower.Forward(tp, tp.Upload("patches", all.Values, patches(all.Grids), len(all.Values)/patches(all.Grids)), all.Grids)
	if err != nil {
		return 0, err
	}
	return taught(tp, k.Model.LogProbs(tp, seen.States, rows, tokens, 1), grad), nil
}

func patches(grids []vlm.Grid) (n int) {
	for _, g := range grids {
		n += g.Patches()
	}
	return n
}

// places says of each token of a whole table, row by row, which card covers most of it.
func (t *Talker) places(table cards.Table) []string {
	side := t.Model.Most / (2 * t.Model.Patch)
	words := make([]string, side*side)
	for i := range words {
		words[i] = nothing
		cell, most := image.Rect(0, 0, cards.Side/side, cards.Side/side).Add(image.Pt(i%side*cards.Side/side, i/side*cards.Side/side)), 0
		for _, c := range table.Cards {
			if in := cell.Intersect(c.Box); in.Dx()*in.Dy() > most {
				words[i], most = " "+c.Colour, in.Dx()*in.Dy()
			}
		}
	}
	return words
}
