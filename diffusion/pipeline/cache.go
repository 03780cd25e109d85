package pipeline

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// Texts on the disk: a file a prompt, named by all that it depends on: the prompt, the precision, the device's
// arithmetic, how many tokens are read, and the encoders. Of small files the content counts, of weights their names,
// sizes and times of writing: reading them all would cost more than encoding. A file that cannot be understood is
// computed anew and written over. The latents of pictures that edits are made of lie beside them (sources.go).
//
// A file that is read counts as new, and the oldest go first where the folder grows beyond its limit. Several programs
// may share a folder: a file that another one deleted is computed again.

// Cache is a folder of texts and of the latents of pictures that edits are made of. Programs may share it.
type Cache struct {
	Dir        string // "": they are kept in memory alone
	Arithmetic string // of the device, whose bits the folder's files have: those of another are not read
	Limit      int64  // bytes; 0: UsualCacheLimit
	Optional   bool   // a folder that cannot be written, or whose disk is full, is done without
}

// UsualCacheLimit is Cache.Limit where nothing else is asked for.
const UsualCacheLimit = 16 << 30

// cache is the folder of a pipeline.
type cache struct {
	*loader
	written int64 // bytes since room was made
	swept   bool
}

// off reports whether nothing is kept on the disk.
func (c *cache) off() bool { return c.Cache.Dir == "" }

// path is the file of a name.
func (c *cache) path(name []byte) string {
	return filepath.Join(c.Cache.Dir, hex.EncodeToString(name[:16])+".safetensors")
}

// store writes a file of the cache. Where it cannot be written and it is optional, no further one is.
func (c *cache) store(path string, tensors []safetensors.Tensor, says map[string]string) error {
	err := os.MkdirAll(c.Cache.Dir, 0o755)
	if err == nil {
		err = safetensors.Write(path, tensors, says)
	}
	if err == nil {
		err = c.bound(path)
	}
	if err != nil && c.Cache.Optional {
		c.Cache.Dir = ""
		return nil
	}
	return err
}

// touch says that a text was needed now. Where that cannot be written down, it only goes earlier.
func touch(path string) {
	now := time.Now()
	_ = os.Chtimes(path, now, now)
}

// bound counts a file that was just written, and makes room now and then.
func (c *cache) bound(path string) error {
	most := cmp.Or(c.Cache.Limit, UsualCacheLimit)
	info, err := os.Stat(path)
	if err != nil {
		return nil // another program made room already
	}
	if c.written += info.Size(); c.swept && c.written < most/16 {
		return nil
	}
	c.swept, c.written = true, 0
	return sweep(c.Cache.Dir, most)
}

// sweep deletes the texts that were unused for the longest time, until the rest takes less than most bytes by an
// eighth.
func sweep(dir string, most int64) error {
	all, err := files(dir)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(f os.FileInfo) bool { return !strings.HasSuffix(f.Name(), ".safetensors") })
	sum := int64(0)
	for _, f := range all {
		sum += f.Size()
	}
	if sum <= most {
		return nil
	}
	slices.SortFunc(all, func(a, b os.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, f := range all {
		if sum <= most-most/8 {
			break
		}
		if err := os.Remove(filepath.Join(dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		sum -= f.Size()
	}
	return nil
}

// cached is the metadata of a file.
type cached struct {
	Prompt string    `json:"prompt"`
	IDs    [][]int32 `json:"ids"`
	Cut    []string  `json:"cut"`
}

// recall takes texts from the disk, and returns those that are not there.
func (x *texts) recall(of []About) (missing []About, err error) {
	if x.cache.off() {
		return of, nil
	}
	for _, a := range of {
		path, err := x.cachePath(x.key(a))
		if err != nil {
			return nil, err
		}
		text, err := readText(path)
		switch {
		case err != nil && errors.Is(err, fs.ErrPermission) && !x.Cache.Optional:
			return nil, err
		case err != nil || text.Prompt != a.Prompt:
			missing = append(missing, a)
		default:
			x.known[x.key(a)] = text
			touch(path)
		}
	}
	return missing, nil
}

// remember writes a text to the disk.
func (x *texts) remember(t *Text, key textKey) error {
	if x.cache.off() {
		return nil
	}
	path, err := x.cachePath(key)
	if err != nil {
		return err
	}
	said, err := json.Marshal(cached{t.Prompt, t.IDs, t.Cut})
	if err != nil {
		return err
	}
	tensors := []safetensors.Tensor{tensorOf("states", t.States, t.Tokens, t.Width)}
	if t.Pooled != nil {
		tensors = append(tensors, tensorOf("pooled", t.Pooled, len(t.Pooled)))
	}
	return x.cache.store(path, tensors, map[string]string{"text": string(said)})
}

// EncodeToDisk leaves texts in Options.Cache and none of them in memory. Each encoder is loaded once, however many
// texts there are: its output for a text lies in the folder, too, until the text is whole. Without a folder nothing
// happens.
func (x *texts) EncodeToDisk(ctx context.Context, all ...About) error {
	of := slices.DeleteFunc(x.fresh(all), func(a About) bool { return x.stored(x.key(a)) })
	if len(of) == 0 || x.cache.off() {
		return nil
	}
	for n, e := range x.encoders {
		last := n == len(x.encoders)-1
		err := x.encode(ctx, e, of, func(i int, s encoded) error {
			if !last {
				part := &Text{Prompt: of[i].Prompt, IDs: [][]int32{s.ids}, Cut: []string{s.cut}, Tokens: s.tokens, Width: s.width, States: s.states, Pooled: s.pooled}
				return x.remember(part, x.said(of[i], n))
			}
			return x.whole(of[i], s)
		})
		if err != nil || x.cache.off() {
			return err
		}
	}
	return nil
}

// said names the n-th encoder's output for a text.
func (x *texts) said(a About, n int) textKey {
	key := x.key(a)
	key.encoder = n + 1
	return key
}

// whole joins the last encoder's output for a text to the others on the disk. A text of which something is missing
// there is encoded when it is asked for.
func (x *texts) whole(a About, last encoded) error {
	if x.cache.off() {
		return nil
	}
	var said []encoded
	for n := range len(x.encoders) - 1 {
		path, err := x.cachePath(x.said(a, n))
		if err != nil {
			return err
		}
		t, err := readText(path)
		if err != nil || t.Prompt != a.Prompt || len(t.IDs) != 1 || len(t.Cut) != 1 {
			return nil
		}
		said = append(said, encoded{ids: t.IDs[0], cut: t.Cut[0], tokens: t.Tokens, width: t.Width, states: t.States, pooled: t.Pooled})
		_ = os.Remove(path) // a file that stays is swept in its turn
	}
	text, err := x.textOf(a, append(said, last))
	if err != nil {
		return err
	}
	return x.remember(text, x.key(a))
}

// stored reports whether a text has a file.
func (x *texts) stored(key textKey) bool {
	if x.cache.off() {
		return false
	}
	path, err := x.cachePath(key)
	if err != nil {
		return false
	}
	_, err = os.Stat(path)
	return err == nil
}

// tensorOf is numbers as they are written: in bf16 where they all are.
func tensorOf(name string, x []float32, shape ...int) safetensors.Tensor {
	if short, ok := shortened(x); ok {
		return safetensors.Tensor{Name: name, DType: safetensors.BF16, Shape: shape, Data: short}
	}
	b := make([]byte, 0, 4*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return safetensors.Tensor{Name: name, DType: safetensors.F32, Shape: shape, Data: b}
}

// shortened are the upper halves of numbers whose lower ones are zeros.
func shortened(x []float32) ([]byte, bool) {
	b := make([]byte, 0, 2*len(x))
	for _, v := range x {
		bits := math.Float32bits(v)
		if bits&0xffff != 0 {
			return nil, false
		}
		b = binary.LittleEndian.AppendUint16(b, uint16(bits>>16))
	}
	return b, true
}

func readText(path string) (*Text, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var said cached
	if err := json.Unmarshal([]byte(f.Metadata["text"]), &said); err != nil {
		return nil, err
	}
	t := &Text{Prompt: said.Prompt, IDs: said.IDs, Cut: said.Cut}
	states, err := f.Tensor("states")
	if err != nil {
		return nil, err
	}
	if len(states.Shape) != 2 {
		return nil, fmt.Errorf("%s: states of shape %v", path, states.Shape)
	}
	t.Tokens, t.Width = states.Shape[0], states.Shape[1]
	if t.States, err = states.Float32(nil); err != nil {
		return nil, err
	}
	if _, ok := f.Info("pooled"); ok {
		pooled, err := f.Tensor("pooled")
		if err != nil {
			return nil, err
		}
		if t.Pooled, err = pooled.Float32(nil); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (x *texts) cachePath(key textKey) (string, error) {
	if x.fingerprint == "" {
		mark, err := x.mark()
		if err != nil {
			return "", err
		}
		x.fingerprint = mark
	}
	name := x.fingerprint + "\x00" + key.prompt
	if key.pictures != "" {
		name += "\x00" + key.pictures
	}
	if key.encoder > 0 {
		name += fmt.Sprintf("\x00\x00%d", key.encoder)
	}
	sum := sha256.Sum256([]byte(name))
	return x.cache.path(sum[:]), nil
}

// mark is all that texts depend on but the prompt.
func (x *texts) mark() (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, "texts, form 2", x.folder.class, x.Precision, x.Cache.Arithmetic)
	for _, e := range x.encoders {
		fmt.Fprintln(h, e.part, e.kind, e.length, e.pad)
		if err := x.folder.markParts(h, e.part, e.tokenizer); err != nil {
			return "", err
		}
	}
	// The lengths of texts without a third encoder.
	fmt.Fprintln(h, x.TextLength, x.TextLayers)
	return hex.EncodeToString(h.Sum(nil)), nil
}

// markParts writes the marks that identify parts of a folder.
func (f *folder) markParts(h io.Writer, parts ...string) error {
	for _, part := range parts {
		if f.inFile(part) != nil {
			info, err := os.Stat(f.path)
			if err != nil {
				return err
			}
			fmt.Fprintln(h, part, f.path, info.Size(), info.ModTime().UnixNano())
		}
		dir, err := f.part(part)
		if err != nil {
			return err
		}
		all, err := files(dir)
		if err != nil {
			return err
		}
		for _, info := range all {
			fmt.Fprintln(h, info.Name(), info.Size())
			if ending := strings.ToLower(filepath.Ext(info.Name())); ending == ".safetensors" || ending == ".gguf" {
				fmt.Fprintln(h, info.ModTime().UnixNano())
				continue
			}
			if data, err := hub.ReadFile(filepath.Join(dir, info.Name())); err == nil {
				if _, err := h.Write(data); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
