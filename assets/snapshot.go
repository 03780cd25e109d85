package assets

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The hub's own programs keep a repository in their cache as
//
//	models--OWNER--NAME/refs/main               the commit that a branch or tag was at
//	models--OWNER--NAME/snapshots/COMMIT/...    links to blobs beside it
//
// A path of the outer folder means its main branch, or its only snapshot.

// snapshot is the folder with the files, for a path in such a cache; else the path itself.
func snapshot(path string) (string, error) {
	all := filepath.Join(path, "snapshots")
	entries, err := os.ReadDir(all)
	if err != nil {
		return path, nil
	}
	if main, err := os.ReadFile(filepath.Join(path, "refs", "main")); err == nil {
		commit := strings.TrimSpace(string(main))
		if info, err := os.Stat(filepath.Join(all, commit)); err == nil && info.IsDir() && filepath.IsLocal(commit) {
			return filepath.Join(all, commit), nil
		}
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	switch len(names) {
	case 0:
		return "", fmt.Errorf("%s: it holds no snapshot: the download was not finished", path)
	case 1:
		return filepath.Join(all, names[0]), nil
	}
	return "", fmt.Errorf("%s: it holds %d snapshots, and refs/main names none of them\nhint: name one, such as %s", path, len(names), filepath.Join(all, names[0]))
}
