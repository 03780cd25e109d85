package scenes

import (
	"errors"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// heldOutWords draws scenes of words that no model is trained on.
func heldOutWords(n int, seed uint64) []Scene {
	r := rng.New(seed).With("words").Draw()
	var all []Scene
	for len(all) < n {
		if s := Random(r, Mix{Word: 1}); HeldOut(s.Prompt) {
			all = append(all, s)
		}
	}
	return all
}

// Of the drawn words at least 98 % are read exactly: as they are, with noise of one sixth of
// the range, and faded to three quarters of their contrast.
func TestReadHeldOutWords(t *testing.T) {
	const n = 100
	for name, spoil := range map[string]func(r *rng.Stream, v float64) float64{
		"as drawn": func(_ *rng.Stream, v float64) float64 { return v },
		"noisy":    func(r *rng.Stream, v float64) float64 { return v + 42*(2*r.Float64()-1) },
		"faded":    func(_ *rng.Stream, v float64) float64 { return 128 + 0.75*(v-128) },
	} {
		jitter, noise := rng.New(9).With("jitter").Draw(), rng.New(9).With("noise").Draw()
		exact := 0
		for _, s := range heldOutWords(n, 5) {
			px := s.Draw(Jitter(jitter))
			for i, v := range px {
				px[i] = uint8(max(0, min(255, spoil(noise, float64(v)))))
			}
			words, err := Read(px)
			if err == nil && len(words) == 1 && words[0].Text == s.Text && words[0].Color == s.Color {
				exact++
			}
		}
		t.Logf("%s: %d of %d held-out words are read exactly", name, exact, n)
		if exact < n*98/100 {
			t.Errorf("%s: only %d of %d words are read", name, exact, n)
		}
	}
}

func TestReadAnyLength(t *testing.T) {
	for _, text := range []string{"A", "T", "CO", "RUG", "TTT", "NNN"} {
		for _, color := range Colors {
			s := NewWord(text, color, "gray")
			words, err := Read(s.Draw(nil))
			if err != nil || len(words) != 1 || words[0].Text != text || words[0].Color != color || words[0].Fit < 0.99 || words[0].Box != s.Box {
				t.Errorf("%q in %s: %+v, %v", text, color, words, err)
			}
		}
	}
}

// Other marks are not read as a word, and an empty picture holds none.
func TestReadNothing(t *testing.T) {
	for _, prompt := range []string{"a red circle on white", "a blue square on gray", "a green triangle on black", "four red squares on white",
		"three purple triangles on white", "a red circle left of a blue square on white"} {
		s, err := Parse(prompt)
		if err != nil {
			t.Fatal(err)
		}
		if words, err := Read(s.Draw(nil)); !errors.Is(err, ErrUnreadable) {
			t.Errorf("%s: %+v, %v", prompt, words, err)
		}
	}
	empty := make([]uint8, Size*Size*3)
	if words, err := Read(empty); len(words) != 0 || err != nil {
		t.Errorf("an empty picture: %+v, %v", words, err)
	}
	if words, err := Read(empty[1:]); err == nil {
		t.Errorf("a torn picture: %+v", words)
	}
}

func TestFind(t *testing.T) {
	s, err := Parse("a red circle left of a blue square on white")
	if err != nil {
		t.Fatal(err)
	}
	things, err := Find(s.Draw(nil))
	if err != nil || len(things) != len(s.Objects) {
		t.Fatalf("%+v, %v", things, err)
	}
	for i, o := range s.Objects {
		if things[i].Color != o.Color || things[i].Shape != o.Shape || overlap(things[i].Box, o.Box) < 0.9 || things[i].Likeness < 0.9 {
			t.Errorf("%+v was found as %+v", o, things[i])
		}
	}
	if _, err := Find(nil); err == nil {
		t.Error("things were found in nothing")
	}
}
