package vlm

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
)

// A Stretch of a conversation, or all of it: tokens, with the pictures and clips of their marks.
// IDs hold a mark for each merged cell (Marks.Expand).
type Stretch struct {
	IDs      []int32
	Pictures Patches
	Clips    Patches
	Seconds  []float64 // a frame of each clip; nil: 1
}

// UnknownToken is the error of a token that the vocabulary does not have.
type UnknownToken struct {
	At         int
	ID         int32
	Vocabulary int
}

func (e UnknownToken) Error() string {
	return fmt.Sprintf("token %d is %d, and the model knows 0 to %d", e.At, e.ID, e.Vocabulary-1)
}

// Mismatch is the error of marks and pictures that do not belong together: the commonest fault
// of training with pictures.
type Mismatch struct {
	What          string // "pictures" or "clips"
	Marks, Tokens int    // in the sequence, and those that the grids have
}

func (e Mismatch) Error() string {
	return fmt.Sprintf("the sequence has %d marks of %s, and they have %d tokens: expand each mark to its picture's tokens, and cut no picture off", e.Marks, e.What, e.Tokens)
}

// checkSequence refuses sequences that the network cannot read. It comes before anything is allocated.
func (c Config) checkSequence(s Stretch) error {
	if len(s.IDs) == 0 {
		return fmt.Errorf("a sequence without tokens")
	}
	marks := map[int32]int{}
	for i, id := range s.IDs {
		if id < 0 || int(id) >= c.Text.Vocabulary {
			return UnknownToken{i, id, c.Text.Vocabulary}
		}
		marks[id]++
	}
	v := c.Vision
	for _, p := range []struct {
		what string
		Patches
		id int32
	}{{"pictures", s.Pictures, c.Picture}, {"clips", s.Clips, c.Clip}} {
		if err := Check(p.Grids, v.Merge); err != nil {
			return fmt.Errorf("%s: %w", p.what, err)
		}
		tokens, patches := 0, 0
		for _, g := range p.Grids {
			tokens += g.Tokens(v.Merge)
			patches += g.Patches()
		}
		if tokens != marks[p.id] {
			return Mismatch{p.what, marks[p.id], tokens}
		}
		if n := patches * v.patchWidth(); n != len(p.Values) {
			return fmt.Errorf("%s: %d patches of %d numbers each, and there are %d numbers", p.what, patches, v.patchWidth(), len(p.Values))
		}
	}
	return nil
}

// kinds are the tokens' kinds.
func (c Config) kinds(ids []int32) []int {
	kinds := make([]int, len(ids))
	for i, id := range ids {
		switch id {
		case c.Picture:
			kinds[i] = PictureToken
		case c.Clip:
			kinds[i] = ClipToken
		}
	}
	return kinds
}

// Positions are the three indices of a sequence's tokens; Delta is the next one less their number.
func (c Config) Positions(s Stretch) (at [3][]int, delta int, err error) {
	if c.Plain {
		for axis := range at {
			for i := range s.IDs {
				at[axis] = append(at[axis], i)
			}
		}
		return at, 0, nil
	}
	return c.Rule().Positions(Sequence{Kinds: c.kinds(s.IDs), Pictures: s.Pictures.Grids, Clips: s.Clips.Grids, Seconds: s.Seconds})
}

// input is the layers' input: the tokens of some stretches, one after another.
type input struct {
	x         *autograd.Value // [1, tokens, Width]
	positions [3][]int
	ends      []int             // of each stretch, in tokens
	deltas    []int             // of the index behind each
	deep      []*autograd.Value // added behind the first layers, at marks
	marks     []int32           // where marks are, those of pictures before those of clips
}

// at are the positions of some tokens.
func (in input) at(tokens []int32) (some [3][]int) {
	for axis, all := range in.positions {
		for _, t := range tokens {
			some[axis] = append(some[axis], all[t])
		}
	}
	return some
}

// onTape are a stretch's patches, where gradients shall reach them: [patches, numbers] of
// its pictures and of its clips. Those that are nil are uploaded.
type onTape struct{ pictures, clips *autograd.Value }

// input embeds stretches; before, which may be nil, are the sequences that each follows. The tower
// sees all their pictures at once. Refused says which stretch an error is about.
func (m *Model) input(tp *autograd.Tape, before, stretches []Stretch, given onTape) (in input, err error) {
	var ids []int32
	for i, s := range stretches {
		var past Stretch
		if before != nil {
			past = before[i]
		}
		if err := m.place(&in, past, s); err != nil {
			return in, Refused{i, err}
		}
		ids = append(ids, s.IDs...)
		in.ends = append(in.ends, len(ids))
	}
	in.x = tp.Embedding(m.tokens, ids, 1, len(ids))
	var states []*autograd.Value
	var deep [][]*autograd.Value
	for _, p := range []struct {
		Patches
		id      int32
		patches *autograd.Value
	}{{patchesOf(stretches, pictures), m.Picture, given.pictures}, {patchesOf(stretches, clips), m.Clip, given.clips}} {
		if len(p.Grids) == 0 {
			continue
		}
		patches := p.patches
		if patches == nil {
			patches = tp.Upload("patches", p.Values, len(p.Values)/m.Vision.patchWidth(), m.Vision.patchWidth())
		}
		seen, err := m.Tower.Forward(tp, patches, p.Grids)
		if err != nil {
			return input{}, err
		}
		states, deep = append(states, seen.States), append(deep, seen.Deep)
		for i, id := range ids {
			if id == p.id {
				in.marks = append(in.marks, int32(i))
			}
		}
	}
	if states == nil {
		return in, nil
	}
	in.x = in.put(tp, in.x, joined(tp, states))
	for i := range deep[0] {
		var level []*autograd.Value
		for _, d := range deep {
			level = append(level, d[i])
		}
		in.deep = append(in.deep, joined(tp, level))
	}
	return in, nil
}

// place checks a stretch, and adds the indices of its tokens.
func (m *Model) place(in *input, before, s Stretch) error {
	if err := m.checkSequence(s); err != nil {
		return err
	}
	at, delta, err := m.Positions(before.joined(s))
	if err != nil {
		return err
	}
	for axis := range at {
		in.positions[axis] = append(in.positions[axis], at[axis][len(before.IDs):]...)
	}
	in.deltas = append(in.deltas, delta)
	return nil
}

// Refused is the error of one stretch of several.
type Refused struct {
	At  int
	Err error
}

func (e Refused) Error() string { return fmt.Sprintf("stretch %d: %v", e.At, e.Err) }

func (e Refused) Unwrap() error { return e.Err }

func pictures(s Stretch) Patches { return s.Pictures }
func clips(s Stretch) Patches    { return s.Clips }

// patchesOf are all stretches' patches in one list.
func patchesOf(stretches []Stretch, of func(s Stretch) Patches) Patches {
	if len(stretches) == 1 {
		return of(stretches[0])
	}
	var all Patches
	for _, s := range stretches {
		all.Values, all.Grids = append(all.Values, of(s).Values...), append(all.Grids, of(s).Grids...)
	}
	return all
}

// joined are states in one list.
func joined(tp *autograd.Tape, states []*autograd.Value) *autograd.Value {
	if len(states) == 1 {
		return states[0]
	}
	return tp.Concat(1, states...)
}

// put is x with rows of states at marks.
func (in input) put(tp *autograd.Tape, x, states *autograd.Value) *autograd.Value {
	n := x.Dim(1)
	rows := make([]int32, n)
	for i := range rows {
		rows[i] = int32(i)
	}
	for i, at := range in.marks {
		rows[at] = int32(n + i)
	}
	return tp.Gather(tp.Concat(1, x, states), rows, 1, n)
}

// add is x with states added at marks; other rows keep their bits.
func (in input) add(tp *autograd.Tape, x, states *autograd.Value) *autograd.Value {
	return in.put(tp, x, tp.Add(tp.Gather(x, in.marks, 1, len(in.marks)), states))
}

// joined is a sequence with another behind it, without pixels: positions depend on it.
func (s Stretch) joined(next Stretch) Stretch {
	return Stretch{
		IDs:      slices.Concat(s.IDs, next.IDs),
		Pictures: Patches{Grids: slices.Concat(s.Pictures.Grids, next.Pictures.Grids)},
		Clips:    Patches{Grids: slices.Concat(s.Clips.Grids, next.Clips.Grids)},
		Seconds:  slices.Concat(s.seconds(), next.seconds()),
	}
}

// seconds are those of a frame of each clip.
func (s Stretch) seconds() []float64 {
	if s.Seconds != nil {
		return s.Seconds
	}
	return slices.Repeat([]float64{1}, len(s.Clips.Grids))
}

// MarksOf finds the two tokens.
func MarksOf(t *tokenizer.Tokenizer) (Marks, error) {
	picture, ok := t.ID("<|image_pad|>")
	clip, ok2 := t.ID("<|video_pad|>")
	if !ok || !ok2 {
		return Marks{}, fmt.Errorf("the tokenizer has no <|image_pad|> or no <|video_pad|>: it is not a Qwen-VL model's")
	}
	return Marks{picture, clip}, nil
}

// Marks are the tokens that stand for pictures and clips.
type Marks struct{ Picture, Clip int32 }

// Expand repeats every mark in ids as often as its picture has tokens, and returns each token's kind. A template
// writes one mark a picture; the network takes one state a token. The number of marks and of grids must agree: states
// that are out of step with tokens are the commonest fault of training with pictures.
func (m Marks) Expand(ids []int32, pictures, clips []Grid, merge int) (out []int32, kinds []int, err error) {
	if err := Check(append(append([]Grid{}, pictures...), clips...), merge); err != nil {
		return nil, nil, err
	}
	seen := [3]int{}
	grids := [3][]Grid{PictureToken: pictures, ClipToken: clips}
	for _, id := range ids {
		kind, times := TextToken, 1
		switch id {
		case m.Picture:
			kind = PictureToken
		case m.Clip:
			kind = ClipToken
		}
		if kind != TextToken {
			n := seen[kind]
			seen[kind]++
			if n >= len(grids[kind]) {
				continue
			}
			times = grids[kind][n].Tokens(merge)
		}
		for range times {
			out, kinds = append(out, id), append(kinds, kind)
		}
	}
	if seen[PictureToken] != len(pictures) || seen[ClipToken] != len(clips) {
		return nil, nil, fmt.Errorf("%d pictures and %d clips, but the text has marks for %d and %d", len(pictures), len(clips), seen[PictureToken], seen[ClipToken])
	}
	return out, kinds, nil
}
