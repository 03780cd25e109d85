package assets

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Prefix begins the name of an embedded model where a folder's path is asked for.
const Prefix = "embed:"

// Names are the embedded models, as they are asked for.
func Names() []string {
	var names []string
	entries, err := fs.ReadDir(models, ".")
	if err != nil {
		panic(err) // an embedded folder can be read
	}
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), "tiny-") {
			names = append(names, Prefix+e.Name())
		}
	}
	return names
}

// Resolve is the folder that a path means: an embedded model's, a snapshot in the hub's cache, or the
// path itself.
func Resolve(path string) (string, error) {
	if !strings.HasPrefix(path, Prefix) {
		return snapshot(path)
	}
	root, err := os.UserCacheDir()
	if err != nil {
		if root, err = private(os.TempDir()); err != nil {
			return "", err
		}
		return Folder(path, root)
	}
	return Folder(path, filepath.Join(root, "darkroom"))
}

// Folder writes an embedded model below root, unless it is there, and returns its folder.
func Folder(name, root string) (string, error) {
	base := strings.TrimPrefix(name, Prefix)
	m, err := modelNamed(base)
	if err != nil {
		return "", fmt.Errorf("no model %q is embedded; there are %s", name, strings.Join(Names(), ", "))
	}
	dir := filepath.Join(root, base+"-"+m.digest())
	if m.same(dir) {
		return dir, nil
	}
	if err := m.write(dir); err != nil {
		return "", fmt.Errorf("writing the embedded model %s below %s: %w\nhint: the folder of caches must be writable; XDG_CACHE_HOME names another", name, root, err)
	}
	return dir, nil
}

// private is a folder of ours below one that everybody may write to. One that somebody else made, or
// may write to, could hold another model by the next time it is read.
func private(shared string) (string, error) {
	dir := filepath.Join(shared, fmt.Sprintf("darkroom-%d", os.Getuid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if !info.IsDir() || !ours(info) {
		return "", fmt.Errorf("%s is not a folder of this user alone, so no model is kept there\nhint: set HOME, or XDG_CACHE_HOME to a folder of yours", dir)
	}
	return dir, nil
}

//go:embed configs
var configs embed.FS

// Quickstart is the experiment that train runs when no file is named.
const Quickstart = "quickstart"

// Configs are the names of the embedded experiments.
func Configs() []string { return tomlIn(configs, "configs") }

// Config is the text of an embedded experiment.
func Config(name string) ([]byte, error) { return tomlOf(configs, "configs", "experiment", name) }

//go:embed recipes
var recipes embed.FS

// Recipes are the names of the published experiments for folders that people have.
func Recipes() []string { return tomlIn(recipes, "recipes") }

// Recipe is the text of one of them.
func Recipe(name string) ([]byte, error) { return tomlOf(recipes, "recipes", "recipe", name) }

// PublishedRecipes are files NAME.toml with the numbers of each recipe's source.
func PublishedRecipes() fs.FS {
	tree, err := fs.Sub(recipes, "recipes/published")
	if err != nil {
		panic(err) // an embedded folder can be read
	}
	return tree
}

// tomlIn are the names of the files of a folder.
func tomlIn(tree embed.FS, dir string) []string {
	var names []string
	entries, err := tree.ReadDir(dir)
	if err != nil {
		panic(err) // an embedded folder can be read
	}
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, strings.TrimSuffix(e.Name(), ".toml"))
		}
	}
	return names
}

// tomlOf is the text of a file.
func tomlOf(tree embed.FS, dir, what, name string) ([]byte, error) {
	text, err := tree.ReadFile(dir + "/" + name + ".toml")
	if err != nil {
		return nil, fmt.Errorf("no %s %q is embedded; there are %s", what, name, strings.Join(tomlIn(tree, dir), ", "))
	}
	return text, nil
}
