package run

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/darkroom-rl/darkroom/vision"
)

// Pictures that samples are made of, for people: those of samples whose pictures are kept, named by their pixels, and a
// sheet of those that held-out pictures are made of.

// sourceSide is the longer side of a source that is kept.
const sourceSide = 256

// keepSources writes what a sample was made of, and says where.
func (t *training) keepSources(sources []*vision.Image) (names []string, err error) {
	for _, m := range sources {
		sum := sha256.New()
		fmt.Fprintln(sum, m.Width, m.Height)
		sum.Write(m.Pix)
		name := "images/source_" + hex.EncodeToString(sum.Sum(nil)[:8]) + ".png"
		if _, err := os.Stat(t.files.folder.Path(name)); errors.Is(err, fs.ErrNotExist) {
			if m, err = within(m, sourceSide); err != nil {
				return nil, err
			}
			if err := t.writePNG(name, m); err != nil {
				return nil, err
			}
		}
		names = append(names, name)
	}
	return names, nil
}

// sourceSheet keeps what an evaluation's pictures are made of, each where its picture stands on the evaluation's sheet.
func (t *training) sourceSheet(name string, e *Evaluation) error {
	if !slices.ContainsFunc(e.shown.sources, func(s []*vision.Image) bool { return len(s) > 0 }) {
		return nil
	}
	drawn := make([]*vision.Image, len(e.shown.sources))
	for i, sources := range e.shown.sources {
		var err error
		if drawn[i], err = beside(sources, e.shown.pictures[i].Width, e.shown.pictures[i].Height); err != nil {
			return undrawable{err}
		}
	}
	sheet, err := e.layout(drawn).Draw(drawn)
	if err != nil {
		return undrawable{err}
	}
	return t.writePNG(name, sheet)
}

// beside are pictures beside each other in one of a size; none: it is white.
func beside(pictures []*vision.Image, width, height int) (*vision.Image, error) {
	if len(pictures) == 0 {
		m := vision.New(width, height)
		for i := range m.Pix {
			m.Pix[i] = 255
		}
		return m, nil
	}
	m := pictures[0]
	if len(pictures) > 1 {
		var err error
		if m, err = (vision.Sheet{Columns: len(pictures), Padding: -1}).Draw(pictures); err != nil {
			return nil, err
		}
	}
	if m.Width == width && m.Height == height {
		return m, nil
	}
	return m.Resize(width, height, vision.Lanczos)
}

// writePNG writes a picture into the run's folder.
func (t *training) writePNG(name string, m *vision.Image) error {
	var out bytes.Buffer
	if err := vision.EncodePNG(&out, m); err != nil {
		return err
	}
	return t.files.folder.Write(name, out.Bytes())
}
