package pipeline

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Merge writes a copy of a pipeline's folder to out, with an adapter folded into the
// denoiser. Weights keep their types, names and files; a file at a time is in memory. out
// must not exist: it is made under another name, and renamed when it is whole.
func Merge(dir, adapter, out string, pool *tensor.Pool) (layers int, err error) {
	f, err := readFolder(dir)
	if err != nil {
		return 0, err
	}
	open, err := f.family()
	if err != nil {
		return 0, err
	}
	fam, err := open(f, Options{})
	if err != nil {
		return 0, err
	}
	if _, err := os.Stat(out); err == nil {
		return 0, fmt.Errorf("%s: it exists already; name a folder that does not", out)
	}
	a, err := peft.Open(adapter, fam.component)
	if err != nil {
		return 0, err
	}
	defer a.Close()
	part := out + ".part"
	if err := os.Mkdir(part, 0o755); err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(part))
		}
	}()
	m := merger{f, a, pool, part}
	if err := m.copyFiles(".", func(name string) bool { return !isWeights(name) }); err != nil {
		return 0, err
	}
	for name := range f.parts {
		_, absent := os.Stat(filepath.Join(dir, name))
		switch {
		case name == fam.component:
			err = m.merge(name)
		case absent == nil: // a part that nobody fetched is missing in the copy, too
			err = m.copyPart(name)
		}
		if err != nil {
			return 0, err
		}
	}
	return len(a.Modules()), os.Rename(part, out)
}

// merger is a folder that is being copied.
type merger struct {
	*folder
	adapter *peft.Adapter
	pool    *tensor.Pool
	to      string
}

// isWeights reports whether a file holds weights, or says which files do.
func isWeights(name string) bool {
	return slices.Contains([]string{".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".msgpack", ".gguf", ".onnx"}, filepath.Ext(name)) || strings.HasSuffix(name, ".index.json")
}

// copyFiles copies the files of a folder below the pipeline's that are wanted.
func (m merger) copyFiles(below string, want func(name string) bool) error {
	entries, err := os.ReadDir(filepath.Join(m.dir, below))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(m.to, below), 0o755); err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || !want(e.Name()) {
			continue
		}
		real, err := safetensors.Locate(m.dir, filepath.ToSlash(filepath.Join(below, e.Name())))
		if err != nil {
			return err
		}
		if info, err := os.Stat(real); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if err := copyFile(filepath.Join(m.to, below, e.Name()), real); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(to, from string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// copyPart copies a part, of its weights those that would be loaded.
func (m merger) copyPart(name string) error {
	dir, err := m.part(name)
	if err != nil {
		return err
	}
	used := map[string]bool{}
	set, err := safetensors.OpenFolder(dir)
	switch {
	case err == nil:
		for _, file := range set.Files {
			used[filepath.Base(file.Path)] = true
		}
		used[filepath.Base(set.Index)] = set.Index != ""
		if err := set.Close(); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist): // schedulers and tokenizers have none
		return err
	}
	return m.copyFiles(name, func(file string) bool { return !isWeights(file) || used[file] })
}

// merge writes the denoiser's files anew.
func (m merger) merge(name string) error {
	dir, err := m.part(name)
	if err != nil {
		return err
	}
	set, err := safetensors.OpenFolder(dir)
	if err != nil {
		return err
	}
	defer set.Close()
	if err := m.copyFiles(name, func(file string) bool {
		return !isWeights(file) || set.Index != "" && file == filepath.Base(set.Index)
	}); err != nil {
		return err
	}
	left := m.adapter.Modules()
	for _, file := range set.Files {
		var tensors []safetensors.Tensor
		for _, info := range file.Tensors {
			t, err := file.Tensor(info.Name)
			if err != nil {
				return err
			}
			if module := strings.TrimSuffix(t.Name, ".weight"); module != t.Name && slices.Contains(left, module) {
				left = slices.DeleteFunc(left, func(s string) bool { return s == module })
				if t, err = m.adapter.Merged(m.pool, t, module); err != nil {
					return fmt.Errorf("%s: %w", file.Path, err)
				}
			}
			tensors = append(tensors, t)
		}
		if err := safetensors.Write(filepath.Join(m.to, name, filepath.Base(file.Path)), tensors, file.Metadata); err != nil {
			return err
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("%s: the adapter has %s, and the model has no such layer", dir, left[0])
	}
	return nil
}
