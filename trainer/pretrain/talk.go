package pretrain

import (
	"fmt"
	"image"
	"math"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer/conversations/chat"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes/cards"
	"github.com/darkroom-rl/darkroom/vision/tools"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Talk describes the conversations that reinforcement learning starts from.
type Talk struct {
	Zoom     float64 `toml:"zoom" range:"[0,1]" doc:"share of answers that look closer first"`
	Careless float64 `toml:"careless" range:"[0,4]" doc:"standard deviation of a box's corner, in sides of a card"`
	Miss     float64 `toml:"miss" range:"[0,1]" doc:"share of boxes about another card"`
	Whole    float64 `toml:"whole" range:"[0,1]" doc:"share of lessons of places that show whole tables, the others are crops"`
	Read     float64 `toml:"read" range:"[0,1]" doc:"share of lessons about what a crop shows"`
	Look     float64 `toml:"look" range:"[0,1]" doc:"share of lessons of aim that look at the card that is asked for"`
	Skills   float64 `toml:"skills" range:"[0,1]" doc:"share of lessons of the first stage among conversations"`
}

// A conversation is a question about pictures, and turns of the assistant with their answers.
type conversation struct {
	ask      string
	weight   float64 // of a token
	pictures []*vision.Image
	turns    []exchange
}

// An exchange is a turn of the assistant, and the answer to it.
type exchange struct {
	says     string
	reads    string
	pictures []*vision.Image
}

// said is a conversation in tokens: next is the assistant's token after each, -1 where another speaks.
type said struct {
	vlm.Stretch
	next   []int32
	spoken int
	weight float64
}

func (c conversation) say(k *chat.VLM) (said, error) {
	s := said{weight: c.weight}
	text, err := Prompt(k, c.ask, len(c.pictures))
	if err != nil {
		return s, err
	}
	if s.Stretch, _, err = k.Read(text, c.pictures...); err != nil {
		return s, err
	}
	for _, turn := range c.turns {
		from := len(s.IDs)
		e, err := k.Tokens.Encode(turn.says + "<|im_end|>")
		if err != nil {
			return s, err
		}
		s.IDs = append(s.IDs, e.IDs...)
		s.heard()
		for i := from; i < len(s.IDs); i++ {
			s.next[i-1] = s.IDs[i]
			s.spoken++
		}
		if turn.reads != "" {
			heard, _, err := k.Read(turn.reads, turn.pictures...)
			if err != nil {
				return s, err
			}
			s.Stretch = chat.Joined(s.Stretch, heard)
		}
	}
	s.heard()
	return s, nil
}

// heard makes next as long as the tokens.
func (s *said) heard() {
	for len(s.next) < len(s.IDs) {
		s.next = append(s.next, -1)
	}
}

// Prompt is a question about some pictures as the model's template writes it.
func Prompt(k *chat.VLM, ask string, pictures int) (string, error) {
	var content []vlm.Part
	for range pictures {
		content = append(content, vlm.Part{Kind: vlm.PicturePart})
	}
	return k.Template.Render([]vlm.Message{{Role: "user", Content: append(content, vlm.Text(ask)...)}}, vlm.Rendering{Generate: true})
}

// skill is a lesson of the first stages: which digit a crop shows, or where all cards lie.
func (t *Talker) skill(key rng.Key) conversation {
	table, r := cards.Random(key.With("table")), key.With("lesson").Draw()
	m := table.Draw()
	if r.Float64() < t.Talk.Read {
		return readOne(table, m, r)
	}
	return t.whereAll(table, m)
}

// aim is a lesson of these, or looks at the card that is asked for.
func (t *Talker) aim(key rng.Key) conversation {
	r := key.With("aim").Draw()
	if r.Float64() >= t.Talk.Look {
		return t.skill(key)
	}
	table := cards.Random(key.With("table"))
	n := r.Intn(len(table.Cards))
	return t.lookAt(table, table.Draw(), n, rounded(t.shown(table.Cards[n].Box)))
}

// lookAt asks for a card's digit, and answers after a look at a box.
func (t *Talker) lookAt(table cards.Table, m *vision.Image, n int, at tools.Rect) conversation {
	says := called(at)
	state := &tools.State{Album: tools.NewAlbum(m)}
	state.Album.Show(0, t.Model.Most, t.Model.Most)
	reply := tools.Darkroom().Step(state, says)
	if _, err := reply.Make(state.Album); err != nil {
		panic(err) // the box was kept inside the picture
	}
	turn := exchange{says: says, reads: reply.Observation()}
	for _, p := range state.Album.Pictures[1:] {
		turn.pictures = append(turn.pictures, p.Image)
	}
	return conversation{table.Question(n), 1, []*vision.Image{m}, []exchange{turn, {says: answered(table.Cards[n].Digit)}}}
}

// whereAll asks for every box, in the order of the colours' list.
func (t *Talker) whereAll(table cards.Table, m *vision.Image) conversation {
	var lines []string
	for _, colour := range cards.Colours {
		for _, c := range table.Cards {
			if c.Colour == colour {
				lines = append(lines, fmt.Sprintf("%s [%s]", colour, numbers(rounded(t.shown(c.Box)))))
			}
		}
	}
	return conversation{"Where are the cards?", 1. / 8, []*vision.Image{m}, []exchange{{says: strings.Join(lines, " ")}}}
}

// readOne asks for the digit on the card that a crop shows.
func readOne(table cards.Table, m *vision.Image, r *rng.Stream) conversation {
	c, crop := oneCard(table, m, r)
	return conversation{cards.Question(c.Colour), 1, []*vision.Image{crop}, []exchange{{says: answered(c.Digit)}}}
}

// oneCard is a crop around a card.
func oneCard(table cards.Table, m *vision.Image, r *rng.Stream) (cards.Card, *vision.Image) {
	c := table.Cards[r.Intn(len(table.Cards))]
	grow := func() int { return r.Intn(40) - 10 }
	box := image.Rect(c.Box.Min.X-grow(), c.Box.Min.Y-grow(), c.Box.Max.X+grow(), c.Box.Max.Y+grow()).Intersect(image.Rect(0, 0, cards.Side, cards.Side))
	crop, err := m.Crop(box.Min.X, box.Min.Y, box.Dx(), box.Dy())
	if err != nil {
		panic(err) // the box lies in the picture, and a card is larger than the cut-off part
	}
	return c, crop
}

func answered(digit int) string { return fmt.Sprintf("<answer>%d</answer>", digit) }

// start is a conversation of the last stage, or a lesson of those before.
func (t *Talker) start(key rng.Key) conversation {
	r := key.With("conversation").Draw()
	if r.Float64() < t.Talk.Skills {
		return t.aim(key)
	}
	table := cards.Random(key.With("table"))
	m, n := table.Draw(), r.Intn(len(table.Cards))
	if r.Float64() >= t.Talk.Zoom {
		return conversation{table.Question(n), 1, []*vision.Image{m}, []exchange{{says: answered(table.Cards[n].Digit)}}}
	}
	at := n
	if r.Float64() < t.Talk.Miss {
		at = r.Intn(len(table.Cards))
	}
	return t.lookAt(table, m, n, t.careless(table.Cards[at].Box, r))
}

// shown is a box in pixels of the table as it is shown.
func (t *Talker) shown(b image.Rectangle) tools.Box {
	by := float64(t.Model.Most) / cards.Side
	return tools.Box{float64(b.Min.X) * by, float64(b.Min.Y) * by, float64(b.Max.X) * by, float64(b.Max.Y) * by}
}

// rounded is a box with edges at every second pixel, further out: there are few of them to learn.
func rounded(b tools.Box) tools.Rect {
	const grid = 2
	return tools.Rect{grid * int(math.Floor(b[0]/grid)), grid * int(math.Floor(b[1]/grid)), grid * int(math.Ceil(b[2]/grid)), grid * int(math.Ceil(b[3]/grid))}
}

// careless is a box that was not well looked at: about as large, moved by some of its side.
func (t *Talker) careless(b image.Rectangle, r *rng.Stream) tools.Rect {
	s := t.shown(b)
	w, h := s[2]-s[0], s[3]-s[1]
	dx, dy := t.Talk.Careless*w*bell(r), t.Talk.Careless*h*bell(r)
	grow := 0.5 * r.Float64()
	s = tools.Box{s[0] + dx - grow*w, s[1] + dy - grow*h, s[2] + dx + grow*w, s[3] + dy + grow*h}
	out := rounded(s)
	side := t.Model.Most
	for i := range 2 {
		out[i] = min(max(out[i], 0), side-8)
		out[i+2] = min(max(out[i+2], out[i]+8), side)
	}
	return out
}

// bell is about normal: twelve even numbers, added up.
func bell(r *rng.Stream) float64 {
	sum := -6.0
	for range 12 {
		sum += r.Float64()
	}
	return sum
}

func numbers(r tools.Rect) string { return fmt.Sprintf("%d, %d, %d, %d", r[0], r[1], r[2], r[3]) }

func called(r tools.Rect) string {
	return "<tool_call>" + callOpen + numbers(r) + callClose + "</tool_call>"
}

// The tower learns to see before the language model reads it: every token that it makes of a crop says the crop's
// digit in the language model's own vocabulary, and every token of a whole table the colour of the card that lies
// there,
//
//	loss = - mean over pictures and their tokens of log p(word | the tower's token)
//
// where p is the softmax over the rows of the table of words. Through the language model the same lesson stays at
// chance for thousands of crops: the small effect of a digit is lost among words that all answers share. Digits come
// first, alone: where colours are asked for beside them, a tower learns colours, and digits stay at chance.

// nothing is the text of a place without a card.
const nothing = " picture"

// shown is a picture, and the targets of its tokens.
type shown struct {
	vlm.Patches
	words []string // over and over
}

// view is a lesson: a crop, or a whole table.
func (t *Talker) view(k *chat.VLM, key rng.Key, whole float64) (v shown, err error) {
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
func (t *Talker) look(whole float64) func(k *chat.VLM, s *stage, key rng.Key) (float64, error) {
	return func(k *chat.VLM, s *stage, key rng.Key) (float64, error) { return t.see(k, s, key, whole) }
}

// see is a step of these.
func (t *Talker) see(k *chat.VLM, s *stage, key rng.Key, whole float64) (float64, error) {
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
