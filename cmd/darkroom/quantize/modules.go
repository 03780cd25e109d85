package quantize

import (
	"regexp"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn/quant"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// A choice is that of the network's class, and of --keep.
type choice struct {
	quant.Choice
	kept []*regexp.Regexp
}

// compresses reports whether a tensor is compressed.
func (c choice) compresses(info safetensors.Info) bool {
	return c.Compresses(info) && !c.asked(info.Name)
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
		if !quant.IsMatrix(info) || c.compresses(info) || quant.IsEmbedding(info.Name) && !strings.HasSuffix(info.Name, "lm_head.weight") {
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
