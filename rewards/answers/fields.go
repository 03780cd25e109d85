package answers

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/edits"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: information that was extracted, as an object of JSON (HunyuanOCR, ie/eval.py). Over the keys of both objects,
// the mean of 1 - Levenshtein's distance / the longer, of values without white space in lower case; a key that one of
// them lacks is an empty text there. The mean has six decimals. The object may stand in a fence or in a text; a reply
// without one is an empty object. A truth in another form is judged as parsing. Invariants (tests): recorded values
// of upstream.

var (
	fieldsFence = regexp.MustCompile("(?is)^\\s*```(?:json)?\\s*(.*?)\\s*```\\s*$")
	fieldsBrace = regexp.MustCompile(`(?s)\{.*\}`)
)

// fieldsOf is the object of a text.
func fieldsOf(text string) (pytext.Ordered, bool) {
	text = pytext.Strip(text)
	if text == "" {
		return pytext.Ordered{}, false
	}
	candidates := []string{text}
	if m := fieldsFence.FindStringSubmatch(text); m != nil {
		candidates = append(candidates, pytext.Strip(m[1]))
	}
	if m := fieldsBrace.FindString(text); m != "" {
		candidates = append(candidates, m)
	}
	for _, c := range candidates {
		if v, err := pytext.OrderedJSON(c); err == nil {
			o, ok := v.(pytext.Ordered)
			return o, ok
		}
	}
	return pytext.Ordered{}, false
}

// fieldText is a value as it is compared.
func fieldText(v any) string {
	var text string
	switch v := v.(type) {
	case nil:
	case string:
		text = v
	case bool, pytext.Number:
		text = pytext.Str(v)
	default:
		text = pytext.Dumps(byKeys(v))
	}
	return pytext.Lower(strings.NewReplacer("\n", "", " ", "").Replace(pytext.Strip(text)))
}

// byKeys is a value whose objects have their keys in order.
func byKeys(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = byKeys(e)
		}
		return out
	case pytext.Ordered:
		out := pytext.Ordered{Keys: slices.Sorted(slices.Values(v.Keys)), Values: pytext.Object{}}
		for _, k := range v.Keys {
			out.Values[k] = byKeys(v.Values[k])
		}
		return out
	}
	return v
}

// Fields judges extracted information.
func Fields(reply, truth string) (rewards.Score, error) {
	want, ok := fieldsOf(truth)
	if !ok {
		return Parsing(reply, truth)
	}
	got, _ := fieldsOf(reply)
	keys := slices.Concat(want.Keys, got.Keys)
	slices.Sort(keys)
	keys = slices.Compact(keys)
	if len(keys) == 0 {
		return judged(0, "fields", reply), nil
	}
	sum := 0.0
	for _, k := range keys {
		a, b := fieldText(want.Values[k]), fieldText(got.Values[k])
		if a == "" && b == "" {
			sum++
			continue
		}
		sum += 1 - float64(edits.Distance(a, b))/float64(max(runes(a), runes(b)))
	}
	value, _ := strconv.ParseFloat(strconv.FormatFloat(sum/float64(len(keys)), 'f', 6, 64), 64)
	return judged(value, "fields", reply), nil
}
