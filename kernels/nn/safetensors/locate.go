package safetensors

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Locate finds a file or folder that a stranger's file names, and refuses what does
// not lie in folder after symbolic links are followed. One exception: the hub's
// cache keeps snapshots/REVISION/name as a link to blobs/HASH beside snapshots.
// name has forward slashes.
func Locate(folder, name string) (string, error) {
	outside := &Error{Path: folder, Problem: fmt.Sprintf("it names %q, outside itself", shorten(name)),
		Hint: "a model may name only what lies in its folder; do not trust this download"}
	if strings.ContainsAny(name, "\\:\x00") || !filepath.IsLocal(filepath.FromSlash(name)) {
		return "", outside
	}
	root, err := realPath(folder)
	if err != nil {
		return "", err
	}
	real, err := realPath(filepath.Join(folder, filepath.FromSlash(name)))
	if err != nil {
		return "", err
	}
	if within(root, real) {
		return real, nil
	}
	if blobs := hubBlobs(root); blobs != "" && within(blobs, real) {
		return real, nil
	}
	return "", &Error{Path: folder, Problem: fmt.Sprintf("%q is a link to a place outside this folder", shorten(name)),
		Hint: "put the file itself into the folder, or name the file instead of the folder"}
}

func realPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

func within(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

// hubBlobs is X/blobs for a folder in X/snapshots/REVISION. It is compared with
// paths whose links were followed, so a link in its place leads nowhere.
func hubBlobs(folder string) string {
	for dir := folder; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if up := filepath.Dir(dir); filepath.Base(up) == "snapshots" {
			return filepath.Join(filepath.Dir(up), "blobs")
		}
	}
	return ""
}
