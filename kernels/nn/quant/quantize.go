package quant

import (
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// Compression of a model's matrices, when it is loaded (Quantized) or for a folder ('darkroom quantize').
//
//	nf4    bitsandbytes: 4 bits, a scale of each 64 values
//	fp8    ComfyUI's fp8_scaled: E4M3, a scale a matrix
//	int8   ComfyUI's int8: a scale a row

// Kinds are the names of compressions that models are quantised to.
func Kinds() []string { return []string{"nf4", "fp8", "int8"} }

// tables are rows to look up, and heads that share them.
var tables = regexp.MustCompile(`(^|\.)(embed_tokens|shared|token_embedding|position_embedding|relative_attention_bias|wte|wpe|lm_head|pos_embed)(\.|$)`)

// Compresses reports whether a tensor is compressed: a matrix of whole blocks that is no table.
func Compresses(name string, shape []int) bool {
	return len(shape) == 2 && strings.HasSuffix(name, ".weight") && shape[0]*shape[1]%nf4Block == 0 && !tables.MatchString(name)
}

// nf4Block is how many values have a scale in nf4.
const nf4Block = 64

// Compress compresses a matrix.
func Compress(kind string, t safetensors.Tensor) (Matrix, error) {
	values, err := t.Float32(nil)
	if err != nil {
		return Matrix{}, err
	}
	m := Matrix{Name: t.Name, Shape: slices.Clone(t.Shape), DType: safetensors.BF16, Format: kind}
	columns := t.Shape[1]
	switch kind {
	case "nf4":
		m.DType, m.Weight = t.DType, quantized4(values)
	case "fp8":
		m.Weight = QuantizeComfy8(safetensors.F8E4M3, values, columns, safetensors.BF16)
	case "int8":
		m.Weight = QuantizeComfy(values, columns, safetensors.BF16, true)
	default:
		return m, fmt.Errorf("%q is no compression; %s are", kind, strings.Join(Kinds(), ", "))
	}
	return m, nil
}

// quantized4 is Quantize4 on several goroutines, each with whole blocks.
func quantized4(values []float32) Bits4 {
	whole := Bits4{Table: NF4(), Block: nf4Block, Codes: make([]byte, (len(values)+1)/2), Absmax: make([]float32, (len(values)+nf4Block-1)/nf4Block)}
	var group sync.WaitGroup
	for worker := range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for from := worker * part; from < len(values); from += runtime.GOMAXPROCS(0) * part {
				w := Quantize4(values[from:min(from+part, len(values))], whole.Table, nf4Block)
				copy(whole.Codes[from/2:], w.Codes)
				copy(whole.Absmax[from/nf4Block:], w.Absmax)
			}
		})
	}
	group.Wait()
	return whole
}

// Quantized is a model whose matrices are compressed when they are read.
type Quantized struct {
	Tensors
	Kind string
}

// Quantize is a model that is not compressed, and whose matrices are to be; "" leaves it as it is.
func Quantize(t Tensors, kind string) (Tensors, error) {
	if kind == "" {
		return t, nil
	}
	for _, name := range t.Names() {
		if h, compressed, err := headerOf(t, name); compressed || err != nil {
			return nil, fmt.Errorf("%s is compressed already (%d bytes, of the shape %v): it is not quantised to %s\nhint: model.quantize is for models in bf16, f16 or f32", name, h.Size, h.Shape, kind)
		}
	}
	return &Quantized{t, kind}, nil
}

// Header is that of a tensor that is compressed.
func (q *Quantized) Header(name string) (h Header, ok bool, err error) {
	t, err := q.Tensors.Tensor(name)
	if err != nil || !Compresses(name, t.Shape) {
		return h, false, err
	}
	n := t.Shape[0] * t.Shape[1]
	h = Header{Shape: t.Shape, DType: safetensors.BF16}
	switch q.Kind {
	case "nf4":
		h.DType, h.Size = t.DType, sized(n/2, 16, n/nf4Block)
	case "int8":
		h.Size = sized(n, 256, t.Shape[0])
	default:
		h.Size = sized(n, 256, 1)
	}
	return h, true, nil
}

// Codes are those of a tensor that is compressed.
func (q *Quantized) Codes(name string) (c Codes, d safetensors.DType, ok bool, err error) {
	m, ok, err := q.matrix(name)
	if !ok || err != nil {
		return c, d, false, err
	}
	return m.coded()
}

// Tensor has the values that codes stand for.
func (q *Quantized) Tensor(name string) (safetensors.Tensor, error) {
	m, ok, err := q.matrix(name)
	if err != nil {
		return safetensors.Tensor{}, err
	}
	if ok {
		return m.Tensor(), nil
	}
	return q.Tensors.Tensor(name)
}

func (q *Quantized) matrix(name string) (m Matrix, ok bool, err error) {
	t, err := q.Tensors.Tensor(name)
	if err != nil || !Compresses(name, t.Shape) {
		return m, false, err
	}
	m, err = Compress(q.Kind, t)
	return m, err == nil, err
}

// Drop gives back the pages that were read.
func (q *Quantized) Drop(name string) {
	if d, ok := q.Tensors.(interface{ Drop(string) }); ok {
		d.Drop(name)
	}
}

// Where says where a tensor lies, for messages.
func (q *Quantized) Where(name string) string { return where(q.Tensors, name) }
