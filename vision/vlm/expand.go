package vlm

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/vision/tokenizer"
)

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

// Expand repeats every mark in ids as often as its picture has tokens, and says of what kind
// each token is. A template writes one mark a picture; the network takes one state a token. The
// number of marks and of grids must agree: states that are out of step with tokens are the
// commonest fault of training with pictures.
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
