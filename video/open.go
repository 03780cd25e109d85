package video

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/outside/regular"
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

// Open reads a clip: a GIF, an APNG (or a plain PNG: one frame), a Y4M file, a folder of PNG
// files in the order of the numbers in their names, or a file that ffmpeg reads. Its content decides, not its name.
// With the tag gocv, OpenCV reads where ffmpeg is not installed.
func Open(path string, l Limits) (*Clip, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return readFolder(path, l.filled())
	}
	head, err := readHead(path)
	if err != nil {
		return nil, err
	}
	if c, ok := containerOf(head); ok && c.Decode == nil {
		return readContainer(path, c.FFmpeg, l.filled())
	}
	data, err := readFile(path, l.filled().Bytes)
	if err != nil {
		return nil, err
	}
	c, err := Decode(data, l)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Decode reads a clip from a file's bytes.
func Decode(data []byte, l Limits) (*Clip, error) {
	l = l.filled()
	if int64(len(data)) > l.Bytes {
		return nil, fmt.Errorf("%d bytes, more than the %d that are allowed: store the clip smaller, or raise Limits.Bytes", len(data), l.Bytes)
	}
	f, ok := containerOf(data[:min(headBytes, len(data))])
	if !ok || f.Decode == nil {
		return nil, errors.New(unknown())
	}
	c, err := f.Decode(data, l)
	if err != nil {
		return nil, fmt.Errorf("reading a %s: %w", f.Name, err)
	}
	return c, nil
}

// unknown says which containers are read here.
func unknown() string {
	var names []string
	for _, c := range Containers() {
		if c.Decode != nil {
			names = append(names, c.Name)
		}
	}
	last := len(names) - 1
	return fmt.Sprintf("neither %s nor %s: convert it, ffmpeg -i CLIP out.y4m", strings.Join(names[:last], ", "), names[last])
}

// headBytes are enough for every Magic.
const headBytes = 16

// readHead reads a file's first bytes, fewer of a short file.
func readHead(path string) ([]byte, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, headBytes)
	n, _ := io.ReadFull(f, head) // ffmpeg reads no file this short
	return head[:n], nil
}

// readFile reads a file of at most limit bytes.
func readFile(path string, limit int64) ([]byte, error) {
	data, err := regular.Read(path, limit)
	if errors.Is(err, regular.ErrLarge) {
		err = fmt.Errorf("%w: store the clip smaller, or raise Limits.Bytes", err)
	}
	return data, err
}

// WriteFile writes a clip in the form of its path's ending: .gif, .png or .apng (APNG), .y4m,
// the formats of ffmpeg (.mp4, .mkv, .webm, .mov, .avi); a path without an ending becomes a
// folder of PNG files.
func WriteFile(path string, c *Clip) error {
	if err := c.Check(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	ending := strings.ToLower(filepath.Ext(path))
	if ending == "" {
		return writeFolder(path, c)
	}
	container, ok := containerNamed(ending)
	switch {
	case !ok:
		own, others := written()
		return fmt.Errorf("%s: clips are written as %s, as a folder without an ending, or through ffmpeg as %s", path, strings.Join(own, ", "), strings.Join(others, ", "))
	case container.Encode == nil:
		return writeFFmpeg(path, c)
	}
	var file bytes.Buffer
	if err := container.Encode(&file, c); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	part := path + ".part" // renamed when it is whole
	if err := os.WriteFile(part, file.Bytes(), 0o644); err != nil {
		return err
	}
	return os.Rename(part, path)
}

// written are the endings of files that are written: one of each container of our own, and those of ffmpeg.
func written() (own, others []string) {
	for _, c := range Containers() {
		switch {
		case c.Encode != nil:
			own = append(own, c.Endings[0])
		case len(c.Endings) > 0:
			others = append(others, c.Endings...)
		}
	}
	return own, others
}
