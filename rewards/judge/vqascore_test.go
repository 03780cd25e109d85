package judge

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision"
)

type told struct {
	chances  []float64
	question string
}

func (t *told) Chances(_ context.Context, _ []*vision.Image, text string, _ []string) ([]float64, error) {
	t.question = text
	return t.chances, nil
}

func TestVQAScore(t *testing.T) {
	item := rewards.Item{Prompt: "a red circle", Image: &vision.Image{Width: 1, Height: 1, Pix: make([]uint8, 3)}}
	m := &told{chances: []float64{0.6, 0.2}}
	s, err := VQAScore{m}.Score(context.Background(), item)
	if err != nil || s.Value != 0.6 || math.Abs(s.Parts["share"]-0.75) > 1e-12 {
		t.Errorf("%+v, %v", s, err)
	}
	if m.question != `Does this figure show "a red circle"? Please answer yes or no.` {
		t.Errorf("asked: %s", m.question)
	}
	for _, chances := range [][]float64{{0, 0}, {math.NaN(), 1}, nil} {
		if _, err := (VQAScore{&told{chances: chances}}).Score(context.Background(), item); !errors.Is(err, errUnreadable) {
			t.Errorf("%v: %v", chances, err)
		}
	}
	if _, err := (VQAScore{m}).Score(context.Background(), rewards.Item{}); !errors.Is(err, errNoPicture) {
		t.Errorf("without a picture: %v", err)
	}
}
