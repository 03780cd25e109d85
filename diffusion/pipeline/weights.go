package pipeline

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/darkroom-rl/darkroom/diffusion/t5"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/quant"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// loader brings a folder's networks into memory.
type loader struct {
	Options
	folder *folder
	rings  autograd.Ring // of networks whose matrices lie elsewhere
}

func (l *loader) ring() *autograd.Ring {
	l.rings.Tight = l.Memory.Tight
	return &l.rings
}

// weights are where a part's numbers come from.
type weights struct {
	name   string // the file or the index
	source nn.Source
	opened io.Closer

	// Without a source they are drawn by a key, or, where they are absent, have the type of a published file.
	key  rng.Key
	like safetensors.DType
}

// weights opens a part's weights.
func (f *folder) weights(part string) (*weights, error) {
	if f.drawn != nil {
		return &weights{name: part, key: f.drawn.Key.With(rng.Purpose(part))}, nil
	}
	if src := f.inFile(part); src != nil {
		return &weights{name: f.file.Path, source: src}, nil
	}
	dir, err := f.part(part)
	if err != nil {
		return nil, err
	}
	if f.bare && noWeights(dir) {
		return &weights{name: dir, like: safetensors.BF16}, nil
	}
	if path, err := soleGGUF(dir); err != nil || path != "" {
		return openGGUF(path, err)
	}
	set, err := quant.OpenFolder(dir)
	if err != nil && f.file != nil {
		return nil, fmt.Errorf("%s holds no %s (it holds %s), and there is none in the folder of model.base: %w", f.file.Path, part, strings.Join(f.file.Parts(), ", "), err)
	}
	if err != nil {
		return nil, err
	}
	w := &weights{name: set.Set.Index, source: set, opened: set}
	if w.name == "" {
		w.name = set.Set.Files[0].Path
	}
	return w, nil
}

func (w *weights) close() error {
	if w.opened == nil {
		return nil
	}
	return w.opened.Close()
}

// soleGGUF is the file of a part's folder that has no weights but one file of GGUF; "": the folder has others, or none.
func soleGGUF(dir string) (string, error) {
	all, err := files(dir)
	if err != nil {
		return "", nil // safetensors.OpenFolder reports it
	}
	var found []string
	for _, f := range all {
		switch strings.ToLower(filepath.Ext(f.Name())) {
		case ".safetensors":
			return "", nil
		case ".gguf":
			found = append(found, f.Name())
		}
	}
	switch len(found) {
	case 0:
		return "", nil
	case 1:
		return filepath.Join(dir, found[0]), nil
	}
	return "", fmt.Errorf("%s: it has %d files of GGUF: %s\nhint: leave one there", dir, len(found), strings.Join(found, ", "))
}

// openGGUF opens a text encoder, T5 or UMT5, whose tensors have llama.cpp's names.
func openGGUF(path string, err error) (*weights, error) {
	if err != nil {
		return nil, err
	}
	file, err := quant.OpenFile(path)
	if err != nil {
		return nil, err
	}
	if _, ok := file.Info("enc.blk.0.attn_q.weight"); !ok {
		return nil, errors.Join(fmt.Errorf("%s: it has no tensor enc.blk.0.attn_q.weight, as encoders of T5 and UMT5 have\nhint: a transformer in GGUF is the model itself: model.path names the file, and model.base the folder", path), file.Close())
	}
	return &weights{name: path, source: t5.Today(file), opened: file}, nil
}

// Absent are the parts of a pipeline's folder whose weights are not there. On a backend that may do without them
// (tensor.Pool.Bare) memory is counted by config.json, as if weights were bf16, and tokenizers may be absent, too:
// texts then have the greatest length.
func Absent(dir string) (parts []string, err error) {
	f, err := readFolder(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range f.networks() {
		if at, err := f.part(name); err == nil && noWeights(at) {
			parts = append(parts, name)
		}
	}
	return parts, nil
}

// networks are the parts that have weights, in the order of names.
func (f *folder) networks() (all []string) {
	for _, name := range []string{"image_encoder", "text_encoder", "text_encoder_2", "text_encoder_3", "transformer", "transformer_2", "unet", "vae"} {
		if f.has(name) {
			all = append(all, name)
		}
	}
	return all
}

// noWeights reports whether a part's folder has settings and nothing that looks like weights.
func noWeights(dir string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		for _, ending := range []string{".safetensors", ".safetensors.index.json", ".bin", ".pt", ".pth", ".ckpt", ".msgpack", ".gguf"} {
			if strings.HasSuffix(e.Name(), ending) {
				return false
			}
		}
	}
	return true
}

// network is a part in memory, and where its weights are read.
type network struct {
	part   string
	params *nn.Params
	from   *weights
}

// load reads a part's weights; build makes the network of them. names changes their source; nil: it stays.
func (l *loader) load(part string, o nn.Options, names func(nn.Source) (nn.Source, error), build func(*nn.Params)) (*network, error) {
	from, err := l.folder.weights(part)
	if err != nil {
		return nil, err
	}
	n := &network{part: part, from: from}
	o.Pool, o.Source, o.Key, o.Like = l.Pool, from.source, from.key, from.like
	if from.source != nil && l.Weights == [mostExperts]nn.Source{} {
		o.Called = from.name + " " + part + " " + l.Quantize
	}
	if from.source != nil && names != nil {
		if o.Source, err = names(from.source); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", from.name, err), n.close())
		}
	}
	if n.params, err = nn.New(o); err == nil {
		build(n.params)
		err = n.params.Check()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", from.name, err), n.close())
	}
	return n, nil
}

// quantized is a part's source whose matrices are compressed as Options.Quantize says.
func (l *loader) quantized(stored nn.Source, part string) (nn.Source, error) {
	if l.Quantize == "" {
		return stored, nil
	}
	if l.folder.file != nil {
		return nil, fmt.Errorf("a single file is not quantised to %s as it is loaded\nhint: 'darkroom quantize FILE --as %s --out DIR' writes one that is", l.Quantize, l.Quantize)
	}
	dir, err := l.folder.part(part)
	if err != nil {
		return nil, err
	}
	return quant.Quantize(stored, l.Quantize, dir)
}

// plainly is a change of names that cannot fail; nil stays nil.
func plainly(names func(nn.Source) nn.Source) func(nn.Source) (nn.Source, error) {
	if names == nil {
		return nil
	}
	return func(stored nn.Source) (nn.Source, error) { return names(stored), nil }
}

// name is the file or the index that weights were read from.
func (n *network) name() string { return n.from.name }

func (n *network) close() error {
	if n == nil {
		return nil
	}
	if n.params != nil {
		n.params.Free()
	}
	return n.from.close()
}

// tape is one that records nothing.
func (l *loader) tape(precision Precision) *autograd.Tape {
	return autograd.New(l.Pool, autograd.Options{DType: precision.dtype(), Math: precision.math()})
}
