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
	if container, err := containerOf(path); err != nil {
		return nil, err
	} else if container != "" {
		return readContainer(path, container, l.filled())
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
	for _, f := range []struct {
		name, magic string
		read        func([]byte, Limits) (*Clip, error)
	}{
		{"GIF", "GIF8", decodeGIF}, {"PNG", pngMagic, decodeAPNG}, {"Y4M", y4mMagic, decodeY4M},
	} {
		if bytes.HasPrefix(data, []byte(f.magic)) {
			c, err := f.read(data, l)
			if err != nil {
				return nil, fmt.Errorf("reading a %s: %w", f.name, err)
			}
			return c, nil
		}
	}
	return nil, errors.New("neither GIF, PNG nor Y4M: convert it, ffmpeg -i CLIP out.y4m")
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
	var write func(io.Writer, *Clip) error
	switch ending := strings.ToLower(filepath.Ext(path)); ending {
	case ".gif":
		write = EncodeGIF
	case ".png", ".apng":
		write = EncodeAPNG
	case ".y4m":
		write = EncodeY4M
	case "":
		return writeFolder(path, c)
	default:
		if !slices.Contains(writable, ending) {
			return fmt.Errorf("%s: clips are written as .gif, .png, .y4m, as a folder without an ending, or through ffmpeg as %s", path, strings.Join(writable, ", "))
		}
		return writeFFmpeg(path, c)
	}
	var file bytes.Buffer
	if err := write(&file, c); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	part := path + ".part" // renamed when it is whole
	if err := os.WriteFile(part, file.Bytes(), 0o644); err != nil {
		return err
	}
	return os.Rename(part, path)
}
