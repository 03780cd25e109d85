package track

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/darkroom-rl/darkroom/record/ledger"
)

// Of an iteration the samples of the highest and the lowest total are shown, with their pictures.

// shown is a sample's line with its iteration's place.
type shown struct {
	ledger.SampleLine
	Said []string `json:"said"` // of a transcript
	Held bool     `json:"heldout"`
}

// extremes are the samples of the highest and the lowest total of an iteration; nil where nothing was scored.
func extremes(t *tail, kept *[]byte, l *ledger.Line) (best, worst *shown, err error) {
	for {
		line := *kept
		if *kept = nil; line == nil {
			if line, err = t.next(); err != nil || line == nil {
				return best, worst, err
			}
		}
		var s shown
		if err := json.Unmarshal(line, &s); err != nil {
			return nil, nil, fmt.Errorf("%s, before byte %d: %w", t.path, t.at, err)
		}
		switch {
		case s.Rollback != nil || s.Held || s.Attempt < l.Attempt || s.Attempt == l.Attempt && s.Iteration < l.Iteration:
			continue
		case s.Attempt > l.Attempt || s.Iteration > l.Iteration:
			*kept = line
			return best, worst, nil
		}
		if s.Total == nil {
			continue
		}
		if best == nil || *s.Total > *best.Total {
			best = &s
		}
		if worst == nil || *s.Total < *worst.Total {
			worst = &s
		}
	}
}

// text describes a sample in words: its total, its prompt, and the model's answer.
func (s *shown) text() string {
	text := fmt.Sprintf("%.3f  %s", *s.Total, s.Text)
	if len(s.Said) > 0 {
		text += "\n\n" + strings.Join(s.Said, "\n\n")
	}
	return text
}

// picture reads a PNG file of the run's folder; nil for another kind of file, or a missing one.
func picture(dir, file, name, caption string) (*Picture, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	data, err := root.ReadFile(filepath.FromSlash(file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, nil //nolint:nilerr // other files are not shown
	}
	return &Picture{Name: name, Caption: caption, Width: c.Width, Height: c.Height, PNG: data}, nil
}
