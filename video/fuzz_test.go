package video

import (
	"bytes"
	"testing"
)

// FuzzDecode: no bytes make a reader panic, or return frames beyond the limits.
func FuzzDecode(f *testing.F) {
	c := moving(6, 5, 3)
	for _, k := range Containers() {
		if k.Encode == nil {
			continue
		}
		var b bytes.Buffer
		if err := k.Encode(&b, c); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Add([]byte("YUV4MPEG2 W3 H3 F30:1 C420jpeg XCOLORRANGE=FULL\nFRAME\n0123456789abcdefg"))
	f.Fuzz(func(t *testing.T, data []byte) {
		l := Limits{Pixels: 4096, Frames: 16, Total: 16384}
		c, err := Decode(data, l)
		if err != nil {
			return
		}
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		if err := l.filled().check(c.Width, c.Height, len(c.Frames)); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzAPNG mends checksums first, so that the code behind them is reached.
func FuzzAPNG(f *testing.F) {
	c := moving(6, 5, 3)
	var b bytes.Buffer
	if err := EncodeAPNG(&b, c); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes()[len(pngMagic):])
	f.Fuzz(func(t *testing.T, data []byte) {
		file := []byte(pngMagic)
		for len(data) >= 12 {
			size := int(data[2])<<8 | int(data[3])
			size = min(size, len(data)-12)
			file = appendChunk(file, string(data[4:8]), data[8:8+size])
			data = data[12+size:]
		}
		l := Limits{Pixels: 4096, Frames: 16, Total: 16384}
		if c, err := Decode(file, l); err == nil {
			if err := c.Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzByNumbers: an order must not contradict itself.
func FuzzByNumbers(f *testing.F) {
	f.Add("a9", "a10", "a010")
	f.Add("frame_2", "frame_02b", "frame_2a")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		if byNumbers(a, b) != -byNumbers(b, a) {
			t.Fatalf("%q and %q", a, b)
		}
		if (byNumbers(a, b) == 0) != (a == b) {
			t.Fatalf("%q and %q are called equal", a, b)
		}
		if byNumbers(a, b) <= 0 && byNumbers(b, c) <= 0 && byNumbers(a, c) > 0 {
			t.Fatalf("%q, %q, %q", a, b, c)
		}
	})
}
