package edition

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn/quant"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// A Change says which stored tensors become others.
type Change interface {
	// Names are of the stored tensors that change. The folder must have each.
	Names() []string
	// Of is the replacement of one.
	Of(stored safetensors.Tensor) (safetensors.Tensor, error)
}

// A Counter is a Change that is told of each matrix that was compressed: the sums of squares of the change, and of its
// part that rounding loses.
type Counter interface{ Rounded(changed, lost float64) }

// Values puts other numbers in the place of stored ones. They are rounded once to the type that the folder has, or
// with Wide stay as they are.
type Values struct {
	Source
	Wide bool
}

// Source is where the numbers are.
type Source interface {
	Names() []string
	Tensor(name string) (safetensors.Tensor, error)
}

// Of implements Change.
func (v Values) Of(stored safetensors.Tensor) (safetensors.Tensor, error) {
	t, err := v.Tensor(stored.Name)
	if err != nil {
		return stored, err
	}
	if !slices.Equal(t.Shape, stored.Shape) {
		return stored, fmt.Errorf("%s: its new shape is %v, and the folder's %v", stored.Name, t.Shape, stored.Shape)
	}
	if v.Wide || t.DType == stored.DType {
		return t, nil
	}
	x, err := t.Float32(nil)
	if err != nil {
		return stored, err
	}
	return safetensors.FromFloat32(stored.Name, stored.DType, stored.Shape, x)
}

// Over is a source with some tensors of another in the place of its own.
func Over(base, other Source) Source { return overlay{base, other, other.Names()} }

type overlay struct {
	Source
	other Source
	names []string
}

// Drop lets a stored tensor's pages go.
func (o overlay) Drop(name string) {
	if s, ok := o.Source.(interface{ Drop(string) }); ok {
		s.Drop(name)
	}
}

// Where says where a stored tensor lies, for messages.
func (o overlay) Where(name string) string {
	if s, ok := o.Source.(interface{ Where(string) string }); ok {
		return s.Where(name)
	}
	return ""
}

func (o overlay) Tensor(name string) (safetensors.Tensor, error) {
	if slices.Contains(o.names, name) {
		return o.other.Tensor(name)
	}
	return o.Source.Tensor(name)
}

// A Copy is a folder that is being copied. Nothing outside of From is read, but for where the hub's cache puts files.
type Copy struct{ From, To string }

// Make makes out by write, under another name until it is whole. out must not exist.
func Make(from, out string, write func(Copy) error) (err error) {
	if _, err := os.Stat(out); err == nil {
		return fmt.Errorf("%s: it exists already; name a folder that does not", out)
	}
	part := out + ".part"
	if err := os.Mkdir(part, 0o755); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(part))
		}
	}()
	if err := write(Copy{From: from, To: part}); err != nil {
		return err
	}
	return os.Rename(part, out)
}

// Settings copies a folder's files that hold no weights.
func (c Copy) Settings(below string) error {
	return c.files(below, func(name string) bool { return !isWeights(name) })
}

// Part copies a folder, of its weights those that would be loaded.
func (c Copy) Part(below string) error {
	used := map[string]bool{}
	set, err := safetensors.OpenFolder(filepath.Join(c.From, below))
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
	return c.files(below, func(file string) bool { return !isWeights(file) || used[file] })
}

// Changed copies a folder with other weights. Where they are compressed, the copy is plain: see unpacked.
func (c Copy) Changed(below string, change Change) error {
	set, err := safetensors.OpenFolder(filepath.Join(c.From, below))
	if err != nil {
		return err
	}
	defer set.Close()
	plain, err := quant.Expand(set, set.Metadata)
	if err != nil {
		return err
	}
	if e, ok := plain.(*quant.Expanded); ok {
		return c.unpacked(below, set, e, change)
	}
	if err := c.files(below, func(file string) bool {
		return !isWeights(file) || set.Index != "" && file == filepath.Base(set.Index)
	}); err != nil {
		return err
	}
	left := slices.Clone(change.Names())
	for _, file := range set.Files {
		var tensors []safetensors.Tensor
		for _, info := range file.Tensors {
			t, err := file.Tensor(info.Name)
			if err != nil {
				return err
			}
			if i := slices.Index(left, t.Name); i >= 0 {
				left = slices.Delete(left, i, i+1)
				if t, err = change.Of(t); err != nil {
					return fmt.Errorf("%s: %w", file.Path, err)
				}
			}
			tensors = append(tensors, t)
		}
		if err := safetensors.Write(filepath.Join(c.To, below, filepath.Base(file.Path)), tensors, file.Metadata); err != nil {
			return err
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("%s: the model has no such layer: %s\nhint: name the folder of the model that was trained", filepath.Join(c.From, below), left[0])
	}
	return nil
}

// isWeights reports whether a file holds weights, or says which files do.
func isWeights(name string) bool {
	return slices.Contains([]string{".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".msgpack", ".gguf", ".onnx"}, filepath.Ext(name)) || strings.HasSuffix(name, ".index.json")
}

// files copies the files of a folder that are wanted.
func (c Copy) files(below string, want func(name string) bool) error {
	entries, err := os.ReadDir(filepath.Join(c.From, below))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(c.To, below), 0o755); err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || !want(e.Name()) {
			continue
		}
		real, err := safetensors.Locate(c.From, filepath.ToSlash(filepath.Join(below, e.Name())))
		if err != nil {
			return err
		}
		if info, err := os.Stat(real); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if err := copyFile(filepath.Join(c.To, below, e.Name()), real); err != nil {
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

// Header is a compressed tensor's.
func (o overlay) Header(name string) (h quant.Header, ok bool, err error) {
	if at, coded := o.Source.(quant.Coded); coded && !slices.Contains(o.names, name) {
		return at.Header(name)
	}
	return h, false, nil
}

// Codes are a compressed tensor's.
func (o overlay) Codes(name string) (c quant.Codes, d safetensors.DType, ok bool, err error) {
	if at, coded := o.Source.(quant.Coded); coded && !slices.Contains(o.names, name) {
		return at.Codes(name)
	}
	return c, d, false, nil
}
