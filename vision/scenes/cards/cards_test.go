package cards

import (
	"image"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/vision"
)

// TestTables: cards lie apart, each has its digit's ink, and a table is a function of its key.
func TestTables(t *testing.T) {
	for i := range 40 {
		key := rng.New(1).Sample(i)
		table := Random(key)
		m := table.Draw()
		if again := Random(key).Draw(); string(again.Pix) != string(m.Pix) {
			t.Fatalf("table %d is drawn in two ways", i)
		}
		colours := map[string]bool{}
		for k, c := range table.Cards {
			colours[c.Colour] = true
			digit := image.Rectangle{c.at, c.at.Add(image.Pt(digitWidth, digitHeight))}
			if !c.Box.In(m.Bounds()) || !digit.In(c.Box) {
				t.Errorf("table %d: card %v with a digit at %v", i, c.Box, digit)
			}
			for _, other := range table.Cards[:k] {
				if c.Box.Overlaps(other.Box) {
					t.Errorf("table %d: %v lies on %v", i, c.Box, other.Box)
				}
			}
			if n := inked(m, digit); n < 60 {
				t.Errorf("table %d: the digit %d has %d dark pixels", i, c.Digit, n)
			}
		}
		if len(colours) != len(table.Cards) || len(table.Cards) < fewest || len(table.Cards) > Most {
			t.Errorf("table %d: %d cards in %d colours", i, len(table.Cards), len(colours))
		}
	}
}

func inked(m *vision.Image, in image.Rectangle) (n int) {
	for y := in.Min.Y; y < in.Max.Y; y++ {
		for x := in.Min.X; x < in.Max.X; x++ {
			if p := m.Row(y)[3*x:]; p[0] == ink.R && p[1] == ink.G && p[2] == ink.B {
				n++
			}
		}
	}
	return n
}

// TestShownSmall: on a table made ten times smaller, digits are no more than a few pixels of
// grey: no two that differ in them alone are as far apart as their cards' shades are.
func TestShownSmall(t *testing.T) {
	table := Random(rng.New(2))
	at := table.Cards[0].Box
	var means []float64
	for d := range 10 {
		table.Cards[0].Digit = d
		m, err := table.Draw().ResizeTorch(Side/10, Side/10, vision.Bicubic)
		if err != nil {
			t.Fatal(err)
		}
		sum, n := 0.0, 0.0
		for y := at.Min.Y / 10; y < at.Max.Y/10; y++ {
			for x := at.Min.X / 10; x < at.Max.X/10; x++ {
				sum, n = sum+float64(m.Row(y)[3*x]), n+1
			}
		}
		means = append(means, sum/n)
	}
	for _, v := range means {
		if v < means[8]-12 || v > means[8]+12 {
			t.Errorf("digits change a card's shade: %v", means)
			break
		}
	}
}
