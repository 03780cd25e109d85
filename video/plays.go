package video

import (
	"bytes"

	"github.com/darkroom-rl/darkroom/outside/regular"
)

// Plays reports whether a file is a PNG that plays: one with an animation, as runs keep their clips. An unreadable file
// does not; opening it returns the error.
func Plays(path string) bool {
	data, err := regular.Read(path, Limits{}.filled().Bytes)
	if err != nil || !bytes.HasPrefix(data, []byte(pngMagic)) {
		return false
	}
	for rest := data[len(pngMagic):]; ; {
		c, after, err := nextChunk(rest)
		if err != nil || c.name == "IDAT" {
			return false
		}
		if c.name == "acTL" {
			return true
		}
		rest = after
	}
}
