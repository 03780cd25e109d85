package watch

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/record/folder"
)

// mostDeep is how far below a given folder runs are looked for: a grid of an ablation has its runs two levels below
// the folder of all.
const mostDeep = 3

// find lists the folders of runs at or below some paths, in order, each once.
func find(paths []string) []string {
	var all []string
	seen := map[string]bool{}
	var look func(dir string, deep int)
	look = func(dir string, deep int) {
		if _, err := os.Lstat(filepath.Join(dir, folder.Config)); err == nil {
			if id := identity(dir); !seen[id] {
				seen[id] = true
				all = append(all, dir)
			}
			return
		}
		if deep == 0 {
			return
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return // it is not there yet, or not to be read
		}
		for _, e := range entries {
			if e.IsDir() && e.Name()[0] != '.' {
				look(filepath.Join(dir, e.Name()), deep-1)
			}
		}
	}
	for _, p := range paths {
		look(p, mostDeep)
	}
	return all
}

// identity names a folder in addresses: nothing of its path can be read from it, or written into it.
func identity(dir string) string {
	if whole, err := filepath.Abs(dir); err == nil {
		dir = whole
	}
	sum := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(sum[:6])
}
