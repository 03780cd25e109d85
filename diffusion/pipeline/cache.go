package pipeline

import (
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

	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// Texts on the disk: a file a prompt, named by what it depends on: the prompt, the
// precision, the device's arithmetic, how many tokens are read, and the encoders. Of small files the content counts,
// of weights their names, sizes and times of writing: reading them all would cost more than
// encoding. A file that cannot be understood is computed anew and written over.

// Cache is a folder of texts and of the latents of pictures that edits are made of. Programs may share it.
type Cache struct {
	Dir        string // "": they are kept in memory alone
	Arithmetic string // of the device, whose bits the folder's files have: those of another are not read
	Limit      int64  // bytes; 0: UsualCacheLimit
	Optional   bool   // a folder that cannot be written, or whose disk is full, is done without
}

// cached is what goes into a file's metadata.
type cached struct {
	Prompt string    `json:"prompt"`
	IDs    [][]int32 `json:"ids"`
	Cut    []string  `json:"cut"`
}

// recall takes texts from the disk, and returns those that are not there.
func (p *Pipeline) recall(of []About) (missing []About, err error) {
	if p.Cache.Dir == "" {
		return of, nil
	}
	for _, a := range of {
		path, err := p.cachePath(p.key(a))
		if err != nil {
			return nil, err
		}
		text, err := readText(path)
		switch {
		case err != nil && errors.Is(err, fs.ErrPermission) && !p.Cache.Optional:
			return nil, err
		case err != nil || text.Prompt != a.Prompt:
			missing = append(missing, a)
		default:
			p.texts[p.key(a)] = text
			touch(path)
		}
	}
	return missing, nil
}

// remember writes a text to the disk.
func (p *Pipeline) remember(t *Text, key textKey) error {
	if p.Cache.Dir == "" {
		return nil
	}
	path, err := p.cachePath(key)
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
	return p.store(path, tensors, map[string]string{"text": string(said)})
}

// EncodeToDisk leaves texts in Options.Cache and none of them in memory. Each encoder is loaded once, however many
// texts there are: what it said of one lies in the folder, too, until the text is whole. Without a folder nothing
// happens.
func (p *Pipeline) EncodeToDisk(ctx context.Context, all ...About) error {
	of := slices.DeleteFunc(p.fresh(all), func(a About) bool { return p.stored(p.key(a)) })
	if len(of) == 0 || p.Cache.Dir == "" {
		return nil
	}
	for n, e := range p.encoders {
		last := n == len(p.encoders)-1
		err := p.encode(ctx, e, of, func(i int, s encoded) error {
			if !last {
				part := &Text{Prompt: of[i].Prompt, IDs: [][]int32{s.ids}, Cut: []string{s.cut}, Tokens: s.tokens, Width: s.width, States: s.states, Pooled: s.pooled}
				return p.remember(part, p.said(of[i], n))
			}
			return p.whole(of[i], s)
		})
		if err != nil || p.Cache.Dir == "" {
			return err
		}
	}
	return nil
}

// said names what the n-th encoder said of a text.
func (p *Pipeline) said(a About, n int) textKey {
	key := p.key(a)
	key.encoder = n + 1
	return key
}

// whole joins what the last encoder said of a text to what lies on the disk. A text of which something is missing there
// is encoded when it is asked for.
func (p *Pipeline) whole(a About, last encoded) error {
	if p.Cache.Dir == "" {
		return nil
	}
	var said []encoded
	for n := range len(p.encoders) - 1 {
		path, err := p.cachePath(p.said(a, n))
		if err != nil {
			return err
		}
		t, err := readText(path)
		if err != nil || t.Prompt != a.Prompt || len(t.IDs) != 1 || len(t.Cut) != 1 {
			return nil
		}
		said = append(said, encoded{ids: t.IDs[0], cut: t.Cut[0], tokens: t.Tokens, width: t.Width, states: t.States, pooled: t.Pooled})
		_ = os.Remove(path) // what stays is swept in its turn
	}
	text, err := p.textOf(a, append(said, last))
	if err != nil {
		return err
	}
	return p.remember(text, p.key(a))
}

// store writes a file of the cache. Where it cannot be written and it is optional, no further one is.
func (p *Pipeline) store(path string, tensors []safetensors.Tensor, says map[string]string) error {
	err := os.MkdirAll(p.Cache.Dir, 0o755)
	if err == nil {
		err = safetensors.Write(path, tensors, says)
	}
	if err == nil {
		err = p.bound(path)
	}
	if err != nil && p.Cache.Optional {
		p.Cache.Dir = ""
		return nil
	}
	return err
}

// stored reports whether a text has a file.
func (p *Pipeline) stored(key textKey) bool {
	if p.Cache.Dir == "" {
		return false
	}
	path, err := p.cachePath(key)
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

func (p *Pipeline) cachePath(key textKey) (string, error) {
	if p.fingerprint == "" {
		mark, err := p.mark()
		if err != nil {
			return "", err
		}
		p.fingerprint = mark
	}
	name := p.fingerprint + "\x00" + key.prompt
	if key.pictures != "" {
		name += "\x00" + key.pictures
	}
	if key.encoder > 0 {
		name += fmt.Sprintf("\x00\x00%d", key.encoder)
	}
	sum := sha256.Sum256([]byte(name))
	return filepath.Join(p.Cache.Dir, hex.EncodeToString(sum[:16])+".safetensors"), nil
}

// mark is all that texts depend on but the prompt.
func (p *Pipeline) mark() (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, "texts, form 2", p.folder.class, p.Precision, p.Cache.Arithmetic)
	for _, e := range p.encoders {
		fmt.Fprintln(h, e.part, e.kind, e.length, e.pad)
		if err := p.folder.markParts(h, e.part, e.tokenizer); err != nil {
			return "", err
		}
	}
	// The lengths of texts without a third encoder.
	fmt.Fprintln(h, p.TextLength, p.TextLayers)
	return hex.EncodeToString(h.Sum(nil)), nil
}

// markParts writes what parts of a folder are told from others by.
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
			if strings.HasSuffix(info.Name(), ".safetensors") {
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
