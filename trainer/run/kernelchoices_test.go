package run

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/trainer/folder"
)

// choosing is a backend that chose.
type choosing struct {
	kernels.Backend
	record string
	news   []string
	took   string
	err    error
}

func (c *choosing) Choices() ([]byte, []string, error) {
	news := c.news
	c.news = nil
	if c.record == "" {
		return nil, news, nil
	}
	return []byte(c.record), news, nil
}

func (c *choosing) Choose(record []byte) error {
	c.took = string(record)
	return c.err
}

// TestProducts: what a backend chose is in the folder when a checkpoint is, and is taken up again or refused.
func TestProducts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	var said []string
	with := func(b kernels.Backend, f func(*training) error) error {
		t.Helper()
		held, err := folder.Open(dir, false)
		if err != nil {
			t.Fatal(err)
		}
		defer held.Close()
		return f(&training{files: files{folder: held}, Options: Options{Backend: b, Say: func(format string, _ ...any) { said = append(said, format) }}})
	}
	file := filepath.Join(dir, ProductsFile)
	exact := &choosing{}
	if err := with(exact, func(t *training) error { return errors.Join(t.goOnWithKernels(), t.keepChoices()) }); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a file without choices")
	}
	a := &choosing{record: "one\n", news: []string{"a shape is our own"}}
	if err := with(a, func(tr *training) error {
		if err := errors.Join(tr.goOnWithKernels(), tr.keepChoices()); err != nil || a.took != "" {
			t.Errorf("a new run took %q: %v", a.took, err)
		}
		if err := os.Remove(file); err != nil {
			t.Error(err)
		}
		if err := tr.keepChoices(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(file); err == nil {
			t.Error("unchanged choices were written again")
		}
		a.record = "one two\n"
		return tr.keepChoices()
	}); err != nil {
		t.Fatal(err)
	}
	if len(said) != 1 {
		t.Errorf("said %q", said)
	}
	b := &choosing{}
	if err := with(b, (*training).goOnWithKernels); err != nil || b.took != "one two\n" {
		t.Errorf("took %q: %v", b.took, err)
	}
	b.err = errors.New("another version")
	if err := with(b, (*training).goOnWithKernels); !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "another version") || !strings.Contains(err.Error(), ProductsFile) {
		t.Errorf("%v", err)
	}
	if err := with(struct{ kernels.Backend }{}, (*training).goOnWithKernels); err != nil || len(said) != 2 || !strings.Contains(said[1], "other bits") {
		t.Errorf("said %q: %v", said, err)
	}
}
