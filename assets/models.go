package assets

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
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

// Resolve is the folder that a path means: an embedded model's, a snapshot in the hub's cache (by its path there, or by
// OWNER/NAME), or the path itself. "~/" is the user's home.
func Resolve(path string) (string, error) {
	if !strings.HasPrefix(path, Prefix) {
		return snapshot(cached(AtHome(path)))
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
	dir := filepath.Join(root, base+"-"+m.digest)
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

// borrowed are parts that a model has from another one: stored once, and laid into the folders of both.
var borrowed = []struct{ model, part, of string }{
	{"tiny-kontext", "vae", "tiny-sd3/vae"},
	{"tiny-wan-64-noisy", "vae", "tiny-wan-64/vae"},
}

// A model is the files of an embedded folder, in order. Those whose names end in .gz are compressed, where weights are
// mostly zeros or many; nothing of it may be written to.
type model []file

type file struct {
	name string // below the model's folder, with slashes
	data []byte
}

// A summed model is one with its digest.
type summed struct {
	model
	digest string
}

// unpacked are the models that were asked for, by name: each is unpacked and summed once in a program.
var unpacked sync.Map // of func() (summed, error)

// modelNamed returns the model of a folder's name, with the files that it borrows.
func modelNamed(base string) (summed, error) {
	if base == "" || base == "." || strings.ContainsAny(base, `/\`) {
		return summed{}, fs.ErrNotExist
	}
	read, _ := unpacked.LoadOrStore(base, sync.OnceValues(func() (summed, error) {
		m, err := readModel(base)
		return summed{m, m.sum()}, err
	}))
	return read.(func() (summed, error))()
}

func readModel(base string) (model, error) {
	m, err := filesBelow(models, base, "")
	for _, b := range borrowed {
		if b.model == base && err == nil {
			var more model
			more, err = filesBelow(models, b.of, b.part)
			m = append(m, more...)
		}
	}
	if err != nil {
		return nil, err
	}
	return m.opened()
}

// filesBelow are the files of a folder, under another one's name.
func filesBelow(tree fs.FS, dir, under string) (m model, err error) {
	err = fs.WalkDir(tree, dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is no file", name)
		}
		data, err := fs.ReadFile(tree, name)
		if err == nil {
			m = append(m, file{path.Join(under, strings.TrimPrefix(name, dir+"/")), data})
		}
		return err
	})
	return m, err
}

// opened are files of which those that were compressed are as they were before.
func (m model) opened() (model, error) {
	for i, f := range m {
		name, ok := strings.CutSuffix(f.name, ".gz")
		if !ok {
			continue
		}
		from, err := gzip.NewReader(bytes.NewReader(f.data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		data, err := io.ReadAll(from)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		m[i] = file{name, data}
	}
	return m, nil
}

// sum is the digest of all names and contents.
func (m model) sum() string {
	h := sha256.New()
	for _, f := range m {
		fmt.Fprintf(h, "%s %d\n", f.name, len(f.data))
		h.Write(f.data)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// same reports whether a folder holds the model's files, byte for byte, and nothing else: a file more
// could be read in the place of another.
func (m model) same(dir string) bool {
	there, err := filesBelow(os.DirFS(dir), ".", "")
	if err != nil || len(there) != len(m) {
		return false
	}
	found := map[string][]byte{}
	for _, f := range there {
		found[f.name] = f.data
	}
	for _, f := range m {
		if data, ok := found[f.name]; !ok || !bytes.Equal(data, f.data) {
			return false
		}
	}
	return true
}

// write writes the files beside the folder, and then puts them in its place, so that nobody sees a part
// of them. Of several who do so at once one wins, and all have written the same.
func (m model) write(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	next, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(next)
	err = os.Chmod(next, 0o755)
	for _, f := range m {
		to := filepath.Join(next, filepath.FromSlash(f.name))
		if err == nil {
			err = errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, f.data, 0o644))
		}
	}
	if err == nil {
		err = os.RemoveAll(dir)
	}
	if err != nil {
		return err
	}
	if err := os.Rename(next, dir); err != nil && !m.same(dir) {
		return err
	}
	return nil
}

// The hub's own programs keep a repository in their cache as
//
//	models--OWNER--NAME/refs/main               the commit that a branch or tag was at
//	models--OWNER--NAME/snapshots/COMMIT/...    links to blobs beside it
//
// A path of the outer folder, or OWNER/NAME, means its main branch, or its only snapshot.

// repository is a name OWNER/NAME on the hub.
var repository = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$`)

// Fetching is the hint where no folder is at a path: the command that fetches it from its hub.
func Fetching(path string) string {
	if p, ok := PublishedAt(path); ok {
		return fmt.Sprintf("'%s' fetches it", p.Fetch(path))
	}
	if repository.MatchString(path) && !strings.HasPrefix(path, "models/") {
		return fmt.Sprintf("'darkroom pull %s' fetches it into models/%s, which is its path then", path, filepath.Base(path))
	}
	return "models are read from the disk; 'darkroom pull OWNER/NAME' fetches one from its hub"
}

// HubCache is the folder in which the hub's own programs keep repositories; "" where the user has no home.
func HubCache() string {
	if dir := os.Getenv("HF_HUB_CACHE"); dir != "" {
		return dir
	}
	if dir := os.Getenv("HF_HOME"); dir != "" {
		return filepath.Join(dir, "hub")
	}
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(dir, "huggingface", "hub")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".cache", "huggingface", "hub")
}

// cached is the hub's folder of a repository OWNER/NAME that no folder here is called like; else the path itself.
func cached(path string) string {
	if !repository.MatchString(path) {
		return path
	}
	if _, err := os.Stat(path); err == nil {
		return path
	}
	dir := filepath.Join(HubCache(), "models--"+strings.ReplaceAll(path, "/", "--"))
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return path
	}
	return dir
}

// AtHome is a path whose "~/" is the user's home.
func AtHome(path string) string {
	rest, ok := strings.CutPrefix(path, "~/")
	if home, err := os.UserHomeDir(); ok && err == nil {
		return filepath.Join(home, rest)
	}
	return path
}

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
