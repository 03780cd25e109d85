package ablate

import (
	"fmt"
	"slices"
	"strings"
)

// A Vary is a key and the values that it takes, as they are written on a command line.
type Vary struct {
	Key    string   `json:"key"`
	Values []string `json:"values"`
}

// ParseVary reads KEY=v1,v2,... A comma within brackets, braces or quotation marks belongs to its
// value, so lists and tables can be varied: targets=["a","b"],["c"].
func ParseVary(s string) (Vary, error) {
	key, rest, ok := strings.Cut(s, "=")
	v := Vary{Key: strings.TrimSpace(key)}
	if !ok || v.Key == "" {
		return v, fmt.Errorf("--vary %q: what varies is KEY=VALUE,VALUE,...\nhint: for example --vary sampler.window.size=1,2,4", s)
	}
	switch v.Key {
	case "run.seed":
		return v, fmt.Errorf("--vary run.seed: every combination has the same seeds\nhint: --seeds says how many")
	case "run.iterations":
		return v, fmt.Errorf("--vary run.iterations: every combination has the same budget\nhint: --budget says which")
	case "run.name":
		return v, fmt.Errorf("--vary run.name: a name changes nothing\nhint: folders are named after what varies")
	}
	values, err := split(rest)
	if err != nil {
		return v, fmt.Errorf("--vary %s: %w", v.Key, err)
	}
	for _, value := range values {
		if value = strings.TrimSpace(value); value == "" {
			return v, fmt.Errorf("--vary %s: a value is empty in %q\nhint: an empty string is \"\"", v.Key, rest)
		}
		if slices.Contains(v.Values, value) {
			return v, fmt.Errorf("--vary %s: the value %s is there twice", v.Key, value)
		}
		v.Values = append(v.Values, value)
	}
	return v, nil
}

// split cuts at commas outside of brackets and quotation marks.
func split(s string) ([]string, error) {
	var parts []string
	var open []byte // brackets that wait for their other half
	closes := map[byte]byte{']': '[', '}': '{', ')': '('}
	start, quote := 0, byte(0)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0:
			if c == '\\' && quote == '"' {
				i++
			} else if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '[' || c == '{' || c == '(':
			open = append(open, c)
		case closes[c] != 0:
			if len(open) == 0 || open[len(open)-1] != closes[c] {
				return nil, fmt.Errorf("%q closes nothing in %q", c, s)
			}
			open = open[:len(open)-1]
		case c == ',' && len(open) == 0:
			parts, start = append(parts, s[start:i]), i+1
		}
	}
	if quote != 0 || len(open) > 0 {
		return nil, fmt.Errorf("something is not closed in %q", s)
	}
	return append(parts, s[start:]), nil
}
