package video

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A folder of PNG files is a clip too: frame_000000.png, frame_000001.png, ... Any names will
// do that sort by their numbers. A folder says nothing of a rate.

func readFolder(dir string, l Limits) (*Clip, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if strings.EqualFold(filepath.Ext(e.Name()), ".png") && !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: no PNG files: a folder with one a frame is needed", dir)
	}
	if len(names) > l.Frames {
		return nil, fmt.Errorf("%s: %d PNG files, more than the %d frames that are allowed: keep fewer, or raise Limits.Frames", dir, len(names), l.Frames)
	}
	slices.SortFunc(names, byNumbers)
	var c *Clip
	for i, name := range names {
		path := filepath.Join(dir, name)
		one, err := readFrame(path, l)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", path, err)
		case c == nil:
			c = one
		case one.Width != c.Width || one.Height != c.Height:
			return nil, fmt.Errorf("%s: %d x %d pixels, but %s has %d x %d: frames must have one size", path, one.Width, one.Height, names[0], c.Width, c.Height)
		default:
			c.Frames = append(c.Frames, one.Frames[0])
		}
		if i == 0 {
			if err := l.check(c.Width, c.Height, len(names)); err != nil {
				return nil, fmt.Errorf("%s: %w", dir, err)
			}
		}
	}
	c.Rate = Rate{}
	return c, nil
}

// readFrame reads a file that holds a still picture.
func readFrame(path string, l Limits) (*Clip, error) {
	data, err := readFile(path, l.Bytes)
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(data, []byte(pngMagic)) {
		return nil, errors.New("not a PNG, whatever its name says")
	}
	c, err := decodeAPNG(data, l)
	if err == nil && len(c.Frames) != 1 {
		err = errors.New("an animation within a folder of frames: open it by itself")
	}
	return c, err
}

// byNumbers compares names with their numbers taken as numbers: 9 before 10.
func byNumbers(a, b string) int {
	whole := cmp.Compare(a, b)
	for a != "" && b != "" {
		m, restA := number(a)
		n, restB := number(b)
		switch {
		case m != "" && n != "":
			if d := cmp.Or(cmp.Compare(len(m), len(n)), cmp.Compare(m, n)); d != 0 {
				return d
			}
			a, b = restA, restB
		case a[0] != b[0]:
			return cmp.Compare(a[0], b[0])
		default:
			a, b = a[1:], b[1:]
		}
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), whole)
}

// number is the digits that s begins with, without leading zeros but the last, and the rest.
func number(s string) (digits, rest string) {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	digits = strings.TrimLeft(s[:n], "0")
	if digits == "" && n > 0 {
		digits = "0"
	}
	return digits, s[n:]
}

// writeFolder writes a file a frame into a folder, which must be new or empty.
func writeFolder(dir string, c *Clip) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	there, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(there) > 0 {
		return fmt.Errorf("%s: the folder holds files already: name a new one", dir)
	}
	for i, f := range c.Frames {
		var file bytes.Buffer
		if err := encodePNG(&file, f, c.Width, c.Height); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("frame_%06d.png", i)), file.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
