package pipeline

import (
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
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// Texts on the disk: a file a prompt, named by what it depends on: the prompt, the
// precision, the device's arithmetic, how many tokens are read, and the encoders. Of small files the content counts,
// of weights their names, sizes and times of writing: reading them all would cost more than
// encoding. A file that cannot be understood is computed anew and written over.

// cached is what goes into a file's metadata.
type cached struct {
	Prompt string    `json:"prompt"`
	IDs    [][]int32 `json:"ids"`
	Cut    []string  `json:"cut"`
}

// recall takes texts from the disk, and returns those that are not there.
func (p *Pipeline) recall(of []About) (missing []About, err error) {
	if p.Cache == "" {
		return of, nil
	}
	for _, a := range of {
		path, err := p.cachePath(p.key(a))
		if err != nil {
			return nil, err
		}
		text, err := readText(path)
		switch {
		case err != nil && errors.Is(err, fs.ErrPermission) && !p.CacheIfCan:
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
	if p.Cache == "" {
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

// store writes a file of the cache. Where it cannot be written and CacheIfCan is set, no further one is.
func (p *Pipeline) store(path string, tensors []safetensors.Tensor, says map[string]string) error {
	err := os.MkdirAll(p.Cache, 0o755)
	if err == nil {
		err = safetensors.Write(path, tensors, says)
	}
	if err == nil {
		err = p.bound(path)
	}
	if err != nil && p.CacheIfCan {
		p.Cache = ""
		return nil
	}
	return err
}

// stored reports whether a text has a file.
func (p *Pipeline) stored(key textKey) bool {
	if p.Cache == "" {
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
	sum := sha256.Sum256([]byte(name))
	return filepath.Join(p.Cache, hex.EncodeToString(sum[:16])+".safetensors"), nil
}

// mark is all that texts depend on but the prompt.
func (p *Pipeline) mark() (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, "texts, form 2", p.folder.class, p.Precision, p.Arithmetic)
	for _, e := range p.encoders {
		fmt.Fprintln(h, e.part, e.kind, e.length, e.pad)
		if err := p.folder.markParts(h, e.part, e.tokenizer); err != nil {
			return "", err
		}
	}
	// The lengths of texts without a third encoder.
	fmt.Fprintln(h, p.TextLength)
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
