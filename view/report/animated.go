package report

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// animated reports whether a PNG file of a run's folder has frames: a chunk acTL precedes its first picture data.
func animated(dir, name string) bool {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer root.Close()
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return false
	}
	defer f.Close()
	const magic, before = 8, 64 // of bytes, and of chunks: a file has few before its pictures
	at := int64(magic)
	for range before {
		var head [8]byte
		if n, err := f.ReadAt(head[:], at); n < len(head) || err != nil && !errors.Is(err, io.EOF) {
			return false
		}
		switch string(head[4:]) {
		case "acTL":
			return true
		case "IDAT":
			return false
		}
		at += int64(len(head)) + int64(binary.BigEndian.Uint32(head[:4])) + 4
	}
	return false
}
