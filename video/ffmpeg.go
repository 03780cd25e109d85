package video

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Card: files of other kinds go through the program ffmpeg, found on PATH, as Y4M over a pipe.
// A file's format is read from its first bytes and passed to ffmpeg: left to guess, it would follow a playlist to other
// files and hosts. It may open files only, decodes no frame larger than Limits.Pixels, and is ended when it takes too
// long.

// The containers that ffmpeg reads, and writes where they have an ending.
var (
	MP4       = Container{Name: "MP4", Card: "MPEG-4 part 14, and other files whose first box is ftyp.", Endings: []string{".mp4"}, At: 4, Magic: "ftyp", FFmpeg: "mov"}
	Matroska  = Container{Name: "Matroska", Card: "Matroska, and WebM.", Endings: []string{".mkv", ".webm"}, Magic: "\x1a\x45\xdf\xa3", FFmpeg: "matroska"}
	QuickTime = Container{Name: "QuickTime", Card: "QuickTime without a box ftyp.", Endings: []string{".mov"}, At: 4, Magic: "moov", FFmpeg: "mov"}
	AVI       = Container{Name: "AVI", Card: "Audio Video Interleave.", Endings: []string{".avi"}, At: 8, Magic: "AVI ", FFmpeg: "avi"}
	FLV       = Container{Name: "FLV", Card: "Flash video; read alone.", Magic: "FLV\x01", FFmpeg: "flv"}
	MPEG      = Container{Name: "MPEG", Card: "MPEG program streams; read alone.", Magic: "\x00\x00\x01\xba", FFmpeg: "mpeg"}
)

// patience is how long ffmpeg may work on one clip.
const patience = 5 * time.Minute

// ErrNoFFmpeg: the file needs ffmpeg, which is not on PATH.
var ErrNoFFmpeg = errors.New("this kind of file needs ffmpeg, which is not on PATH: install it, or use .gif, .png or .y4m")

// ffmpeg is the program with arguments that every call shares.
func ffmpeg(ctx context.Context, args ...string) (*exec.Cmd, error) {
	program, err := exec.LookPath("ffmpeg")
	if err != nil {
		return nil, ErrNoFFmpeg
	}
	c := exec.CommandContext(ctx, program, append([]string{"-v", "error", "-nostdin"}, args...)...)
	c.WaitDelay = time.Second // pipes that a child of its own keeps open
	return c, nil
}

func readFFmpeg(path, container string, l Limits) (*Clip, error) {
	return readWithin(patience, path, container, l)
}

func readWithin(limit time.Duration, path, container string, l Limits) (*Clip, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if info.Size() > l.Bytes {
		return nil, fmt.Errorf("%s: %d bytes, more than the %d that are allowed: store the clip smaller, or raise Limits.Bytes", path, info.Size(), l.Bytes)
	}
	whole, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	cmd, err := ffmpeg(ctx, "-protocol_whitelist", "file", "-max_pixels", strconv.FormatInt(l.Pixels, 10),
		"-f", container, "-i", "file:"+whole, "-map", "0:v:0", "-frames:v", strconv.Itoa(l.Frames+1),
		"-pix_fmt", "yuv444p", "-f", "yuv4mpegpipe", "-")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	said := &tail{}
	cmd.Stderr = said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: starting ffmpeg: %w", path, err)
	}
	c, err := readY4M(out, l)
	late := ctx.Err()
	if err != nil {
		cancel() // it may have much more to say
	}
	ended := cmd.Wait()
	switch {
	case late != nil:
		return nil, fmt.Errorf("%s: ffmpeg was not done after %v: cut the clip", path, limit)
	case ended != nil && said.String() != "":
		return nil, fmt.Errorf("%s: ffmpeg: %s", path, said)
	case err != nil:
		return nil, fmt.Errorf("%s: what ffmpeg made of it: %w", path, err)
	case ended != nil:
		return nil, fmt.Errorf("%s: ffmpeg: %w", path, ended)
	}
	return c, nil
}

func writeFFmpeg(path string, c *Clip) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	whole, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	ending := filepath.Ext(whole)
	part := strings.TrimSuffix(whole, ending) + ".part" + ending // ffmpeg goes by endings
	colours := "yuv420p"                                         // the size in players
	if c.Width%2 != 0 || c.Height%2 != 0 {
		colours = "yuv444p"
	}
	cmd, err := ffmpeg(ctx, "-y", "-protocol_whitelist", "file,pipe", "-f", "yuv4mpegpipe", "-i", "pipe:0", "-pix_fmt", colours, "file:"+part)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var file bytes.Buffer
	if err := EncodeY4M(&file, c); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	said := &tail{}
	cmd.Stdin, cmd.Stderr = &file, said
	if err := cmd.Run(); err != nil {
		os.Remove(part)
		return fmt.Errorf("%s: ffmpeg: %w: %s", path, err, said)
	}
	return os.Rename(part, path)
}

// tail keeps the end of a program's output.
type tail struct{ said []byte }

func (t *tail) Write(b []byte) (int, error) {
	t.said = append(t.said, b...)
	if over := len(t.said) - 2000; over > 0 {
		t.said = append(t.said[:0], t.said[over:]...)
	}
	return len(b), nil
}

func (t *tail) String() string { return strings.TrimSpace(strings.ToValidUTF8(string(t.said), "?")) }
