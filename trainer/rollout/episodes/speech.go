package episodes

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// A Speech is a sequence of tokens with the pictures among them. It only ever grows: what was
// sampled is never tokenised again.
type Speech struct {
	Tokens []int32 // every place of every picture
	Kinds  []int   // vlm.TextToken or vlm.PictureToken
	Grids  []vlm.Grid
	Values []float32 // the patches of all pictures, one after another
}

// Clone is a copy that grows by itself.
func (s Speech) Clone() Speech {
	return Speech{append([]int32(nil), s.Tokens...), append([]int(nil), s.Kinds...), append([]vlm.Grid(nil), s.Grids...), append([]float32(nil), s.Values...)}
}

// Say appends sampled tokens.
func (s *Speech) Say(ids ...int32) {
	for _, id := range ids {
		s.Tokens, s.Kinds = append(s.Tokens, id), append(s.Kinds, vlm.TextToken)
	}
}

// Read appends a text with one <|image_pad|> a picture. engine are its tokens with one place a
// picture, tokens those with all places.
func (s *Speech) Read(k *Speaker, text string, pictures ...*vision.Image) (engine, tokens []int32, err error) {
	engine = k.Tokens.Encode(text).IDs
	var patches vlm.Patches
	for i, m := range pictures {
		p, err := k.Processor.Apply(m.Raster())
		if err != nil {
			return nil, nil, fmt.Errorf("picture %d: %w", i, err)
		}
		patches.Values, patches.Grids = append(patches.Values, p.Values...), append(patches.Grids, p.Grids...)
	}
	tokens, kinds, err := k.Marks.Expand(engine, patches.Grids, nil, k.Processor.Merge)
	if err != nil {
		return nil, nil, err
	}
	s.Tokens, s.Kinds = append(s.Tokens, tokens...), append(s.Kinds, kinds...)
	s.Values, s.Grids = append(s.Values, patches.Values...), append(s.Grids, patches.Grids...)
	return engine, tokens, nil
}
