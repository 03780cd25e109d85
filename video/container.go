package video

import (
	"io"
	"path/filepath"
	"slices"
	"strings"
)

// A Container is a kind of file that holds clips. Each value is in the file of its format.
type Container struct {
	Name    string
	Card    string
	Endings []string // of files; the first is the usual one
	Picture string   // the ending that still pictures have too; "": none
	At      int      // of Magic in a file
	Magic   string   // the first bytes of a file
	Decode  func(data []byte, l Limits) (*Clip, error)
	Encode  func(w io.Writer, c *Clip) error // nil: it is not written, or FFmpeg writes it
	FFmpeg  string                           // ffmpeg's name of the container where Decode is nil
}

// Containers lists all. The program itself reads the first ones, ffmpeg the others.
func Containers() []Container {
	return []Container{GIF, APNG, Y4M, MP4, Matroska, QuickTime, AVI, FLV, MPEG}
}

// Endings lists the endings of files that hold clips and no pictures.
func Endings() []string {
	var all []string
	for _, c := range Containers() {
		for _, ending := range c.Endings {
			if ending != c.Picture {
				all = append(all, ending)
			}
		}
	}
	return all
}

// Named reports whether a file is a clip by the ending of its name. A PNG is one where it plays.
func Named(path string) bool {
	ending := strings.ToLower(filepath.Ext(path))
	return slices.Contains(Endings(), ending) || ending == APNG.Picture && Plays(path)
}

// containerOf finds the container that begins with a file's first bytes.
func containerOf(head []byte) (Container, bool) {
	all := Containers()
	i := slices.IndexFunc(all, func(c Container) bool {
		return strings.HasPrefix(string(head[min(c.At, len(head)):]), c.Magic)
	})
	if i < 0 {
		return Container{}, false
	}
	return all[i], true
}

// containerNamed finds the container of files with an ending.
func containerNamed(ending string) (Container, bool) {
	all := Containers()
	i := slices.IndexFunc(all, func(c Container) bool { return slices.Contains(c.Endings, ending) })
	if i < 0 {
		return Container{}, false
	}
	return all[i], true
}
