package scenes

import (
	"bytes"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// TestDegrade: damage is deterministic, grows with its strength, and does not touch the original.
func TestDegrade(t *testing.T) {
	k := rng.New(4)
	if len(damages) != len(Degradations) {
		t.Fatalf("%d kinds are named, %d are there", len(Degradations), len(damages))
	}
	for _, kind := range Degradations {
		weak, strong := 0, 0
		for i := range 20 {
			px := Random(k.Sample(i).Draw(), Everything).Draw(nil)
			was := bytes.Clone(px)
			at := func(strength float64) []uint8 {
				out, err := Degrade(px, kind, strength, k.With("damage").Sample(i).Draw())
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
			a, b := at(0), at(1)
			if !bytes.Equal(px, was) || !bytes.Equal(b, at(1)) {
				t.Fatalf("%s changes its picture, or differs from run to run", kind)
			}
			weak, strong = weak+distance(px, a), strong+distance(px, b)
		}
		if weak == 0 || strong <= weak {
			t.Errorf("%s: strength 0 changes pictures by %d, strength 1 by %d", kind, weak, strong)
		}
	}
	px := make([]uint8, Size*Size*3)
	for name, f := range map[string]func() error{
		"a kind that is none":     func() error { _, err := Degrade(px, "nosie", 0.5, k.Draw()); return err },
		"a strength above 1":      func() error { _, err := Degrade(px, "noise", 1.5, k.Draw()); return err },
		"a picture of other size": func() error { _, err := Degrade(px[:12], "noise", 1, k.Draw()); return err },
	} {
		if f() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func distance(a, b []uint8) (d int) {
	for i := range a {
		d += max(int(a[i])-int(b[i]), int(b[i])-int(a[i]))
	}
	return d
}
