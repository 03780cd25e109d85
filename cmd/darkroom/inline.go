package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/vision"
)

// Pictures in the terminal, where it can show them: by Kitty's protocol, iTerm2's, or as Sixel. Nothing is asked of the
// terminal, which might not answer: what it says of itself in the environment decides, and DARKROOM_PICTURES (kitty,
// iterm, sixel, off) over it. In a pipe, and inside tmux and screen, which do not pass them on, there are none.

// A protocol writes a picture.
type protocol func(w io.Writer, m image.Image) error

// protocols are all, by the names of DARKROOM_PICTURES.
var protocols = map[string]protocol{"kitty": writeKitty, "iterm": writeITerm, "sixel": writeSixel}

// protocolOf says which a terminal understands; nil: none that is known.
func protocolOf(env func(string) string) protocol {
	if asked := env("DARKROOM_PICTURES"); asked != "" {
		return protocols[asked]
	}
	term, program := env("TERM"), env("TERM_PROGRAM")
	switch {
	case env("TMUX") != "" || strings.HasPrefix(term, "screen") || strings.HasPrefix(term, "tmux"):
		return nil
	case env("KITTY_WINDOW_ID") != "" || term == "xterm-kitty" || term == "xterm-ghostty" || program == "ghostty":
		return writeKitty
	case program == "iTerm.app" || program == "WezTerm" || env("LC_TERMINAL") == "iTerm2":
		return writeITerm
	case strings.HasPrefix(term, "foot") || strings.HasPrefix(term, "mlterm") || strings.Contains(term, "sixel"):
		return writeSixel
	}
	return nil
}

// mostInline is how wide a picture is in a terminal, in pixels: about 100 characters.
const mostInline = 900

// showPicture shows a PNG file where w is a terminal that can. That it cannot is no failure: the file is there.
func showPicture(w io.Writer, path string) {
	if !terminal(w) {
		return
	}
	write := protocolOf(os.Getenv)
	if write == nil {
		return
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return
	}
	m, err := vision.Decode(data, vision.Limits{})
	if err != nil {
		return
	}
	if m.Width > mostInline {
		if m, err = m.Resize(mostInline, max(1, m.Height*mostInline/m.Width), vision.Lanczos); err != nil {
			return
		}
	}
	out := behind(w) // past the writer that takes escapes away: these are our own
	if write(out, m) == nil {
		fmt.Fprintln(out)
	}
}

// encoded is the picture as a PNG file in base64.
func encoded(m image.Image) (text string, size int, err error) {
	var b bytes.Buffer
	err = png.Encode(&b, m)
	return base64.StdEncoding.EncodeToString(b.Bytes()), b.Len(), err
}

// writeKitty is https://sw.kovidgoyal.net/kitty/graphics-protocol: pieces of 4096 bytes, no answers wanted (q=2).
func writeKitty(w io.Writer, m image.Image) error {
	text, _, err := encoded(m)
	if err != nil {
		return err
	}
	var b strings.Builder
	for first := true; first || text != ""; first = false {
		piece := text[:min(4096, len(text))]
		text = text[len(piece):]
		more, head := 0, ""
		if text != "" {
			more = 1
		}
		if first {
			head = "a=T,f=100,q=2,"
		}
		fmt.Fprintf(&b, "\x1b_G%sm=%d;%s\x1b\\", head, more, piece)
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// writeITerm is https://iterm2.com/documentation-images.html.
func writeITerm(w io.Writer, m image.Image) error {
	text, size, err := encoded(m)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\x1b]1337;File=inline=1;size=%d;preserveAspectRatio=1:%s\a", size, text)
	return err
}

// latestSheet is the file of a run's latest held-out pictures; "" where it has none.
func latestSheet(dir string) string {
	all, err := filepath.Glob(filepath.Join(dir, "images", "heldout_[0-9]*.png"))
	if err != nil || len(all) == 0 {
		return ""
	}
	return slices.Max(all)
}
