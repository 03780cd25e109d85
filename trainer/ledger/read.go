package ledger

import (
	"encoding/json"
	"errors"
	"io/fs"
	"slices"

	"github.com/darkroom-rl/darkroom/trainer/folder"
)

// Rollback is how a ledger's line says that what stands between the iteration gone back to and
// itself was abandoned.
type Rollback struct {
	From    int     `json:"from"` // the last iteration that was abandoned
	To      int     `json:"to"`   // and the last that was kept
	Attempt int     `json:"attempt"`
	LRScale float64 `json:"lr_scale"` // from now on
	Why     string  `json:"why"`
}

// Read reads a ledger's lines: those that count, and those that rollbacks abandoned. A
// folder without a ledger has none.
func Read(path string) (kept, abandoned []Line, err error) {
	err = folder.ReadLines(path, func(text []byte) error {
		var l Line
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
		if l.Rollback == nil {
			kept = append(kept, l)
			return nil
		}
		n := slices.IndexFunc(kept, func(k Line) bool { return k.Iteration > l.Rollback.To })
		if n < 0 {
			n = len(kept)
		}
		abandoned = append(append(abandoned, kept[n:]...), l)
		kept = kept[:n]
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return kept, abandoned, err
}
