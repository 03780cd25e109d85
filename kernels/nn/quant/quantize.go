package quant

import (
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// Which matrices are compressed, when a model is loaded (Quantized) or for a folder ('darkroom quantize'). bitsandbytes
// replaces every linear layer but for the head of a language model, and for modules that a class keeps in fp32.
// ComfyUI's files have the layers of the numbered blocks compressed. A file does not tell matrices from embeddings:
// names do.

// embeddings are tables of rows, and heads.
var embeddings = regexp.MustCompile(`(^|[._])(shared|embed_tokens|tok_embeddings|wte|wpe|word_embeddings|token_embedding|position_embedding|` +
	`position_embeddings|token_type_embeddings|relative_attention_bias|relative_attn_bias|embed_positions|pos_embed|class_embedding|lm_head)\.weight$`)

// numbered are layers of a block.
var numbered = regexp.MustCompile(`\.\d+\.`)

// inFP32 are modules that diffusers' and transformers' classes keep in fp32 (_keep_in_fp32_modules), and so plain.
var inFP32 = map[string]string{
	"T5EncoderModel": "wo", "T5ForConditionalGeneration": "wo", "UMT5EncoderModel": "wo",
	"WanTransformer3DModel": "time_embedder",
}

// A Choice says of a network's tensors which are compressed.
type Choice struct {
	Class  string
	Blocks bool // matrices of numbered blocks alone
}

// ChoiceOf is that of a network in a folder of diffusers or transformers.
func ChoiceOf(kind, class string, diffusers bool) Choice {
	return Choice{Class: class, Blocks: kind == "fp8" && diffusers}
}

// Compresses reports whether a tensor is compressed.
func (c Choice) Compresses(info safetensors.Info) bool {
	module := inFP32[c.Class]
	return IsMatrix(info) && !IsEmbedding(info.Name) && (module == "" || !slices.Contains(strings.Split(info.Name, "."), module)) &&
		(!c.Blocks || numbered.MatchString(info.Name))
}

// IsMatrix reports whether a tensor is the weight of a linear layer, or of a table, and plain.
func IsMatrix(info safetensors.Info) bool {
	plain := info.DType == safetensors.F32 || info.DType == safetensors.BF16 || info.DType == safetensors.F16
	return plain && len(info.Shape) == 2 && info.Bytes > 0 && strings.HasSuffix(info.Name, ".weight")
}

// IsEmbedding reports whether a matrix is a table, or a head.
func IsEmbedding(name string) bool { return embeddings.MatchString(name) }

// ClassOf is the class that a network's config.json names, and whether it is one of diffusers'.
func ClassOf(config map[string]any) (class string, diffusers bool) {
	if class, diffusers = config["_class_name"].(string); diffusers {
		return class, true
	}
	if classes, _ := config["architectures"].([]any); len(classes) > 0 {
		class, _ = classes[0].(string)
	}
	return class, false
}

// Kinds are the names of compressions that models are quantised to as they are loaded.
func Kinds() []string { return []string{"nf4", "fp8", "int8"} }

// savingOf is how 'darkroom quantize' compresses a folder.
func savingOf(kind string, diffusers bool) Saving {
	switch {
	case kind == "int8":
		return BitsandbytesInt8()
	case kind == "fp8" && diffusers:
		return ComfyFloat8()
	case kind == "fp8":
		return BlockFloat8()
	}
	return Bitsandbytes4(kind, true)
}

// Quantized is a model whose matrices are compressed when they are read.
type Quantized struct {
	Tensors
	kind   string
	choice Choice
	saving Saving
}

// Quantize is a folder's network that is not compressed, and whose matrices are to be; kind "" leaves it as it is.
func Quantize(t Tensors, kind, dir string) (Tensors, error) {
	if kind == "" {
		return t, nil
	}
	for _, name := range t.Names() {
		if h, compressed, err := headerOf(t, name); compressed || err != nil {
			return nil, fmt.Errorf("%s is compressed already (%d bytes, of the shape %v): it is not quantised to %s\nhint: model.quantize is for models in bf16, f16 or f32", name, h.Size, h.Shape, kind)
		}
	}
	return quantized(t, kind, dir)
}

// quantized reads which matrices of a class are compressed.
func quantized(t Tensors, kind, dir string) (*Quantized, error) {
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		return nil, err
	}
	var config map[string]any
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, "config.json"), err)
	}
	class, diffusers := ClassOf(config)
	return &Quantized{t, kind, ChoiceOf(kind, class, diffusers), savingOf(kind, diffusers)}, nil
}

// Absent are the headers that matrices would have of a folder's network whose weights are not there; nil of kind "".
func Absent(kind, dir string) (func(safetensors.Info) (Header, bool), error) {
	if kind == "" {
		return nil, nil
	}
	q, err := quantized(nil, kind, dir)
	if err != nil {
		return nil, err
	}
	return q.header, nil
}

// Compresses reports whether a tensor is compressed.
func (q *Quantized) Compresses(t safetensors.Tensor) bool { return q.choice.Compresses(infoOf(t)) }

func infoOf(t safetensors.Tensor) safetensors.Info {
	return safetensors.Info{Name: t.Name, DType: t.DType, Shape: t.Shape, Bytes: int64(len(t.Data))}
}

// Header is that of a tensor that is compressed.
func (q *Quantized) Header(name string) (h Header, ok bool, err error) {
	t, err := q.Tensors.Tensor(name)
	if err != nil {
		return h, false, err
	}
	h, ok = q.header(infoOf(t))
	return h, ok, nil
}

func (q *Quantized) header(t safetensors.Info) (h Header, ok bool) {
	if !q.choice.Compresses(t) {
		return h, false
	}
	n := t.Shape[0] * t.Shape[1]
	h = Header{Shape: t.Shape, DType: safetensors.BF16}
	switch {
	case q.kind == "nf4":
		h.DType, h.Size = t.DType, sized(parts(n, 2), 16, parts(n, block4))
	case q.kind == "int8":
		h.Size = sized(n, 256, t.Shape[0])
	default:
		h.Size = sized(n, 256, parts(t.Shape[0], 128)*parts(t.Shape[1], 128))
	}
	return h, true
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
	if err != nil || !q.Compresses(t) {
		return m, false, err
	}
	_, m = q.saving.Save(name, t.DType, slices.Clone(t.Shape), strips(t, &err))
	if err != nil {
		return m, false, err
	}
	if q.kind != "nf4" { // whose files say the precision of the values
		m.DType = safetensors.BF16
	}
	return m, true, nil
}

// stripValues is about how many values of a matrix lie in fp32 at once.
const stripValues = 1 << 20

// strips are the values of a matrix's rows, StripRows or multiples of them at once, each in the memory of the one
// before.
func strips(t safetensors.Tensor, failure *error) iter.Seq[[]float32] {
	rows, columns := t.Shape[0], t.Shape[1]
	each := max(1, stripValues/(StripRows*max(1, columns))) * StripRows
	return func(yield func([]float32) bool) {
		memory := make([]float32, min(each, rows)*columns)
		for from := 0; from < rows; from += each {
			part, err := t.Rows(from, min(from+each, rows))
			if err == nil {
				_, err = part.Float32(memory[:part.Len()])
			}
			if err != nil {
				*failure = err
				return
			}
			if !yield(memory[:part.Len()]) {
				return
			}
		}
	}
}

// Drop gives back the pages that were read.
func (q *Quantized) Drop(name string) {
	if d, ok := q.Tensors.(interface{ Drop(string) }); ok {
		d.Drop(name)
	}
}

// Where says where a tensor lies, for messages.
func (q *Quantized) Where(name string) string { return where(q.Tensors, name) }
