package video

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// mp4 are the first bytes of such a file: enough to be handed on.
var mp4 = []byte("\x00\x00\x00\x20ftypisom\x00\x00\x02\x00isomiso2")

func TestWithoutFFmpeg(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	path := filepath.Join(t.TempDir(), "a.mp4")
	write(t, path, mp4)
	if _, err := Open(path, Limits{}); !errors.Is(err, ErrNoFFmpeg) || !strings.Contains(err.Error(), path) {
		t.Errorf("reading: %v", err)
	}
	if err := WriteFile(path, moving(4, 4, 2)); !errors.Is(err, ErrNoFFmpeg) {
		t.Errorf("writing: %v", err)
	}
}

// TestFFmpegMisbehaves: a program in its place that fails, lies, floods or sleeps.
func TestFFmpegMisbehaves(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the program in ffmpeg's place is a shell script")
	}
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skipf("the program in ffmpeg's place is a shell script: %v", err)
	}
	frame := `printf 'YUV4MPEG2 W2 H1 F5:1 Cmono\n'; printf 'FRAME\n\020\353'`
	for name, k := range map[string]struct{ script, says string }{
		"works":    {frame, ""},
		"fails":    {"echo no such codec >&2; exit 1", "no such codec"},
		"silent":   {"exit 3", "no end"},
		"garbage":  {"echo hello", "YUV4MPEG2"},
		"vast":     {`printf 'YUV4MPEG2 W60000 H60000\nFRAME\n'`, "Limits.Pixels"},
		"floods":   {frame + "; while :; do printf 'FRAME\\n\\020\\353'; done", "Limits.Frames"},
		"half":     {frame + "; printf 'FRAME\\n\\020'", "cut short"},
		"sleeps":   {frame + "; exec sleep 60", "not done after"},
		"half bad": {frame + "; echo the rest is damaged >&2; exit 1", "the rest is damaged"},
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "ffmpeg"), []byte("#!"+shell+"\n"+k.script+"\n"))
		if err := os.Chmod(filepath.Join(dir, "ffmpeg"), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
		path := filepath.Join(dir, "a.mp4")
		write(t, path, mp4)
		limit := 20 * time.Second
		if name == "sleeps" {
			limit = 300 * time.Millisecond
		}
		began := time.Now()
		c, err := readWithin(limit, path, "mov", Limits{Frames: 50}.filled())
		switch {
		case k.says == "" && (err != nil || c.Frames[0][5] != 255):
			t.Errorf("%s: %v", name, err)
		case k.says != "" && (err == nil || !strings.Contains(err.Error(), k.says)):
			t.Errorf("%s: %v, want %q", name, err, k.says)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s: %v", name, took)
		}
	}
}

// TestFFmpeg goes through the real program.
func TestFFmpeg(t *testing.T) {
	if _, err := exec.LookPath("ffmpeg"); err != nil {
		t.Skip("ffmpeg is not on PATH")
	}
	c := moving(64, 48, 10)
	for _, f := range c.Frames { // smooth colours: most codecs halve their size
		for i := range f {
			f[i] = uint8(2*(i/3%64) + i/192)
		}
	}
	for _, name := range []string{"a.mkv", "a.mp4", "a.avi"} {
		path := filepath.Join(t.TempDir(), name)
		if err := WriteFile(path, c); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := Open(path, Limits{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.Width != 64 || got.Height != 48 || len(got.Frames) != 10 || got.Rate != c.Rate {
			t.Errorf("%s: %d frames of %d x %d at %v", name, len(got.Frames), got.Width, got.Height, got.Rate)
		}
		off := 0
		for i, f := range c.Frames {
			for j := range f {
				off += max(int(f[j])-int(got.Frames[i][j]), int(got.Frames[i][j])-int(f[j]))
			}
		}
		if mean := float64(off) / float64(10*len(c.Frames[0])); mean > 3 {
			t.Errorf("%s: %.1f levels off in the mean", name, mean)
		}
		if _, err := Open(path, Limits{Frames: 5}); err == nil || !strings.Contains(err.Error(), "Limits.Frames") {
			t.Errorf("%s, too many frames: %v", name, err)
		}
	}
}

// TestPlaylists: files that lead to other files are refused.
func TestPlaylists(t *testing.T) {
	for _, text := range []string{"#EXTM3U\n#EXT-X-TARGETDURATION:1\n/etc/passwd\n", "ffconcat version 1.0\nfile /etc/passwd\n"} {
		path := filepath.Join(t.TempDir(), "a.mp4")
		write(t, path, []byte(text))
		if _, err := Open(path, Limits{}); err == nil || !strings.Contains(err.Error(), "neither") {
			t.Errorf("%q: %v", text[:8], err)
		}
	}
}
