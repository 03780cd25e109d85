package video

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/gif"
	"image/png"
	"testing"
)

// The disposal of a frame before the next, and its blending with the canvas below.

// TestGIFDisposal: three frames, of which the second is a dot that stays, is cleared, or is replaced by the earlier
// canvas.
func TestGIFDisposal(t *testing.T) {
	pal := color.Palette{color.RGBA{}, color.RGBA{255, 0, 0, 255}, color.RGBA{0, 255, 0, 255}, color.RGBA{0, 0, 255, 255}}
	fill := func(r image.Rectangle, ink uint8) *image.Paletted {
		m := image.NewPaletted(r, pal)
		for i := range m.Pix {
			m.Pix[i] = ink
		}
		return m
	}
	for disposal, want := range map[byte][3]uint8{
		gif.DisposalNone: {0, 255, 0}, gif.DisposalBackground: {0, 0, 0}, gif.DisposalPrevious: {255, 0, 0},
	} {
		var file bytes.Buffer
		if err := gif.EncodeAll(&file, &gif.GIF{
			Image:    []*image.Paletted{fill(image.Rect(0, 0, 3, 2), 1), fill(image.Rect(1, 1, 2, 2), 2), fill(image.Rect(0, 0, 1, 1), 3)},
			Delay:    []int{10, 0, 30},
			Disposal: []byte{gif.DisposalNone, disposal, gif.DisposalNone},
			Config:   image.Config{ColorModel: pal, Width: 3, Height: 2},
		}); err != nil {
			t.Fatal(err)
		}
		c, err := Decode(file.Bytes(), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		dot := [3]uint8(c.Frames[2][3*4:])
		corner := [3]uint8(c.Frames[2][:3])
		if dot != want || corner != [3]uint8{0, 0, 255} || [3]uint8(c.Frames[1][3*4:]) != [3]uint8{0, 255, 0} {
			t.Errorf("disposal %d: the dot is %v, want %v; the corner %v", disposal, dot, want, corner)
		}
		if c.Rate != (Rate{6, 1}) { // 0.1 + 0.1 + 0.3 seconds: no delay means a tenth
			t.Errorf("rate %v", c.Rate)
		}
	}
}

// animated puts frames into an APNG by hand.
type piece struct {
	x, y, w, h    int
	ink           color.NRGBA
	dispose, over byte
}

func animated(t *testing.T, width, height int, still bool, pieces ...piece) []byte {
	t.Helper()
	out := []byte(pngMagic)
	var header [13]byte
	binary.BigEndian.PutUint32(header[:], uint32(width))
	binary.BigEndian.PutUint32(header[4:], uint32(height))
	header[8], header[9] = 8, 6
	out = appendChunk(out, "IHDR", header[:])
	out = appendChunk(out, "acTL", []byte{0, 0, 0, byte(len(pieces)), 0, 0, 0, 0})
	data := func(p piece) []byte {
		m := image.NewNRGBA(image.Rect(0, 0, p.w, p.h))
		for i := range p.w * p.h {
			m.SetNRGBA(i%p.w, i/p.w, p.ink)
		}
		m.SetNRGBA(0, 0, color.NRGBA{p.ink.R, p.ink.G, p.ink.B, p.ink.A &^ 1}) // not opaque: four channels
		var file bytes.Buffer
		if err := png.Encode(&file, m); err != nil {
			t.Fatal(err)
		}
		var all []byte
		for rest := file.Bytes()[len(pngMagic):]; len(rest) > 0; {
			var c chunk
			var err error
			if c, rest, err = nextChunk(rest); err != nil {
				t.Fatal(err)
			}
			if c.name == "IDAT" {
				all = append(all, c.data...)
			}
		}
		return all
	}
	if still {
		out = appendChunk(out, "IDAT", data(piece{w: width, h: height, ink: color.NRGBA{9, 9, 9, 254}}))
	}
	for i, p := range pieces {
		var c []byte
		for _, v := range []int{2 * i, p.w, p.h, p.x, p.y} {
			c = binary.BigEndian.AppendUint32(c, uint32(v))
		}
		out = appendChunk(out, "fcTL", append(c, 0, 1, 0, 4, p.dispose, p.over))
		if i == 0 && !still {
			out = appendChunk(out, "IDAT", data(p))
		} else {
			out = appendChunk(out, "fdAT", append([]byte{0, 0, 0, byte(2*i + 1)}, data(p)...))
		}
	}
	return appendChunk(out, "IEND", nil)
}

func TestAPNGComposition(t *testing.T) {
	red, half := color.NRGBA{200, 0, 0, 255}, color.NRGBA{0, 100, 0, 128}
	for name, k := range map[string]struct {
		still  bool
		second piece
		during [3]uint8 // the pixel (2, 1) in the second frame
		after  [3]uint8 // and in the third
	}{
		"replaced, stays":    {false, piece{1, 0, 2, 2, half, 0, 0}, [3]uint8{0, 50, 0}, [3]uint8{0, 50, 0}},
		"mixed, stays":       {false, piece{1, 0, 2, 2, half, 0, 1}, [3]uint8{100, 50, 0}, [3]uint8{100, 50, 0}},
		"mixed, cleared":     {false, piece{1, 0, 2, 2, half, 1, 1}, [3]uint8{100, 50, 0}, [3]uint8{}},
		"mixed, taken back":  {false, piece{1, 0, 2, 2, half, 2, 1}, [3]uint8{100, 50, 0}, [3]uint8{200, 0, 0}},
		"still is no frame":  {true, piece{1, 0, 2, 2, half, 2, 1}, [3]uint8{100, 50, 0}, [3]uint8{200, 0, 0}},
		"cleared, elsewhere": {false, piece{0, 0, 1, 1, half, 1, 0}, [3]uint8{200, 0, 0}, [3]uint8{200, 0, 0}},
	} {
		c, err := Decode(animated(t, 4, 3, k.still, piece{0, 0, 4, 3, red, 0, 0}, k.second, piece{3, 2, 1, 1, red, 0, 0}), Limits{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(c.Frames) != 3 || c.Rate != (Rate{4, 1}) {
			t.Errorf("%s: %d frames, rate %v", name, len(c.Frames), c.Rate)
			continue
		}
		at := 3 * (1*4 + 2)
		if d, a := [3]uint8(c.Frames[1][at:]), [3]uint8(c.Frames[2][at:]); !near(d, k.during) || !near(a, k.after) {
			t.Errorf("%s: %v then %v, want %v then %v", name, d, a, k.during, k.after)
		}
	}
	if _, err := Decode(animated(t, 4, 3, false, piece{0, 0, 4, 3, red, 0, 0}, piece{2, 2, 3, 1, red, 0, 0}), Limits{}); err == nil {
		t.Error("a frame beyond the picture was read")
	}
}

func near(a, b [3]uint8) bool {
	for i := range a {
		if d := int(a[i]) - int(b[i]); d < -1 || d > 1 {
			return false
		}
	}
	return true
}
