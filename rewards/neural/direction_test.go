package neural

import (
	"context"
	"testing"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision"
)

// corner is a Towers whose pictures and texts are vectors by their first byte.
type corner struct{ Towers }

func (corner) at(b byte) []float64 {
	return map[byte][]float64{'a': {2, 0, 0}, 'b': {0, 3, 0}, 'c': {0, 0, 1}}[b]
}

func (c corner) Texts(_ context.Context, texts []string) (all [][]float64, err error) {
	for _, t := range texts {
		all = append(all, c.at(t[0]))
	}
	return all, nil
}

func (c corner) Images(_ context.Context, pictures []*vision.Image) (all [][]float64, err error) {
	for _, m := range pictures {
		all = append(all, c.at(m.Pix[0]))
	}
	return all, nil
}

// TestDirection: towards the target, away from it, nowhere, and items without a score.
func TestDirection(t *testing.T) {
	picture := func(b byte) *vision.Image {
		m := vision.New(1, 1)
		m.Pix[0] = b
		return m
	}
	item := func(from, to byte, source, target string) rewards.Item {
		return rewards.Item{Image: picture(to), Sources: []*vision.Image{picture(from)}, Meta: rewards.Meta{"source": []byte(`"` + source + `"`), "target": []byte(`"` + target + `"`)}}
	}
	for _, c := range []struct {
		item rewards.Item
		want float64
	}{{item('a', 'b', "a", "b"), 1}, {item('b', 'a', "a", "b"), -1}, {item('a', 'a', "a", "b"), 0}, {item('a', 'c', "a", "b"), 0.5}} {
		s, err := (Direction{corner{}}).Score(t.Context(), c.item)
		if d := s.Value - c.want; err != nil || d > 1e-12 || d < -1e-12 {
			t.Errorf("%+v, want %v (%v)", s, c.want, err)
		}
	}
	bare := item('a', 'b', "a", "b")
	bare.Sources = nil
	for what, i := range map[string]rewards.Item{"no source": bare, "one text": item('a', 'b', "a", "a"), "no texts": {Image: picture('a'), Sources: bare.Sources}} {
		if s, err := (Direction{corner{}}).Score(t.Context(), i); err == nil {
			t.Errorf("%s: %+v", what, s)
		}
	}
}
