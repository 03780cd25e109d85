package scenes

import (
	"regexp"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// kinds are the attributes of captions: a word is replaced by another of its kind.
var kinds = [][]string{Colors, Shapes, {"circles", "squares", "triangles"}, Relations, {"two", "three", "four"}}

// attributes finds whole words of each kind.
var attributes = func() []*regexp.Regexp {
	var out []*regexp.Regexp
	for _, k := range kinds {
		out = append(out, regexp.MustCompile(`\b(`+strings.Join(k, "|")+`)\b`))
	}
	return out
}()

// Corrupt is a caption with one attribute wrong (colour, shape, relation, number or letter),
// as captions of the web are: a model that learns from such captions is often wrong in one
// attribute, and so has room for reinforcement learning.
func Corrupt(prompt string, r *rng.Stream) string {
	type hit struct {
		kind   []string
		lo, hi int
	}
	var hits []hit
	for i, re := range attributes {
		for _, m := range re.FindAllStringIndex(prompt, -1) {
			hits = append(hits, hit{kinds[i], m[0], m[1]})
		}
	}
	if at := strings.IndexByte(prompt, '"'); at >= 0 {
		if n := strings.IndexByte(prompt[at+1:], '"'); n > 0 {
			at += 1 + r.Intn(n)
			hits = append(hits, hit{strings.Split(Letters, ""), at, at + 1})
		}
	}
	if len(hits) == 0 {
		return prompt
	}
	h := hits[r.Intn(len(hits))]
	old := prompt[h.lo:h.hi]
	for {
		if x := h.kind[r.Intn(len(h.kind))]; x != old {
			return prompt[:h.lo] + x + prompt[h.hi:]
		}
	}
}
