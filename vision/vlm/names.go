package vlm

import (
	"slices"
	"strings"
)

// Names are how libraries call the layers of a Qwen-VL model. Published folders of Qwen2-VL and Qwen2.5-VL have the
// older names, those of Qwen3-VL today's; transformers reads both in folders, and in adapters its own alone.
type Names int

// The names.
const (
	Transformers5 Names = iota // since 4.52: model.language_model.layers..., model.visual...
	Transformers4              // until 4.51: model.layers..., visual...
)

// moved are the beginnings that changed, the older one first.
func moved() [][2]string {
	return [][2]string{{"model.embed_tokens.", "model.language_model.embed_tokens."}, {"model.layers.", "model.language_model.layers."},
		{"model.norm.", "model.language_model.norm."}, {"visual.", "model.visual."}}
}

// Of is the name of a layer or a parameter that has either name.
func (n Names) Of(name string) string {
	for _, m := range moved() {
		from, to := m[0], m[1]
		if n == Transformers4 {
			from, to = to, from
		}
		if rest, ok := strings.CutPrefix(name+".", from); ok { // a layer's name has no dot at its end
			return strings.TrimSuffix(to+rest, ".")
		}
	}
	return name
}

// NamesOf are those of a folder, by the names of its parameters.
func NamesOf(names []string) Names {
	if slices.ContainsFunc(names, nested) {
		return Transformers5
	}
	return Transformers4
}

func nested(name string) bool { return strings.HasPrefix(name, "model.language_model.") }
