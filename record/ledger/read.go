package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/darkroom-rl/darkroom/record/folder"
)

// Rollback is a ledger's line that abandons the lines between itself and an earlier iteration.
type Rollback struct {
	From    int     `json:"from"` // the last iteration that was abandoned
	To      int     `json:"to"`   // and the last that was kept
	Attempt int     `json:"attempt"`
	LRScale float64 `json:"lr_scale"` // from now on
	Why     string  `json:"why"`
}

// Book is a ledger's lines: those that count, and those that rollbacks abandoned, with the rollbacks' own.
type Book struct {
	Kept, Abandoned []Line
}

// Add takes the next line.
func (b *Book) Add(l Line) {
	if l.Rollback == nil {
		if n := len(b.Kept); n > 0 && b.Kept[n-1].Measuring < l.Measuring { // the held-out measure before is another one
			for i := range b.Kept {
				b.Kept[i].HeldOut = nil
			}
		}
		b.Kept = append(b.Kept, l)
		return
	}
	n := slices.IndexFunc(b.Kept, func(k Line) bool { return k.Iteration > l.Rollback.To })
	if n < 0 {
		n = len(b.Kept)
	}
	b.Abandoned = append(append(b.Abandoned, b.Kept[n:]...), l)
	b.Kept = b.Kept[:n:n]
}

// mostIterations is more than any run makes.
const mostIterations = 1 << 40

// possible is an error where the line cannot be of a run.
func (l Line) possible() error {
	if l.Iteration < 0 || l.Iteration > mostIterations {
		return fmt.Errorf("iteration %d is none of a run", l.Iteration)
	}
	return nil
}

// AddText takes the next line as it stands in the file.
func (b *Book) AddText(text []byte) error {
	var l Line
	if err := json.Unmarshal(text, &l); err != nil {
		return err
	}
	if err := l.possible(); err != nil {
		return err
	}
	b.Add(l)
	return nil
}

// Read reads a ledger's lines: those that count, and those that rollbacks abandoned. A
// folder without a ledger has none.
func Read(path string) (kept, abandoned []Line, err error) {
	var b Book
	err = folder.ReadLines(path, b.AddText)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return b.Kept, b.Abandoned, err
}
