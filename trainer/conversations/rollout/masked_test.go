package rollout_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations/augment"
	"github.com/darkroom-rl/darkroom/trainer/conversations/rollout"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/vision"
)

// TestBlackened: a patch is black as a whole or untouched, those at the edges too; about the share of them is black,
// and the key decides which.
func TestBlackened(t *testing.T) {
	m := vision.New(150, 97)
	for i := range m.Pix {
		m.Pix[i] = uint8(1 + i%255)
	}
	before := slices.Clone(m.Pix)
	out := augment.MaskPatches(m, 7, 0.6, rng.New(3))
	if !bytes.Equal(m.Pix, before) || !bytes.Equal(out.Pix, augment.MaskPatches(m, 7, 0.6, rng.New(3)).Pix) {
		t.Error("the picture itself is changed, or a key has two results")
	}
	if bytes.Equal(out.Pix, augment.MaskPatches(m, 7, 0.6, rng.New(4)).Pix) {
		t.Error("another key masks the same patches")
	}
	black, all := 0, 0
	for y := 0; y < m.Height; y += 7 {
		for x := 0; x < m.Width; x += 7 {
			var kept, cleared int
			for row := y; row < min(y+7, m.Height); row++ {
				for i := (row*m.Width + x) * 3; i < (row*m.Width+min(x+7, m.Width))*3; i++ {
					switch out.Pix[i] {
					case 0:
						cleared++
					case m.Pix[i]:
						kept++
					}
				}
			}
			if kept > 0 && cleared > 0 || kept+cleared == 0 {
				t.Fatalf("the patch at %d, %d has %d values as they were and %d black ones", x, y, kept, cleared)
			}
			if all++; cleared > 0 {
				black++
			}
		}
	}
	if share := float64(black) / float64(all); share < 0.5 || share > 0.7 {
		t.Errorf("%d of %d patches are black", black, all)
	}
}

// TestMasked: without a black patch an answer has the log-probabilities of the roll, bit for bit; with all of them
// black it has others, and tools' pictures are black, too. The sample's own pictures stay.
func TestMasked(t *testing.T) {
	p := policy(t, false, ".*")
	samples := rolled(t, p, keys(0))
	first := slices.Clone(rollout.EpisodeOf(samples[0]).Album.Pictures[0].Image.Pix)
	if err := p.Masked(samples, loss.Perception{Weight: 1, Share: 1e-12, Patch: 14}); err != nil {
		t.Fatal(err)
	}
	for i, s := range samples {
		if !slices.Equal(s.Decisions.Masked, s.Decisions.LogProb) {
			t.Fatalf("sample %d: nothing is masked, and %v became %v", i, s.Decisions.LogProb, s.Decisions.Masked)
		}
	}
	if err := p.Masked(samples, loss.Perception{Weight: 1, Share: 1, Patch: 14}); err != nil {
		t.Fatal(err)
	}
	differ := false
	for _, s := range samples {
		differ = differ || !slices.Equal(s.Decisions.Masked, s.Decisions.LogProb)
	}
	if !differ {
		t.Error("behind black pictures every token is as likely")
	}
	if !bytes.Equal(first, rollout.EpisodeOf(samples[0]).Album.Pictures[0].Image.Pix) {
		t.Error("a sample's own picture was masked")
	}
	a, err := p.Eval(trainer.Current, points(samples))
	if err != nil || !slices.Equal(a.Outputs[0], samples[0].Decisions.LogProb) {
		t.Errorf("on its own pictures an answer is worth %v, %v", a.Outputs[0], err)
	}
}
