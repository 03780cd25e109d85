package inspect

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/vision/onnx"
)

// inspectONNX reads an ONNX file whole, so that a file that the runner refuses is refused here, by the node's name.
func inspectONNX(path string) (*Document, error) {
	m, err := onnx.Open(path, onnx.Options{Backend: ref.Backend{}})
	if err != nil {
		return nil, err
	}
	in := &Document{Path: path, Kind: "ONNX", Library: m.Producer()}
	add := func(key string, value any) { in.Settings = append(in.Settings, setting{Key: key, Value: value}) }
	add("opset", m.Opset())
	for _, i := range m.Inputs() {
		add("input", i.String())
	}
	for _, o := range m.Outputs() {
		add("output", o.String())
	}
	count := m.Operators()
	names := slices.SortedFunc(maps.Keys(count), func(a, b string) int { return cmp.Or(count[b]-count[a], strings.Compare(a, b)) })
	words, nodes := []string{}, 0
	for _, n := range names {
		words, nodes = append(words, fmt.Sprintf("%s %d", n, count[n])), nodes+count[n]
	}
	add("nodes", nodes)
	add("operators", strings.Join(words, ", "))
	add("bytes", m.Bytes())
	for _, key := range slices.Sorted(maps.Keys(m.Metadata())) {
		text := m.Metadata()[key]
		if len(text) > 60 {
			text = fmt.Sprintf("%d bytes", len(text))
		}
		add("metadata "+key, text)
	}
	return in, nil
}
