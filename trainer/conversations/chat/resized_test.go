package chat

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// TestResized: a picture that was read before has the same patches, one that was changed in place has its own, and kept
// pictures stay within their bound.
func TestResized(t *testing.T) {
	processor := vlm.NewProcessor()
	k := &VLM{Processor: &processor}
	r := rand.New(rand.NewPCG(1, 2))
	m := vision.New(201, 103)
	for i := range m.Pix {
		m.Pix[i] = byte(r.Uint32())
	}
	check := func(what string, kept int) {
		t.Helper()
		want, err := processor.Apply(m.Raster())
		if err != nil {
			t.Fatal(err)
		}
		got, err := k.Patches([]*vision.Image{m})
		if err != nil || !slices.Equal(got.Values, want.Values) || !slices.Equal(got.Grids, want.Grids) {
			t.Errorf("%s: other patches (%v)", what, err)
		}
		if len(k.resized.by) != kept {
			t.Errorf("%s: %d pictures are kept, not %d", what, len(k.resized.by), kept)
		}
	}
	check("a picture", 1)
	check("the same picture", 1)
	m.Pix[3000] ^= 255
	check("a picture changed in place", 2)
	k.resized.bytes = mostResized
	m.Pix[3000]++
	check("one beyond the bound", 1)
	m = vision.New(2*processor.Patch*processor.Merge, 4*processor.Patch*processor.Merge)
	check("a picture of the processor's size", 1)
	if _, err := k.Patches([]*vision.Image{vision.New(20000, 20)}); err == nil {
		t.Error("a picture that is too thin was read")
	}
}
