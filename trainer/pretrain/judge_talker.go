package pretrain

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer/conversations"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes/cards"
)

// TalkerVerdict is how well a model sees tables that no training drew, each token of the right
// answer guessed after those before it.
type TalkerVerdict struct {
	Tables int     `json:"tables"`
	Far    float64 `json:"far"`    // mean distance of a box's edges, in pixels as shown
	Aim    float64 `json:"aim"`    // that of the card that is asked for
	Read   float64 `json:"read"`   // share of digits read from a crop
	Direct float64 `json:"direct"` // share of digits read from the whole table
}

func (v *TalkerVerdict) String() string {
	return fmt.Sprintf("%d tables: edges of boxes off by %.2f pixels, of a zoom by %.2f  digits of crops read %.3f, of tables %.3f", v.Tables, v.Far, v.Aim, v.Read, v.Direct)
}

// JudgeTalker judges a model on n tables.
func JudgeTalker(k *conversations.Speaker, t *Talker, n int) (*TalkerVerdict, error) {
	v := &TalkerVerdict{Tables: n}
	var far, aim, read, direct mean
	for i := range n {
		key := rng.New(1).With("judge of talkers").Sample(i)
		table, r := cards.Random(key.With("table")), key.With("lesson").Draw()
		m := table.Draw()
		ask := r.Intn(len(table.Cards))
		whole := conversation{table.Question(ask), 1, []*vision.Image{m}, []exchange{{says: answered(table.Cards[ask].Digit)}}}
		look := t.lookAt(table, m, ask, rounded(t.shown(table.Cards[ask].Box)))
		look.turns = look.turns[:1]
		for _, one := range []struct {
			c    conversation
			into *mean
		}{{t.whereAll(table, m), &far}, {look, &aim}, {readOne(table, m, r), &read}, {whole, &direct}} {
			if err := guess(k, one.c, func(want, got string) {
				w, err := strconv.Atoi(strings.TrimSpace(want))
				if err != nil {
					return // not a number
				}
				g, err := strconv.Atoi(strings.TrimSpace(got))
				switch {
				case one.into != &read && one.into != &direct && err != nil:
					one.into.add(float64(t.Model.Most))
				case one.into != &read && one.into != &direct:
					one.into.add(math.Abs(float64(w - g)))
				case err == nil && w == g:
					one.into.add(1)
				default:
					one.into.add(0)
				}
			}); err != nil {
				return nil, err
			}
		}
	}
	v.Far, v.Aim, v.Read, v.Direct = far.take(), aim.take(), read.take(), direct.take()
	return v, nil
}

// guess tells what the likeliest token is wherever the assistant speaks.
func guess(k *conversations.Speaker, c conversation, tell func(want, got string)) error {
	s, err := c.say(k)
	if err != nil {
		return err
	}
	tp := k.Tape(false)
	defer tp.Reset()
	hidden, err := k.Model.Hidden(tp, s.Stretch)
	if err != nil {
		return err
	}
	logits := k.Model.Logits(tp, hidden)
	x, width := logits.F32(), logits.Dim(-1)
	for i, want := range s.next {
		if want < 0 {
			continue
		}
		best := 0
		for j, l := range x[i*width : (i+1)*width] {
			if l > x[i*width+best] {
				best = j
			}
		}
		tell(k.Tokens.Decode([]int32{want}), k.Tokens.Decode([]int32{int32(best)}))
	}
	return nil
}
