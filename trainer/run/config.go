package run

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/folder"
)

// ErrChanged says that the folder's run was begun with other settings.
var ErrChanged = errors.New("the run was begun with other settings")

// checkConfig: where a run was begun, nothing that it depends on may have changed.
func (t *training) checkConfig() error {
	old, err := os.ReadFile(t.files.folder.Path(folder.Config))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	before, err := experiment.Parse(t.files.folder.Path(folder.Config), old, nil)
	if err != nil {
		return err
	}
	if list := experiment.Changes(before, t.Experiment); len(list) > 0 {
		return fmt.Errorf("%s: %w:\n  %s\nhint: --out names another folder for them; --restart begins anew with them, and keeps the run beside", t.files.folder.Dir, ErrChanged, strings.Join(list, "\n  "))
	}
	return nil
}

// keepConfig writes the resolved experiment.
func (t *training) keepConfig() error {
	var text bytes.Buffer
	if err := t.Write(&text); err != nil {
		return err
	}
	return t.files.folder.Write(folder.Config, text.Bytes())
}
