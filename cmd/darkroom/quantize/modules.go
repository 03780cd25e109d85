package quantize

import (
	"regexp"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// Which matrices are compressed. bitsandbytes replaces every linear layer but for the head of a language model, and for
// modules that a class keeps in fp32. ComfyUI's files have the layers of the numbered blocks compressed. A file does
// not tell matrices from embeddings: names do.

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

// A choice says of a network's tensors which are compressed.
type choice struct {
	class  string
	blocks bool // matrices of numbered blocks alone
	kept   []*regexp.Regexp
}

// compresses reports whether a tensor is compressed.
func (c choice) compresses(info safetensors.Info) bool {
	return isMatrix(info) && !embeddings.MatchString(info.Name) && !c.keeps(info.Name) && (!c.blocks || numbered.MatchString(info.Name))
}

// isMatrix reports whether a tensor is the weight of a linear layer, or of a table, and plain.
func isMatrix(info safetensors.Info) bool {
	plain := info.DType == safetensors.F32 || info.DType == safetensors.BF16 || info.DType == safetensors.F16
	return plain && len(info.Shape) == 2 && info.Bytes > 0 && strings.HasSuffix(info.Name, ".weight")
}

// keeps reports whether a matrix stays, by its class or by --keep.
func (c choice) keeps(name string) bool {
	module := inFP32[c.class]
	return module != "" && slices.Contains(strings.Split(name, "."), module) || c.asked(name)
}

// asked reports whether --keep names a matrix.
func (c choice) asked(name string) bool {
	return slices.ContainsFunc(c.kept, func(re *regexp.Regexp) bool { return re.MatchString(name) })
}

// skipped are plain modules, where --keep has named some: the list takes the place of a reader's own.
func (c choice) skipped(infos []safetensors.Info) []string {
	var names []string
	any := false
	for _, info := range infos {
		if !isMatrix(info) || c.compresses(info) || embeddings.MatchString(info.Name) && !strings.HasSuffix(info.Name, "lm_head.weight") {
			continue
		}
		any = any || c.asked(info.Name)
		names = append(names, strings.TrimSuffix(info.Name, ".weight"))
	}
	if !any {
		return nil
	}
	slices.Sort(names)
	return names
}
