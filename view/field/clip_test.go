package field

import (
	"bytes"
	"testing"

	"github.com/darkroom-rl/darkroom/vision/scenes/moving"
)

// TestClip: a thing that moves to the left has yellow arrows, and none lie far from it or in the last frame,
// and the clip itself is untouched.
func TestClip(t *testing.T) {
	s := moving.Scene{Color: "blue", Shape: "square", Heading: "left", Pace: "fast", Background: "white"}
	c := moving.Large.Draw(s, moving.Place{Half: 8})
	before := bytes.Clone(c.Frames[0])
	out, err := Clip(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if out.Width != 384 || len(out.Frames) != len(c.Frames) || !bytes.Equal(before, c.Frames[0]) {
		t.Fatalf("%d frames of %d", len(out.Frames), out.Width)
	}
	yellow := func(frame int) (n, left, right int) {
		px := out.Frames[frame]
		for i := range len(px) / 3 {
			if [3]uint8(px[3*i:3*i+3]) == confirmed {
				switch x := i % out.Width; {
				case x < 20:
					left++
				case x > 364:
					right++
				}
				n++
			}
		}
		return n, left, right
	}
	if n, left, right := yellow(4); n < 100 || left+right > 0 {
		t.Errorf("%d yellow pixels, %d and %d of them far from the thing", n, left, right)
	}
	if n, _, _ := yellow(len(out.Frames) - 1); n > 0 {
		t.Errorf("the last frame has %d yellow pixels", n)
	}
	c.Frames = c.Frames[:1]
	if _, err := Clip(t.Context(), c); err == nil {
		t.Error("one frame has a flow")
	}
}
