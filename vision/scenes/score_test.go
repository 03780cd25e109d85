package scenes

import (
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// TestGround: whatever is drawn where, the background is right; on another it is wrong, and the
// score of the task hardly says so.
func TestGround(t *testing.T) {
	k := rng.New(8)
	for i := range 200 {
		s := Random(k.Sample(i).Draw(), Everything)
		if g := s.Ground(s.Draw(Jitter(k.With("jitter").Sample(i).Draw()))); g < 0.95 {
			t.Errorf("%q: its own background is right in %.3f", s.Prompt, g)
		}
		other := s
		for _, b := range Backgrounds {
			if b != s.Background {
				other.Background = b
			}
		}
		if g := s.Ground(other.Draw(nil)); g > 0.01 {
			t.Errorf("%q on %s: %.3f", s.Prompt, other.Background, g)
		}
	}
}
