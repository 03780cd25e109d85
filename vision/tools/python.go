package tools

import (
	"math"
	"strings"

	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Published tools' treatment of a call's values, mistakes included: they index and compare any result of json.loads,
// and the model reads Python's exceptions.

// field is v[key].
func field(v any, key string) (any, error) {
	switch v := v.(type) {
	case pytext.Ordered:
		if x, ok := v.Values[key]; ok {
			return x, nil
		}
		return nil, missing(key)
	case []any:
		return nil, refuse(WrongType, "TypeError", "list indices must be integers or slices, not str")
	case string:
		return nil, refuse(WrongType, "TypeError", "string indices must be integers, not 'str'")
	}
	return nil, refuse(WrongType, "TypeError", "'%s' object is not subscriptable", pytext.TypeName(v))
}

func missing(key any) *Refusal {
	r := refuse(MissingKey, "KeyError", "%s", pytext.ReprOf(key))
	r.Key = pytext.Str(key)
	return r
}

// element is v[i].
func element(v any, i int) (any, error) {
	switch v := v.(type) {
	case []any:
		if i < len(v) {
			return v[i], nil
		}
		return nil, refuse(BoxArity, "IndexError", "list index out of range")
	case string:
		if runes := []rune(v); i < len(runes) {
			return string(runes[i]), nil
		}
		return nil, refuse(BoxArity, "IndexError", "string index out of range")
	case pytext.Ordered:
		return nil, missing(pytext.NewInt(i))
	}
	return nil, refuse(WrongType, "TypeError", "'%s' object is not subscriptable", pytext.TypeName(v))
}

// items is list(v): a text gives its characters, a dict its keys.
func items(v any) ([]any, bool) {
	switch v := v.(type) {
	case []any:
		return v, true
	case string:
		var all []any
		for _, r := range v {
			all = append(all, string(r))
		}
		return all, true
	case pytext.Ordered:
		var all []any
		for _, k := range v.Keys {
			all = append(all, k)
		}
		return all, true
	}
	return nil, false
}

// number is a value that takes part in arithmetic.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case pytext.Number:
		return v.Value, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// toFloat is float(v).
func toFloat(v any) (float64, error) {
	if n, ok := v.(pytext.Number); ok && !n.IsFloat && math.IsInf(n.Value, 0) {
		return 0, refuse(BadValue, "OverflowError", "int too large to convert to float")
	}
	if x, ok := number(v); ok {
		return x, nil
	}
	s, ok := v.(string)
	if !ok {
		return 0, refuse(WrongType, "TypeError", "float() argument must be a string or a real number, not '%s'", pytext.TypeName(v))
	}
	if x, ok := pytext.Float(s); ok {
		return x, nil
	}
	return 0, refuse(BadValue, "ValueError", "could not convert string to float: %s", pytext.ReprOf(s))
}

// atLeast is max(low, v), which is low where v is not a number; atMost is min(high, v).
func atLeast(low float64, v any) (float64, error) {
	x, ok := number(v)
	if !ok {
		return 0, uncomparable(">", v)
	}
	if x > low {
		return x, nil
	}
	return low, nil
}

func atMost(high float64, v any) (float64, error) {
	x, ok := number(v)
	if !ok {
		return 0, uncomparable("<", v)
	}
	if x < high {
		return x, nil
	}
	return high, nil
}

func uncomparable(sign string, v any) *Refusal {
	return refuse(WrongType, "TypeError", "'%s' not supported between instances of '%s' and 'int'", sign, pytext.TypeName(v))
}

// between is re.findall(open + "(.*?)" + end) over lines: the texts between pairs of tags, each opening one with the
// next closing one.
func between(text, open, end string) []string {
	var all []string
	for {
		_, rest, ok := strings.Cut(text, open)
		if !ok {
			return all
		}
		inside, after, ok := strings.Cut(rest, end)
		if !ok {
			return all
		}
		all, text = append(all, inside), after
	}
}

// without is re.sub of these pairs by nothing.
func without(text, open, end string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, open)
		_, after, closed := strings.Cut(rest, end)
		if !ok || !closed {
			return b.String() + text
		}
		b.WriteString(before)
		text = after
	}
}

// A tagged is a pair of tags by name, and the text between.
type tagged struct{ name, inside string }

// allTagged is re.findall("<(a|b)>(.*?)</\1>"): pairs of any of the names, from left to right,
// none within another.
func allTagged(text string, names ...string) []tagged {
	var all []tagged
	open := map[string]bool{} // names whose closing tag may still come
	for _, name := range names {
		open[name] = true
	}
	for at := 0; at < len(text); at++ {
		if text[at] != '<' {
			continue
		}
		for _, name := range names {
			rest, ok := strings.CutPrefix(text[at:], "<"+name+">")
			if !ok || !open[name] {
				continue
			}
			inside, _, closed := strings.Cut(rest, "</"+name+">")
			if !closed {
				open[name] = false
				continue
			}
			all = append(all, tagged{name, inside})
			at += 2*len(name) + len("<></>") + len(inside) - 1
			break
		}
	}
	return all
}

// last is the last of a list, and whether there is one.
func last[T any](list []T) (T, bool) {
	if len(list) == 0 {
		var none T
		return none, false
	}
	return list[len(list)-1], true
}
