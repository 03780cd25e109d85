package vision

import (
	"bytes"
	"image"
	"image/jpeg"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/outside/spent"
)

// progressive is a JPEG of one grey with so many scans, each of which visits all blocks and changes
// nothing: of a run of blocks at their end.
func progressive(width, height, scans int) []byte {
	var b bytes.Buffer
	segment := func(marker byte, body ...byte) {
		b.Write([]byte{0xff, marker, byte((len(body) + 2) >> 8), byte(len(body) + 2)})
		b.Write(body)
	}
	b.Write([]byte{0xff, 0xd8})
	table := bytes.Repeat([]byte{1}, 64)
	segment(0xdb, append([]byte{0}, table...)...)
	segment(0xc2, 8, byte(height>>8), byte(height), byte(width>>8), byte(width), 1, 1, 0x11, 0)
	huffman := func(class byte, symbol byte) { // one code, 0, for one symbol
		body := append([]byte{class, 1}, make([]byte, 15)...)
		segment(0xc4, append(body, symbol)...)
	}
	huffman(0x00, 0)    // a difference of 0
	huffman(0x10, 0xe0) // the end of 2^14 + n blocks
	for i := range scans {
		if i == 0 {
			segment(0xda, 1, 1, 0x00, 0, 0, 0) // DC of each block, a bit each
			b.Write(make([]byte, width*height/64/8+1))
			continue
		}
		segment(0xda, 1, 1, 0x00, 1, 63, 0)
		b.Write(make([]byte, (width*height/64/(1<<14)+1)*2))
	}
	b.Write([]byte{0xff, 0xd9})
	return b.Bytes()
}

// TestScans: a JPEG of many scans costs no more than its limit; one that is within it is read.
func TestScans(t *testing.T) {
	if m, err := Decode(progressive(64, 64, 10), Limits{}); err != nil || m.Width != 64 {
		t.Fatal(err)
	}
	begun := spent.CPU()
	bomb := progressive(2048, 2048, 3000)
	_, err := Decode(bomb, Limits{})
	if err == nil || !strings.Contains(err.Error(), "3000 scans") || spent.CPU()-begun > 10*time.Second {
		t.Errorf("%d bytes, %v of the CPU: %v", len(bomb), spent.CPU()-begun, err)
	}
	var plain bytes.Buffer
	if err := jpeg.Encode(&plain, image.NewGray(image.Rect(0, 0, 64, 64)), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(plain.Bytes(), Limits{}); err != nil {
		t.Error(err)
	}
}
