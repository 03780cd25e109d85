package pipeline

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/nn/edition"
)

// Changed writes a copy of a pipeline's folder to out, with other weights of the denoiser; where two networks take
// turns, of each that has a change.
func Changed(dir, out string, changes ...edition.Change) error {
	f, err := readFolder(dir)
	if err != nil {
		return err
	}
	a, err := f.architecture(Options{})
	if err != nil {
		return err
	}
	return edition.Make(dir, out, func(c edition.Copy) error {
		if err := c.Settings("."); err != nil {
			return err
		}
		for name := range f.parts {
			i := slices.Index(a.network.parts, name)
			changed := i >= 0 && i < len(changes) && changes[i] != nil
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil && !changed {
				continue // a part that nobody fetched is missing in the copy, too
			}
			if _, err := f.part(name); err != nil {
				return err
			}
			write := c.Part
			if changed {
				write = func(below string) error { return c.Changed(below, changes[i]) }
			}
			if err := write(name); err != nil {
				return err
			}
		}
		return nil
	})
}
