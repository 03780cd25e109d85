package vision

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"

	"golang.org/x/image/webp"
)

// A WebP file is a list of chunks: "RIFF" size "WEBP", then name, size and data of each,
// padded to an even length. An extended file says the size of its canvas first, and the
// picture in it says its own size once more; a decoder allocates by both, and nothing makes
// them agree.

func isWebP(data []byte) bool {
	return len(data) >= 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP"
}

// webpSizes are the canvas and the sizes of all pictures in it.
func webpSizes(data []byte) ([]image.Point, error) {
	c, err := webp.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	sizes := []image.Point{{X: c.Width, Y: c.Height}}
	for rest := data[12:]; len(rest) >= 8; {
		name, size := string(rest[:4]), int64(binary.LittleEndian.Uint32(rest[4:]))
		body := rest[8:]
		switch {
		case name == "ANIM" || name == "ANMF":
			return nil, errors.New("it is animated: store its frames as a GIF or as PNG files")
		case name == "VP8 " && len(body) >= 10:
			w, h := binary.LittleEndian.Uint16(body[6:]), binary.LittleEndian.Uint16(body[8:])
			sizes = append(sizes, image.Pt(int(w&0x3fff), int(h&0x3fff)))
		case name == "VP8L" && len(body) >= 5:
			bits := binary.LittleEndian.Uint32(body[1:])
			sizes = append(sizes, image.Pt(int(bits&0x3fff)+1, int(bits>>14&0x3fff)+1))
		}
		if size += size & 1; size > int64(len(body)) {
			break
		}
		rest = body[size:]
	}
	return sizes, nil
}
