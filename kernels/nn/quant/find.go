package quant

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// Compressed matrices in files of safetensors, by the names of their scales. X.weight is compressed where a file has
//
//	X.weight.quant_state.bitsandbytes__nf4, __fp4   bitsandbytes, 4 bits
//	X.SCB                                           bitsandbytes, LLM.int8
//	X.scale_weight                                  ComfyUI before 2025-11, musubi-tuner
//	X.weight_scale                                  ComfyUI; the form is in X.comfy_quant or in the header
//	X.weight_scale_inv                              DeepSeek, Qwen: blocks of 128 x 128
//
// or where it is in FP8 itself. Scales of activations (X.scale_input, X.input_scale) are left out.

// A Matrix is a compressed tensor of a model.
type Matrix struct {
	Weight
	Name   string
	Shape  []int
	DType  safetensors.DType // precision of its values
	Format string
}

// part is how many values are unpacked at once: whole blocks of every format.
const part = 1 << 16

// Tensor has all values, rounded to the matrix's precision.
func (m Matrix) Tensor() safetensors.Tensor {
	n, size := 1, m.DType.Bits()/8
	for _, side := range m.Shape {
		n *= side
	}
	t := safetensors.Tensor{Name: m.Name, DType: m.DType, Shape: m.Shape, Data: make([]byte, n*size)}
	workers := runtime.GOMAXPROCS(0)
	together(workers, func(worker int) {
		values := make([]float32, min(part, n))
		for from := worker * part; from < n; from += workers * part {
			some := values[:min(part, n-from)]
			m.Unpack(some, from)
			m.store(t.Data[from*size:], some)
		}
	})
	return t
}

// store writes values in the matrix's precision.
func (m Matrix) store(data []byte, values []float32) {
	for i, v := range values {
		switch m.DType {
		case safetensors.BF16:
			binary.LittleEndian.PutUint16(data[2*i:], safetensors.ToBF16(v))
		case safetensors.F16:
			binary.LittleEndian.PutUint16(data[2*i:], safetensors.ToF16(v))
		default:
			binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(v))
		}
	}
}

// Tensors are those of a file or of a folder: safetensors.File, safetensors.Set.
type Tensors interface {
	Names() []string
	Tensor(name string) (safetensors.Tensor, error)
}

// extras are the suffixes of tensors that belong to a compressed matrix.
var extras = []string{".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map", ".quant_state.bitsandbytes__nf4", ".quant_state.bitsandbytes__fp4",
	".SCB", ".weight_format", ".scale_weight", ".scale_input", ".weight_scale", ".input_scale", ".comfy_quant", ".weight_scale_inv"}

// Extra reports whether a tensor is a scale, a table or a mark of a compressed matrix.
func Extra(name string) bool {
	return name == "scaled_fp8" || strings.HasSuffix(name, ".scaled_fp8") || slices.ContainsFunc(extras, func(s string) bool { return strings.HasSuffix(name, s) })
}

// newFinder looks at the names of a model's tensors.
func newFinder(t Tensors, metadata map[string]string, d safetensors.DType) (*finder, error) {
	f := &finder{Tensors: t, has: map[string]bool{}, usual: d}
	for _, name := range t.Names() {
		f.has[name] = true
	}
	return f, f.readMetadata(metadata)
}

// Find reads the compressed matrices of a model. Values of formats whose files do not say their precision have d.
func Find(t Tensors, metadata map[string]string, d safetensors.DType) (map[string]Matrix, error) {
	f, err := newFinder(t, metadata, d)
	if err != nil {
		return nil, err
	}
	found := map[string]Matrix{}
	for _, name := range t.Names() {
		if Extra(name) {
			continue
		}
		m, ok, err := f.matrix(name)
		if err != nil {
			return nil, err
		}
		if ok {
			found[name] = m
		}
	}
	return found, nil
}

// A finder looks for matrices.
type finder struct {
	Tensors
	has    map[string]bool
	usual  safetensors.DType
	layers map[string]string // forms of the header's _quantization_metadata
}

func (f *finder) readMetadata(metadata map[string]string) error {
	text, ok := metadata["_quantization_metadata"]
	if !ok {
		return nil
	}
	var said struct {
		Layers map[string]struct {
			Format string `json:"format"`
		} `json:"layers"`
	}
	if err := json.Unmarshal([]byte(text), &said); err != nil {
		return fmt.Errorf("the header's _quantization_metadata: %w", err)
	}
	f.layers = map[string]string{}
	for name, l := range said.Layers {
		f.layers[name] = l.Format
	}
	return nil
}

// matrix is the compressed matrix of a name, if it is one.
func (f *finder) matrix(name string) (Matrix, bool, error) {
	stem, isWeight := strings.CutSuffix(name, ".weight")
	switch {
	case f.has[name+".quant_state.bitsandbytes__nf4"] || f.has[name+".quant_state.bitsandbytes__fp4"]:
		return f.bits4(name)
	case isWeight && f.has[stem+".SCB"]:
		return f.llmInt8(name, stem)
	}
	t, err := f.Tensor(name)
	if err != nil {
		return Matrix{}, false, err
	}
	scale := Grid{}
	for _, s := range []string{".scale_weight", ".weight_scale", ".weight_scale_inv"} {
		if isWeight && f.has[stem+s] {
			if scale, err = f.grid(t, stem+s); err != nil {
				return Matrix{}, false, err
			}
		}
	}
	eight := t.DType == safetensors.F8E4M3 || t.DType == safetensors.F8E5M2
	if form, err := f.form(stem); err != nil {
		return Matrix{}, false, err
	} else if form != "" && (len(scale.Scales) == 0 || !eight && form != "int8_tensorwise") {
		return Matrix{}, false, fmt.Errorf("%s: ComfyUI's form %q, of a tensor in %s with %d scales\nhint: read are float8_e4m3fn, float8_e5m2 and int8_tensorwise", name, form, t.DType, len(scale.Scales))
	}
	m := Matrix{Name: name, Shape: t.Shape, DType: f.usual}
	switch {
	case eight && len(scale.Scales) > 0:
		m.Weight, m.Format = Float8{Form: t.DType, Codes: t.Data, Scale: scale}, "fp8"
	case eight && len(t.Shape) > 1:
		m.Weight, m.Format = Float8{Form: t.DType, Codes: t.Data, Scale: Whole(1)}, "fp8"
	case t.DType == safetensors.I8 && len(scale.Scales) > 0:
		m.Weight, m.Format = Int8{Codes: t.Data, Scale: scale, Over: 1}, "int8"
	case len(scale.Scales) > 0:
		return m, false, fmt.Errorf("%s: scales of a tensor in %s\nhint: read are FP8 and INT8 with scales; a folder in bf16 can be read always", name, t.DType)
	default:
		return m, false, nil
	}
	return m, true, nil
}

// form is ComfyUI's name of a layer's form, "" where it has none.
func (f *finder) form(stem string) (string, error) {
	if f.has[stem+".comfy_quant"] {
		t, err := f.Tensor(stem + ".comfy_quant")
		if err != nil {
			return "", err
		}
		var said struct {
			Format string `json:"format"`
		}
		if err := json.Unmarshal(t.Data, &said); err != nil {
			return "", fmt.Errorf("%s.comfy_quant: %w", stem, err)
		}
		return said.Format, nil
	}
	return f.layers[stem], nil
}

// describe gives a compressed matrix's header the shape and the type of its values. Scales are not read.
func (f *finder) describe(info *safetensors.Info) error {
	stem, _ := strings.CutSuffix(info.Name, ".weight")
	for kind := range states {
		if !f.has[info.Name+".quant_state.bitsandbytes__"+kind] {
			continue
		}
		t, err := f.Tensor(info.Name + ".quant_state.bitsandbytes__" + kind)
		if err != nil {
			return err
		}
		var s State
		if err := json.Unmarshal(t.Data, &s); err != nil {
			return fmt.Errorf("%s: the state of bitsandbytes: %w", info.Name, err)
		}
		info.DType, info.Shape = precisions[s.DType], s.Shape
		return nil
	}
	eight := info.DType == safetensors.F8E4M3 || info.DType == safetensors.F8E5M2
	if eight && len(info.Shape) > 1 || info.DType == safetensors.I8 && (f.has[stem+".SCB"] || f.has[stem+".weight_scale"] || f.has[stem+".scale_weight"]) {
		info.DType = f.usual
	}
	return nil
}

// precisions are those of a state's values.
var precisions = map[string]safetensors.DType{"float32": safetensors.F32, "bfloat16": safetensors.BF16, "float16": safetensors.F16}

func (f *finder) bits4(name string) (Matrix, bool, error) {
	var failed error
	w, s, err := Saved4(name, func(suffix string) (safetensors.Tensor, bool) {
		if !f.has[name+suffix] {
			return safetensors.Tensor{}, false
		}
		t, err := f.Tensor(name + suffix)
		if err != nil {
			failed = err
		}
		return t, err == nil
	})
	if failed != nil {
		err = failed
	}
	if _, ok := precisions[s.DType]; err == nil && !ok {
		err = fmt.Errorf("%s: values in %q\nhint: float32, bfloat16 and float16 are read", name, s.DType)
	}
	return Matrix{Weight: w, Name: name, Shape: s.Shape, DType: precisions[s.DType], Format: s.Type}, err == nil, err
}

func (f *finder) llmInt8(name, stem string) (Matrix, bool, error) {
	t, err1 := f.Tensor(name)
	scb, err2 := f.Tensor(stem + ".SCB")
	if err1 != nil || err2 != nil {
		return Matrix{}, false, fmt.Errorf("%s: %w", name, cmp.Or(err1, err2))
	}
	if t.DType != safetensors.I8 || len(t.Shape) != 2 || scb.DType != safetensors.F32 || scb.Len() != t.Shape[0] {
		return Matrix{}, false, fmt.Errorf("%s: LLM.int8 of %s %v with %d scales in %s; a matrix of I8 with an F32 scale a row is wanted", name, t.DType, t.Shape, scb.Len(), scb.DType)
	}
	scales, err := scb.Float32(nil)
	return Matrix{Weight: LLMInt8(t.Data, scales), Name: name, Shape: t.Shape, DType: f.usual, Format: "llm.int8"}, err == nil, err
}

// grid is the scales of a matrix, whose shape says of which blocks they are: of all, of rows, of groups of a row, or of
// blocks of 128 x 128.
func (f *finder) grid(t safetensors.Tensor, name string) (Grid, error) {
	s, err := f.Tensor(name)
	if err != nil {
		return Grid{}, err
	}
	var scales []float32
	if s.DType == safetensors.U8 || s.DType == safetensors.F8E8M0 {
		for _, e := range s.Data {
			scales = append(scales, float32(math.Ldexp(1, int(e)-127)))
		}
	} else if scales, err = s.Float32(nil); err != nil {
		return Grid{}, err
	}
	if len(scales) == 1 {
		return Whole(scales[0]), nil
	}
	wrong := fmt.Errorf("%s: scales of the shape %v for a tensor of the shape %v\nhint: scales of a matrix, of rows, of groups of a row, and of blocks are read", name, s.Shape, t.Shape)
	if len(t.Shape) != 2 {
		return Grid{}, wrong
	}
	rows, columns := t.Shape[0], t.Shape[1]
	g := Grid{Scales: scales, Columns: columns, Rows: 1}
	switch {
	case len(scales) == rows && (len(s.Shape) == 1 || s.Shape[1] == 1 && len(s.Shape) < 3):
		return g, nil
	case len(s.Shape) == 3 && s.Shape[0] == rows && s.Shape[2] == 1 && s.Shape[1] > 0 && columns%s.Shape[1] == 0:
		g.Across = columns / s.Shape[1]
		return g, nil
	case len(s.Shape) == 2:
		for _, side := range []int{128, 64, 32, 256} {
			if (rows+side-1)/side == s.Shape[0] && (columns+side-1)/side == s.Shape[1] {
				g.Rows, g.Across = side, side
				return g, nil
			}
		}
		if s.Shape[0] > 0 && s.Shape[1] > 0 && rows%s.Shape[0] == 0 && columns%s.Shape[1] == 0 {
			g.Rows, g.Across = rows/s.Shape[0], columns/s.Shape[1]
			return g, nil
		}
	}
	return Grid{}, wrong
}
