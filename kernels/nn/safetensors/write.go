package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"unicode/utf8"
)

// Write writes a file at once or not at all: aside in the same folder, synced,
// renamed. metadata may be nil. The bytes are those of the reference library:
// tensors sorted by alignment, then by name, the header padded to 8 bytes; it
// does not sort metadata, which is sorted here.
func Write(path string, tensors []Tensor, metadata map[string]string) error {
	seen := map[string]bool{}
	for _, t := range tensors {
		if err := t.check(seen); err != nil {
			return in(path, err)
		}
	}
	header, order, err := encode(tensors, metadata)
	if err != nil {
		return in(path, err)
	}
	return writeAtomic(path, func(w io.Writer) error {
		if _, err := w.Write(header); err != nil {
			return err
		}
		to := &Sink{w: w}
		for _, t := range order {
			if err := t.fill(to); err != nil {
				return in(path, err)
			}
		}
		return nil
	})
}

// Put writes bytes of a shard's i-th tensor at a place of its data. Several may be written side by side.
type Put func(i int, at int64, data []byte) error

// writeMade is Write of tensors whose data fill writes.
func writeMade(path string, tensors []Tensor, metadata map[string]string, fill func(put Put) error) error {
	header, order, err := encode(tensors, metadata)
	if err != nil {
		return in(path, err)
	}
	begin, at := make(map[string]int64, len(order)), int64(len(header))
	for _, t := range order {
		begin[t.Name] = at
		bytes, _ := sizeOf(t.DType, t.Shape) // encode asked before
		at += bytes
	}
	return writeAtomicFile(path, func(f *os.File) error {
		if _, err := f.Write(header); err != nil {
			return err
		}
		if err := f.Truncate(at); err != nil {
			return err
		}
		return fill(func(i int, at int64, data []byte) error {
			_, err := f.WriteAt(data, begin[tensors[i].Name]+at)
			return err
		})
	})
}

// encode returns everything before the data, and the data's order.
func encode(tensors []Tensor, metadata map[string]string) ([]byte, []Tensor, error) {
	order := slices.Clone(tensors)
	slices.SortFunc(order, func(a, b Tensor) int {
		return cmp.Or(-cmp.Compare(a.DType, b.DType), cmp.Compare(a.Name, b.Name))
	})
	var text bytes.Buffer
	text.Write(make([]byte, 8)) // the length, set last
	sep := "{"
	if len(metadata) > 0 {
		m, err := compact(metadata) // keys sorted by encoding/json
		if err != nil {
			return nil, nil, err
		}
		fmt.Fprintf(&text, `{"__metadata__":%s`, m)
		sep = ","
	}
	seen := map[string]bool{}
	offset := int64(0)
	for _, t := range order {
		bytes, err := t.checkHeader(seen)
		if err != nil {
			return nil, nil, err
		}
		if offset > math.MaxInt64-bytes {
			return nil, nil, tensorProblem(t.Name, "write shards", "more data than a file can hold")
		}
		name, err := compact(t.Name)
		if err != nil {
			return nil, nil, err
		}
		dims := t.Shape
		if dims == nil {
			dims = []int{} // a scalar's shape is [], not null
		}
		shape, err := compact(dims)
		if err != nil {
			return nil, nil, err
		}
		end := offset + bytes
		fmt.Fprintf(&text, `%s%s:{"dtype":"%s","shape":%s,"data_offsets":[%d,%d]}`, sep, name, t.DType, shape, offset, end)
		sep, offset = ",", end
	}
	if sep == "{" {
		text.WriteString(sep)
	}
	text.WriteByte('}')
	for text.Len()%8 != 0 {
		text.WriteByte(' ')
	}
	n := text.Len() - 8
	if n > maxHeader {
		return nil, nil, problem("write fewer tensors into a file", "a header of %d bytes; the most allowed is %d", n, maxHeader)
	}
	binary.LittleEndian.PutUint64(text.Bytes(), uint64(n))
	return text.Bytes(), order, nil
}

const wrong = "this is a mistake in the program that writes"

// check refuses tensors that no reader would accept.
func (t Tensor) check(seen map[string]bool) error {
	want, err := t.checkHeader(seen)
	if err == nil && t.Fill == nil {
		err = t.holds(int64(len(t.Data)), want)
	}
	return err
}

// holds reports data of another length than a tensor has.
func (t Tensor) holds(bytes, want int64) error {
	if bytes != want {
		return tensorProblem(t.Name, wrong, "%d bytes of data, but %s %v needs %d", bytes, t.DType, t.Shape, want)
	}
	return nil
}

// checkHeader is check of a header's entries, and returns the number of bytes of the data.
func (t Tensor) checkHeader(seen map[string]bool) (bytes int64, err error) {
	const hint = wrong
	if int(t.DType) >= len(dtypes) {
		return 0, tensorProblem(t.Name, hint, "no such dtype: %d", t.DType)
	}
	bytes, err = sizeOf(t.DType, t.Shape)
	switch {
	case err != nil:
		return 0, tensorProblem(t.Name, hint, "%v", err)
	case len(t.Shape) > maxRank:
		return 0, tensorProblem(t.Name, hint, "%d dimensions; the most allowed is %d", len(t.Shape), maxRank)
	case t.Name == "__metadata__" || !utf8.ValidString(t.Name):
		return 0, tensorProblem(t.Name, hint, "not a name that a tensor can have")
	case seen[t.Name]:
		return 0, tensorProblem(t.Name, hint, "given twice")
	}
	seen[t.Name] = true
	return bytes, nil
}

// compact is JSON as the reference library writes it: '<' and '&' as they are.
func compact(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

// UsualShard is the size of a shard in bytes, as diffusers has it.
const UsualShard = 10e9

// WriteFolder writes tensors into a folder as the hub's libraries do: base.safetensors
// if all fit into maxBytes, else base-00001-of-0000N.safetensors and so on with
// base.safetensors.index.json. Tensors are laid out by name; a tensor larger than
// maxBytes gets a shard of its own.
//
// Weights that the folder held under base are replaced. Each file is written
// atomically, the set is not: the old index goes first and the new one comes
// last, so a save that was stopped leaves an error, never a mixture. To replace a
// set in one step, write into a new folder and rename that.
func WriteFolder(folder, base string, tensors []Tensor, metadata map[string]string, maxBytes int64) error {
	seen := map[string]bool{}
	for _, t := range tensors { // before anything is removed
		if err := t.check(seen); err != nil {
			return in(folder, err)
		}
	}
	return WriteMade(folder, base, tensors, metadata, maxBytes, func(shard []Tensor, put Put) error {
		for i, t := range shard {
			if err := t.fill(&Sink{w: &placed{put, i, 0}}); err != nil {
				return err
			}
		}
		return nil
	})
}

// WriteMade is WriteFolder of tensors that have no data: fill makes and puts it, a shard at a time.
func WriteMade(folder, base string, tensors []Tensor, metadata map[string]string, maxBytes int64, fill func(shard []Tensor, put Put) error) error {
	for _, t := range tensors {
		if _, err := sizeOf(t.DType, t.Shape); err != nil {
			return in(folder, tensorProblem(t.Name, "this is a mistake in the program that writes", "%v", err))
		}
	}
	shards := split(tensors, maxBytes)
	indexPath := filepath.Join(folder, base+indexSuffix)
	stale, err := staleFiles(folder, base)
	if err != nil {
		return err
	}
	if err := os.Remove(indexPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var ix struct {
		Metadata struct {
			TotalSize int64 `json:"total_size"`
		} `json:"metadata"`
		WeightMap map[string]string `json:"weight_map"`
	}
	ix.WeightMap = map[string]string{}
	for i, shard := range shards {
		name := base + ".safetensors"
		if len(shards) > 1 {
			name = fmt.Sprintf("%s-%05d-of-%05d.safetensors", base, i+1, len(shards))
		}
		if err := writeMade(filepath.Join(folder, name), shard, metadata, func(put Put) error { return fill(shard, put) }); err != nil {
			return err
		}
		delete(stale, name)
		for _, t := range shard {
			ix.WeightMap[t.Name] = name
			bytes, _ := sizeOf(t.DType, t.Shape)
			ix.Metadata.TotalSize += bytes
		}
		shards[i] = nil
	}
	for name := range stale {
		if err := os.Remove(filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	if len(shards) == 1 {
		return nil
	}
	return writeAtomic(indexPath, func(w io.Writer) error {
		var text bytes.Buffer // json.dumps(index, indent=2, sort_keys=True) + "\n"
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(ix); err != nil {
			return err
		}
		_, err := w.Write(text.Bytes())
		return err
	})
}

// split cuts the tensors, sorted by name, into runs of at most maxBytes.
func split(tensors []Tensor, maxBytes int64) [][]Tensor {
	order := slices.Clone(tensors)
	slices.SortFunc(order, func(a, b Tensor) int { return cmp.Compare(a.Name, b.Name) })
	shards := [][]Tensor{nil}
	filled := int64(0)
	for _, t := range order {
		last := len(shards) - 1
		bytes, _ := sizeOf(t.DType, t.Shape) // WriteMade asked before
		if len(shards[last]) > 0 && filled+bytes > maxBytes {
			shards = append(shards, nil)
			last, filled = last+1, 0
		}
		shards[last] = append(shards[last], t)
		filled += bytes
	}
	return shards
}

// staleFiles are the weights that the folder holds under base.
func staleFiles(folder, base string) (map[string]bool, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	ours := regexp.MustCompile(`^` + regexp.QuoteMeta(base) + `(-\d{5}-of-\d{5})?\.safetensors$`)
	stale := map[string]bool{}
	for _, e := range entries {
		if ours.MatchString(e.Name()) {
			stale[e.Name()] = true
		}
	}
	return stale, nil
}

// writeAtomic writes a file so that path names either the earlier file or the whole new file, also after a power
// failure: written aside in the same folder, synced, renamed, and the folder synced so that the rename lasts.
func writeAtomic(path string, write func(io.Writer) error) error {
	return writeAtomicFile(path, func(f *os.File) error { return write(f) })
}

// writeAtomicFile is writeAtomic for writers of places.
func writeAtomicFile(path string, write func(*os.File) error) (err error) {
	f, err := createAside(path)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			_ = os.Remove(f.Name()) // the first error tells more
			err = fmt.Errorf("writing %s: %w", path, err)
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// createAside makes a new hidden file beside path, with the permissions that the
// user's mask asks for (os.CreateTemp would let nobody else read it).
func createAside(path string) (*os.File, error) {
	folder, base := filepath.Split(path)
	for {
		name := fmt.Sprintf("%s.%s.%08x.tmp", folder, base, rand.Uint32())
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

func syncFolder(path string) error {
	if runtime.GOOS == "windows" { // has no such thing; a rename there is kept by its journal
		return nil
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
