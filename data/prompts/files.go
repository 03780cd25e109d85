package prompts

import (
	"path/filepath"
	"slices"
)

// Files are those that a prompt's pictures are read from: those of meta.picture and of image, and those that are
// learned from. dir is the folder that names begin in. Drawn pictures have none; a name that no file may have is left
// out, since opening it says why.
func (p Prompt) Files(dir string) []string {
	all := slices.Clone(p.Learned)
	beside, err := p.pictures()
	if err != nil {
		beside = nil
	}
	for _, name := range slices.Concat(beside, p.Sources()) {
		if isDrawn(name) {
			continue
		}
		if at, embedded, err := placeOf(name); err != nil {
			continue
		} else if embedded {
			name = at.file
		}
		if name = filepath.FromSlash(name); filepath.IsLocal(name) {
			all = append(all, filepath.Join(dir, name))
		}
	}
	return all
}
