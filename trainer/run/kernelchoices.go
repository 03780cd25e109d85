package run

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ProductsFile says what computes a run's products, where the backend had a choice: a library's
// algorithms, each with bits of its own. A run goes on with those that it was begun with, or not.
const ProductsFile = "products.json"

// chooser is a backend that chooses, as it goes, among kernels whose bits differ.
type chooser interface {
	// Choices is a record of what was chosen so far, nil where nothing is; news are sentences for people.
	Choices() (record []byte, news []string, err error)
	// Choose takes a record's choices, before anything is computed.
	Choose(record []byte) error
}

// goOnWithKernels takes the choices of the run that goes on.
func (t *training) goOnWithKernels() error {
	path := t.files.folder.Path(ProductsFile)
	record, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	c, ok := t.Backend.(chooser)
	if !ok {
		t.Say("note: the run was begun on a device (%s); it goes on with other bits here", path)
		return nil
	}
	if err := c.Choose(record); err != nil {
		return fmt.Errorf("%s: %w: %w\nhint: without that file the run goes on, with other bits from the last checkpoint on", path, ErrChanged, err)
	}
	return nil
}

// keepChoices writes what was chosen, no later than the checkpoint that rests on it. It is the folder's,
// not the checkpoint's: a choice is a function of a product's shape, and stays when a run rolls back.
func (t *training) keepChoices() error {
	c, ok := t.Backend.(chooser)
	if !ok {
		return nil
	}
	record, news, err := c.Choices()
	for _, s := range news {
		t.Say("note: %s", s)
	}
	if err != nil || record == nil || bytes.Equal(record, t.files.kernels) {
		return err
	}
	if err := t.files.folder.Write(ProductsFile, record); err != nil {
		return err
	}
	t.files.kernels = record
	return nil
}
