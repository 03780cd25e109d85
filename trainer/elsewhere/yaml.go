package elsewhere

import (
	"fmt"
	"path/filepath"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// readYAML is a file's settings, which are mappings, lists and values. Anchors are refused.
func readYAML(path, text string) (*file, error) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(document.Content) == 0 || document.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s has no settings", path)
	}
	v, err := nodeValue(document.Content[0], filepath.Base(path))
	if err != nil {
		return nil, err
	}
	return &file{program: "Flow-Factory", path: path, settings: flat(v.(*table), "")}, nil
}

// nodeValue is a *table, a []any, or a value.
func nodeValue(n *yaml.Node, path string) (any, error) {
	at := func(n *yaml.Node) string { return fmt.Sprintf("%s:%d", path, n.Line) }
	switch n.Kind {
	case yaml.MappingNode:
		t := newTable()
		for i := 0; i+1 < len(n.Content); i += 2 {
			v, err := nodeValue(n.Content[i+1], path)
			if err != nil {
				return nil, err
			}
			t.set(n.Content[i].Value, v, at(n.Content[i]))
		}
		return t, nil
	case yaml.SequenceNode:
		var all []any
		for _, item := range n.Content {
			v, err := nodeValue(item, path)
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		return all, nil
	case yaml.AliasNode:
		return nil, fmt.Errorf("%s: an anchor's copy (*%s) is not read\nhint: write its settings out", at(n), n.Value)
	}
	switch n.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool":
		return strconv.ParseBool(n.Value)
	case "!!int":
		if whole, err := strconv.ParseInt(n.Value, 0, 64); err == nil {
			return whole, nil
		}
	case "!!float":
		if x, err := strconv.ParseFloat(n.Value, 64); err == nil {
			return x, nil
		}
	}
	return n.Value, nil
}
