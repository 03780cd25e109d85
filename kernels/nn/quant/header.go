package quant

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// A Header is a compressed tensor without its numbers.
type Header struct {
	Shape []int
	DType safetensors.DType // precision of the values
	Size  int               // of Codes
}

// Coded is a source whose compressed tensors can be read as codes. A tensor that is not compressed, or that backends
// do not unpack, has neither header nor codes: Tensor reads it.
type Coded interface {
	Header(name string) (h Header, ok bool, err error)
	Codes(name string) (c Codes, d safetensors.DType, ok bool, err error)
}

// Header is a compressed tensor's.
func (e *Expanded) Header(name string) (Header, bool, error) { return e.finder.header(name) }

// Codes are a compressed tensor's.
func (e *Expanded) Codes(name string) (c Codes, d safetensors.DType, ok bool, err error) {
	m, ok, err := e.finder.matrix(name)
	if !ok || err != nil {
		return c, d, false, err
	}
	return m.coded()
}

// coded are the codes of a matrix that backends unpack.
func (m Matrix) coded() (c Codes, d safetensors.DType, ok bool, err error) {
	if w, shifted := m.Weight.(Shifted4); shifted && w.DType != safetensors.F32 {
		return c, d, false, nil
	}
	c, err = m.Codes()
	return c, m.DType, err == nil, err
}

// header is a compressed tensor's, as its file's headers and its state say.
func (f *finder) header(name string) (h Header, ok bool, err error) {
	at, known := f.Tensors.(interface {
		Info(name string) (safetensors.Info, bool)
	})
	if !known {
		return h, false, nil
	}
	info, known := at.Info(name)
	if !known {
		return h, false, nil
	}
	stored := info
	if err := f.describe(&info); err != nil {
		return h, false, err
	}
	h = Header{Shape: info.Shape, DType: info.DType}
	n := 1
	for _, side := range h.Shape {
		n *= side
	}
	for kind := range states {
		if f.has[name+".quant_state.bitsandbytes__"+kind] {
			s, err := f.state(name, kind)
			if err != nil {
				return h, false, err
			}
			if s.Block < 1 {
				return h, false, fmt.Errorf("%s: blocks of %d values", name, s.Block)
			}
			h.Size = sized(n/2+n%2, 16, (n+s.Block-1)/s.Block)
			return h, true, nil
		}
	}
	if info.DType == stored.DType {
		return h, false, nil
	}
	scales := 1
	for _, s := range scaleNames(name) {
		if of, ok := at.Info(s); ok {
			scales = max(scales, int(of.Bytes)*8/of.DType.Bits())
		}
	}
	h.Size = sized(n, 256, scales)
	return h, true, nil
}

// sized is the memory of so many bytes of codes, values of a table and scales.
func sized(codes, table, scales int) (size int) {
	for _, n := range []int{4 * table, 4 * scales, codes} {
		size += (n + aligned - 1) / aligned * aligned
	}
	return size
}

// scaleNames are the tensors that may hold the scales of a matrix.
func scaleNames(name string) (all []string) {
	stem, _ := strings.CutSuffix(name, ".weight")
	for _, s := range []string{".SCB", ".scale_weight", ".weight_scale", ".weight_scale_inv"} {
		all = append(all, stem+s)
	}
	return all
}

// state is that of a matrix in bitsandbytes' 4 bits.
func (f *finder) state(name, kind string) (s State, err error) {
	t, err := f.Tensor(name + ".quant_state.bitsandbytes__" + kind)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(t.Data, &s); err != nil {
		return s, fmt.Errorf("%s: the state of bitsandbytes: %w", name, err)
	}
	return s, nil
}

// Header is a compressed tensor's.
func (g *GGUF) Header(name string) (h Header, ok bool, err error) {
	t, known := g.tensors[name]
	s, compressed := spreads[t.form]
	if !known || !compressed {
		return h, false, nil
	}
	n := 1
	for _, side := range t.shape {
		n *= side
	}
	scales := (n + s.run - 1) / s.run
	size := sized(n*s.bits/8, 1<<s.bits, scales)
	if s.minima {
		size += (4*scales + aligned - 1) / aligned * aligned
	}
	return Header{Shape: t.shape, DType: precision(t.form), Size: size}, true, nil
}

// Codes are a compressed tensor's.
func (g *GGUF) Codes(name string) (c Codes, d safetensors.DType, ok bool, err error) {
	if _, compressed := spreads[g.tensors[name].form]; !compressed {
		return c, d, false, nil
	}
	m, err := g.Matrix(name, precision(g.tensors[name].form))
	if err != nil {
		return c, d, false, err
	}
	return m.coded()
}

// Header is a compressed tensor's.
func (f *Folder) Header(name string) (Header, bool, error) { return headerOf(f.Tensors, name) }

// Codes are a compressed tensor's.
func (f *Folder) Codes(name string) (Codes, safetensors.DType, bool, error) {
	return codesOf(f.Tensors, name)
}

// Header is a compressed tensor's.
func (f *File) Header(name string) (Header, bool, error) { return headerOf(f.plain, name) }

// Codes are a compressed tensor's.
func (f *File) Codes(name string) (Codes, safetensors.DType, bool, error) {
	return codesOf(f.plain, name)
}

func headerOf(t any, name string) (h Header, ok bool, err error) {
	if s, coded := t.(Coded); coded {
		return s.Header(name)
	}
	return h, false, nil
}

func codesOf(t any, name string) (c Codes, d safetensors.DType, ok bool, err error) {
	if s, coded := t.(Coded); coded {
		return s.Codes(name)
	}
	return c, d, false, nil
}

// RowRange is the codes of some rows. Runs of a scale must not cross their borders.
func (c Codes) RowRange(lo, hi int) (Codes, error) {
	part := c
	part.Rows = hi - lo
	from, to := lo*c.Columns, hi*c.Columns
	if c.Bits == 4 && (from%2 != 0 || to%2 != 0 && hi != c.Rows) {
		return c, errors.New("rows that begin within a byte")
	}
	part.Codes = c.Codes[from*c.Bits/8 : (to*c.Bits+7)/8]
	var err1, err2 error
	part.Scale, err1 = c.Scale.rows(c, lo, hi)
	part.Min, err2 = c.Min.rows(c, lo, hi)
	return part, errors.Join(err1, err2)
}

func (s Scales) rows(c Codes, lo, hi int) (Scales, error) {
	from, to := lo*c.Columns, hi*c.Columns
	switch {
	case len(s.Values) < 2:
	case s.Flat > 0:
		if from%s.Flat != 0 || to%s.Flat != 0 && hi != c.Rows {
			return s, fmt.Errorf("scales of %d values, and rows of %d", s.Flat, c.Columns)
		}
		s.Values = s.Values[from/s.Flat : (to+s.Flat-1)/s.Flat]
	case s.Rows > 0:
		if lo%s.Rows != 0 || hi%s.Rows != 0 && hi != c.Rows {
			return s, fmt.Errorf("scales of %d rows, from row %d to %d", s.Rows, lo, hi)
		}
		across := 1
		if s.Across > 0 {
			across = (c.Columns + s.Across - 1) / s.Across
		}
		s.Values = s.Values[lo/s.Rows*across : (hi+s.Rows-1)/s.Rows*across]
	}
	return s, nil
}
