package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Own reports entries of a run's folder that are neither files nor folders: a link, whose target would be read, cut or
// written over when a stranger's run is opened, or a pipe, on which a reader would wait. The folder itself may be
// reached by a link.
func Own(dir string) error {
	for _, below := range []string{".", "images", "checkpoints"} {
		if err := own(filepath.Join(dir, below)); err != nil {
			return err
		}
	}
	all, err := os.ReadDir(filepath.Join(dir, "checkpoints"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, c := range all {
		if c.IsDir() && err == nil {
			err = own(filepath.Join(dir, "checkpoints", c.Name()))
		}
	}
	return err
}

// own is Own of one level; a folder that is not there has nothing foreign.
func own(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() && !e.Type().IsRegular() {
			return fmt.Errorf("%s is %s: a run's folder holds files and folders alone, so that nothing beside it is read or overwritten\n"+
				"hint: replace it by the file or folder itself", filepath.Join(dir, e.Name()), kindOf(e.Type()))
		}
	}
	return nil
}

// kindOf names the kind of an entry that is neither a file nor a folder.
func kindOf(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return "a link"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	}
	return "not a file"
}
