package elsewhere

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readYAML is a file's settings, which are mappings, lists and values. Anchors are refused.
func readYAML(path, text string) (*file, error) {
	top := place{path, 1, 1}
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		says := strings.TrimPrefix(err.Error(), "yaml: ")
		if n, err := fmt.Sscanf(says, "line %d:", &top.line); n == 1 && err == nil {
			_, says, _ = strings.Cut(says, ": ")
		}
		return nil, top.mistake(says, "")
	}
	if len(document.Content) == 0 || document.Content[0].Kind != yaml.MappingNode {
		return nil, top.mistake("no settings", "")
	}
	v, err := nodeValue(document.Content[0], path)
	if err != nil {
		return nil, err
	}
	all, err := flat(nil, v.(*table), "")
	return &file{program: "Flow-Factory", path: path, at: top, settings: all}, err
}

// words are YAML 1.1's for booleans, which PyYAML reads.
var words = map[string]bool{"yes": true, "on": true, "true": true, "no": false, "off": false, "false": false}

// nodeValue is a *table, a []any, or a value.
func nodeValue(n *yaml.Node, path string) (any, error) {
	at := func(n *yaml.Node) place { return place{path, n.Line, n.Column} }
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
		all := []any{}
		for _, item := range n.Content {
			v, err := nodeValue(item, path)
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		return all, nil
	case yaml.AliasNode:
		return nil, at(n).mistake("an anchor's copy (*"+n.Value+") is not read", "write its settings out")
	}
	truth, isWord := words[strings.ToLower(n.Value)]
	switch tag := n.ShortTag(); {
	case tag == "!!null":
		return nil, nil
	case isWord && (tag == "!!bool" || n.Style == 0):
		return truth, nil
	case tag == "!!bool":
		return nil, at(n).mistake(fmt.Sprintf("%q is no boolean", n.Value), "true or false")
	case tag == "!!int":
		if whole, err := strconv.ParseInt(n.Value, 0, 64); err == nil {
			return whole, nil
		}
	case tag == "!!float":
		if x, err := strconv.ParseFloat(n.Value, 64); err == nil && !math.IsInf(x, 0) && !math.IsNaN(x) {
			return x, nil
		}
	}
	return n.Value, nil
}
