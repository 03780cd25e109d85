package pretrain

import (
	"fmt"
	"image"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer/conversations"
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
// words that all answers share. Digits come first, alone: where colours are asked for beside them,
// a tower learns colours, and digits stay at chance.

// nothing is what is said of a place without a card.
const nothing = " picture"

// shown is a picture, and what its tokens are to say.
type shown struct {
	vlm.Patches
	words []string // over and over
}

// view is a lesson: a crop, or a whole table.
func (t *Talker) view(k *conversations.Speaker, key rng.Key, whole float64) (v shown, err error) {
	table, r := cards.Random(key.With("table")), key.With("lesson").Draw()
	m := table.Draw()
	if r.Float64() >= whole {
		card, crop := oneCard(table, m, r)
		m, v.words = crop, []string{fmt.Sprint(card.Digit)}
	} else {
		v.words = t.places(table)
	}
	v.Patches, err = k.Patches([]*vision.Image{m})
	return v, err
}

// look is lessons of this, such a share of them whole tables.
func (t *Talker) look(whole float64) func(k *conversations.Speaker, s *stage, key rng.Key) (float64, error) {
	return func(k *conversations.Speaker, s *stage, key rng.Key) (float64, error) { return t.see(k, s, key, whole) }
}

// see is a step of these.
func (t *Talker) see(k *conversations.Speaker, s *stage, key rng.Key, whole float64) (float64, error) {
	views, err := prepared(s.Batch, func(i int) (shown, error) { return t.view(k, key.Sample(i), whole) })
	if err != nil {
		return 0, err
	}
	var all vlm.Patches
	var rows, tokens []int32
	var grad []float32
	n := 0
	for _, v := range views {
		all.Values, all.Grids = append(all.Values, v.Values...), append(all.Grids, v.Grids...)
		n += v.Grids[0].Patches()
		of := v.Grids[0].Tokens(k.Processor.Merge)
		for at := range of {
			word := v.words[at%len(v.words)]
			e, err := k.Tokens.Encode(word)
			if err != nil {
				return 0, err
			}
			if len(e.IDs) != 1 {
				return 0, fmt.Errorf("%q is %d tokens, and not one", word, len(e.IDs))
			}
			rows, tokens = append(rows, int32(len(rows))), append(tokens, e.IDs[0])
			grad = append(grad, float32(-1/float64(of*s.Batch)))
		}
	}
	tp := s.tape()
	defer tp.Reset()
	seen, err := k.Model.Tower.Forward(tp, tp.Upload("patches", all.Values, n, len(all.Values)/n), all.Grids)
	if err != nil {
		return 0, err
	}
	return taught(tp, k.Model.LogProbs(tp, seen.States, rows, tokens, 1), grad), nil
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
