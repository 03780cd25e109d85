package run

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/record/folder"
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

// TestProducts: a backend's choices are in the folder when a checkpoint is, and are used again or refused.
func TestProducts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	var said []string
	with := func(b kernels.Backend, f func(*checkpoints, kernels.Backend) error) error {
		t.Helper()
		held, err := folder.Open(dir, false)
		if err != nil {
			t.Fatal(err)
		}
		defer held.Close()
		return f(&checkpoints{folder: held, say: func(format string, _ ...any) { said = append(said, format) }}, b)
	}
	file := filepath.Join(dir, ProductsFile)
	exact := &choosing{}
	if err := with(exact, func(c *checkpoints, b kernels.Backend) error {
		return errors.Join(c.useProducts(b), c.writeProducts(b))
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a file without choices")
	}
	a := &choosing{record: "one\n", news: []string{"a shape is our own"}}
	if err := with(a, func(c *checkpoints, b kernels.Backend) error {
		if err := errors.Join(c.useProducts(b), c.writeProducts(b)); err != nil || a.took != "" {
			t.Errorf("a new run took %q: %v", a.took, err)
		}
		if err := os.Remove(file); err != nil {
			t.Error(err)
		}
		if err := c.writeProducts(b); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(file); err == nil {
			t.Error("unchanged choices were written again")
		}
		a.record = "one two\n"
		return c.writeProducts(b)
	}); err != nil {
		t.Fatal(err)
	}
	if len(said) != 1 {
		t.Errorf("said %q", said)
	}
	b := &choosing{}
	if err := with(b, (*checkpoints).useProducts); err != nil || b.took != "one two\n" {
		t.Errorf("took %q: %v", b.took, err)
	}
	b.err = errors.New("another version")
	if err := with(b, (*checkpoints).useProducts); !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "another version") || !strings.Contains(err.Error(), ProductsFile) {
		t.Errorf("%v", err)
	}
	if err := with(struct{ kernels.Backend }{}, (*checkpoints).useProducts); err != nil || len(said) != 2 || !strings.Contains(said[1], "other bits") {
		t.Errorf("said %q: %v", said, err)
	}
}
