package single

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn/quant"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// Settings are settings that a file's names lack.
type Settings struct {
	LayersPerBlock int // of a U-Net
}

// A File is a checkpoint, open.
type File struct {
	Path  string
	Kind  Kind
	file  *quant.File
	parts map[string]map[string]piece // a part's tensors by diffusers' names
}

// A Kind is an architecture.
type Kind int

// The kinds.
const (
	UNet Kind = 1 + iota // Stable Diffusion 1.5 and SDXL
	SD3
	FLUX
)

func (k Kind) String() string {
	return [...]string{UNet: "a U-Net (Stable Diffusion 1.5 or SDXL)", SD3: "Stable Diffusion 3", FLUX: "FLUX"}[k]
}

// A piece is the place of a tensor's numbers, and the operation on them.
type piece struct {
	from   string
	rows   [2]int // of these rows; both 0: of all
	swap   bool   // the halves of the rows are exchanged
	turned bool   // rows are columns
	flat   bool   // trailing axes of 1 are dropped
	eyes   int    // no numbers of the file: ones on the diagonal
}

// placed is a piece under its name.
type placed struct {
	name string
	piece
}

// A rule returns the places of a part's tensor, whose prefix is cut off; nothing: it is not read.
type rule func(name string, shape []int) []placed

// Open understands a checkpoint.
func Open(path string, s Settings) (*File, error) {
	file, err := quant.OpenFile(path)
	if err != nil {
		return nil, err
	}
	f := &File{Path: path, file: file, parts: map[string]map[string]piece{}}
	if err := f.understand(s); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	return f, nil
}

// Close gives the file back.
func (f *File) Close() error { return f.file.Close() }

// has reports whether the file has a tensor, below the denoiser's prefix or without it.
func (f *File) has(name string) bool {
	_, nested := f.file.Info(denoiserPrefix + name)
	_, flat := f.file.Info(name)
	return nested || flat
}

const denoiserPrefix = "model.diffusion_model."

func (f *File) understand(s Settings) error {
	switch {
	case f.has("double_blocks.0.img_attn.qkv.weight"):
		f.Kind = FLUX
	case f.has("joint_blocks.0.x_block.attn.qkv.weight"):
		f.Kind = SD3
	case f.has("input_blocks.0.0.weight"):
		f.Kind = UNet
	case f.has("transformer_blocks.0.attn.to_q.weight") || f.has("down_blocks.0.resnets.0.conv1.weight"):
		return errors.New("it is a part of diffusers' folder and no whole checkpoint\nhint: name the folder that it lies in")
	default:
		return errors.New("the names of its tensors are not those of Stable Diffusion 1.5, SDXL, Stable Diffusion 3 or FLUX\nhint: 'darkroom inspect' lists them; other models are read from diffusers' folders")
	}
	for _, at := range f.rules(s) {
		for _, info := range f.file.Infos {
			rest, ok := strings.CutPrefix(info.Name, at.prefix)
			if !ok || at.prefix == "" && inOther(info.Name) {
				continue
			}
			for _, p := range at.rule(rest, info.Shape) {
				if p.eyes == 0 {
					p.from = info.Name
				}
				f.place(at.part, p)
			}
		}
	}
	return nil
}

func (f *File) place(part string, p placed) {
	if f.parts[part] == nil {
		f.parts[part] = map[string]piece{}
	}
	f.parts[part][p.name] = p.piece
}

// inOther reports whether a tensor belongs to a part that has a prefix.
func inOther(name string) bool {
	for _, prefix := range []string{"model.", "model_ema.", "first_stage_model.", "vae.", "cond_stage_model.", "conditioner.", "text_encoders."} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// where is the place of a part's tensors, and their rule.
type where struct {
	part, prefix string
	rule         rule
}

// rules are the kind's.
func (f *File) rules(s Settings) []where {
	all := []where{{"vae", "first_stage_model.", f.vae("first_stage_model.")}, {"vae", "vae.", f.vae("vae.")}}
	denoiser := func(part string, r rule) {
		all = append(all, where{part, denoiserPrefix, r}, where{part, "", r})
	}
	switch f.Kind {
	case UNet:
		denoiser("unet", unet(s.LayersPerBlock))
		all = append(all, where{"text_encoder", "cond_stage_model.transformer.", as}, where{"text_encoder", "conditioner.embedders.0.transformer.", as},
			where{"text_encoder_2", "conditioner.embedders.1.model.", openCLIP})
	case SD3:
		denoiser("transformer", f.mmdit())
		all = append(all, where{"text_encoder", "text_encoders.clip_l.transformer.", unprojected}, where{"text_encoder_2", "text_encoders.clip_g.transformer.", as},
			where{"text_encoder_3", "text_encoders.t5xxl.transformer.", as})
	case FLUX:
		denoiser("transformer", flux)
		all = append(all, where{"text_encoder", "text_encoders.clip_l.transformer.", as}, where{"text_encoder_2", "text_encoders.t5xxl.transformer.", as})
	}
	return all
}

// Parts are those that the file holds.
func (f *File) Parts() []string { return slices.Sorted(maps.Keys(f.parts)) }

// Part is a part's tensors by diffusers' names; nil where the file does not hold it.
func (f *File) Part(name string) *Part {
	if f.parts[name] == nil {
		return nil
	}
	return &Part{f, f.parts[name]}
}

// A Part is an nn.Source.
type Part struct {
	file   *File
	pieces map[string]piece
}

// Names are diffusers' names.
func (p *Part) Names() []string { return slices.Sorted(maps.Keys(p.pieces)) }

// Bytes is the part's size in the file.
func (p *Part) Bytes() (bytes int64) {
	seen := map[string]bool{}
	for _, at := range p.pieces {
		if info, ok := p.file.file.Info(at.from); ok && !seen[at.from] {
			seen[at.from] = true
			bytes += info.Bytes
		}
	}
	return bytes
}

// Where says where a tensor lies, for messages.
func (p *Part) Where(name string) string { return p.file.file.Where(p.pieces[name].from) }

// Drop gives back the pages that were read.
func (p *Part) Drop(name string) { p.file.file.Drop(p.pieces[name].from) }

// Tensor is a tensor by diffusers' name.
func (p *Part) Tensor(name string) (safetensors.Tensor, error) {
	at, ok := p.pieces[name]
	if !ok {
		return safetensors.Tensor{}, fmt.Errorf("%s: %s is not in this file", p.file.Path, name)
	}
	if at.eyes > 0 {
		return safetensors.FromF32(name, []int{at.eyes, at.eyes}, diagonal(at.eyes)), nil
	}
	t, err := p.file.file.Tensor(at.from)
	if err != nil {
		return t, err
	}
	if at.rows[1] > 0 {
		if t, err = t.Rows(at.rows[0], at.rows[1]); err != nil {
			return t, err
		}
	}
	switch {
	case at.swap:
		t.Data = slices.Concat(t.Data[len(t.Data)/2:], t.Data[:len(t.Data)/2])
	case at.turned:
		t = turned(t)
	case at.flat:
		t.Shape = t.Shape[:2]
	}
	t.Name = name
	return t, nil
}

func diagonal(n int) []float32 {
	x := make([]float32, n*n)
	for i := range n {
		x[i*n+i] = 1
	}
	return x
}

// turned is a matrix's transpose.
func turned(t safetensors.Tensor) safetensors.Tensor {
	rows, cols := t.Shape[0], t.Shape[1]
	size := len(t.Data) / (rows * cols)
	data := make([]byte, len(t.Data))
	for r := range rows {
		for c := range cols {
			copy(data[(c*rows+r)*size:][:size], t.Data[(r*cols+c)*size:][:size])
		}
	}
	t.Shape, t.Data = []int{cols, rows}, data
	return t
}

// Header is a compressed tensor's. Columns and exchanged halves are made of plain numbers alone.
func (p *Part) Header(name string) (h quant.Header, ok bool, err error) {
	at := p.pieces[name]
	if at.eyes > 0 || at.swap || at.turned {
		return h, false, nil
	}
	if h, ok, err = p.file.file.Header(at.from); !ok || err != nil {
		return h, false, err
	}
	if rows := at.rows[1] - at.rows[0]; rows > 0 {
		h.Size = h.Size / h.Shape[0] * rows
		h.Shape = append([]int{rows}, h.Shape[1:]...)
	}
	if at.flat {
		h.Shape = h.Shape[:2]
	}
	return h, true, nil
}

// Codes are a compressed tensor's.
func (p *Part) Codes(name string) (c quant.Codes, d safetensors.DType, ok bool, err error) {
	at := p.pieces[name]
	if at.eyes > 0 || at.swap || at.turned {
		return c, d, false, nil
	}
	c, d, ok, err = p.file.file.Codes(at.from)
	if ok && err == nil && at.rows[1] > 0 {
		if c, err = c.RowRange(at.rows[0], at.rows[1]); err != nil {
			return c, d, false, nil // parts of a block, which are unpacked with the whole
		}
	}
	return c, d, ok, err
}
