package track

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/record/folder"
)

// stateFile lies in the target's folder and says how far the run was read into it.
const stateFile = "darkroom.json"

// state is the file's content.
type state struct {
	As      string  `json:"as"`
	Names   string  `json:"names"`
	Project string  `json:"project"`
	Run     string  `json:"run"`
	ID      string  `json:"id"`
	Began   float64 `json:"began"`
	Mark    Mark    `json:"mark"`
	Bytes   int64   `json:"bytes,omitempty"`   // of the file that is appended to
	Records int64   `json:"records,omitempty"` // in it, where they are numbered
}

// readState is nil where nothing was exported yet.
func readState(dir string) (*state, error) {
	path := filepath.Join(dir, stateFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var s state
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("%s: %w\nhint: delete the folder, and export again", path, err)
	}
	return &s, nil
}

func (s *state) write(dir string) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return folder.WriteFile(filepath.Join(dir, stateFile), append(text, '\n'))
}

// growing is a file that is appended to, and whose length is part of the state.
type growing struct {
	dir   string
	state state
	file  *os.File
	end   int64
}

// openGrowing opens a file of a target, cut back to the last commit.
func openGrowing(dir, name string, s state) (*growing, error) {
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() < s.Bytes {
		err = fmt.Errorf("%s has %d bytes, and had %d when it was exported to last: it was cut off since\nhint: delete %s, and export again", path, info.Size(), s.Bytes, dir)
	}
	if err == nil {
		err = f.Truncate(s.Bytes)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &growing{dir: dir, state: s, file: f, end: s.Bytes}, nil
}

func (g *growing) Write(p []byte) (int, error) {
	n, err := g.file.WriteAt(p, g.end)
	g.end += int64(n)
	return n, err
}

// commit makes the last writes permanent.
func (g *growing) commit(m Mark) error {
	if err := g.file.Sync(); err != nil {
		return err
	}
	g.state.Mark, g.state.Bytes = m, g.end
	return g.state.write(g.dir)
}

func (g *growing) Close() error { return g.file.Close() }
