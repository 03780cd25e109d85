package conversations

import (
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Read is a text with one <|image_pad|> a picture as the network reads it, and its tokens with
// one place a picture. Bytes that are no text, which a tool may have read somewhere, become U+FFFD.
func (k *Speaker) Read(text string, pictures ...*vision.Image) (s vlm.Stretch, engine []int32, err error) {
	return k.read(text, nil, pictures...)
}

// read is Read of a text with clips, too.
func (k *Speaker) read(text string, clips *films, pictures ...*vision.Image) (s vlm.Stretch, engine []int32, err error) {
	if text, err = clips.marked(text); err != nil {
		return s, nil, err
	}
	e, err := k.Tokens.Encode(strings.ToValidUTF8(text, "\ufffd"))
	if err != nil {
		return s, nil, err
	}
	engine = e.IDs
	if s.Pictures, err = k.Patches(pictures); err != nil {
		return s, nil, err
	}
	s.IDs, _, err = k.Marks.Expand(engine, s.Pictures.Grids, clips.in(&s), k.Processor.Merge)
	return s, engine, err
}

// Patches are pictures, cut up one after another.
func (k *Speaker) Patches(pictures []*vision.Image) (all vlm.Patches, err error) {
	for i, m := range pictures {
		p, err := k.Processor.Apply(m.Raster())
		if err != nil {
			return all, fmt.Errorf("picture %d: %w", i+1, err)
		}
		all.Values, all.Grids = append(all.Values, p.Values...), append(all.Grids, p.Grids...)
	}
	return all, nil
}

// Joined is a stretch with another behind it.
func Joined(a, b vlm.Stretch) vlm.Stretch {
	a.IDs = append(a.IDs[:len(a.IDs):len(a.IDs)], b.IDs...)
	a.Pictures.Values = append(a.Pictures.Values[:len(a.Pictures.Values):len(a.Pictures.Values)], b.Pictures.Values...)
	a.Pictures.Grids = append(a.Pictures.Grids[:len(a.Pictures.Grids):len(a.Pictures.Grids)], b.Pictures.Grids...)
	if len(b.Clips.Grids) > 0 {
		a.Clips.Values = append(a.Clips.Values[:len(a.Clips.Values):len(a.Clips.Values)], b.Clips.Values...)
		a.Clips.Grids = append(a.Clips.Grids[:len(a.Clips.Grids):len(a.Clips.Grids)], b.Clips.Grids...)
		a.Seconds = append(a.Seconds[:len(a.Seconds):len(a.Seconds)], b.Seconds...)
	}
	return a
}

// Scores are log p of every token behind those before it, 0 of the first.
func (k *Speaker) Scores(ids []int32, pictures []*vision.Image, temperature float64) ([]float64, error) {
	s := vlm.Stretch{IDs: ids}
	var err error
	if s.Pictures, err = k.Patches(pictures); err != nil {
		return nil, err
	}
	tp := k.Tape(false)
	defer tp.Reset()
	hidden, err := k.Model.Hidden(tp, s)
	if err != nil {
		return nil, err
	}
	before := make([]int32, len(ids)-1)
	for i := range before {
		before[i] = int32(i)
	}
	out := []float64{0}
	for _, x := range k.Model.LogProbs(tp, hidden, before, ids[1:], float32(temperature)).F32() {
		out = append(out, float64(x))
	}
	return out, nil
}
