package answers

import (
	"regexp"

	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// What stands between <answer> and the next </answer>. Some projects let it cross lines, some
// do not; some take the first, some the last.
var (
	answerTag  = regexp.MustCompile(`(?s)<answer>(.*?)</answer>`)
	answerLine = regexp.MustCompile(`<answer>(.*?)</answer>`)
)

// firstIn is the first group of the first match.
func firstIn(r *regexp.Regexp, text string) (string, bool) {
	if m := r.FindStringSubmatch(text); m != nil {
		return m[1], true
	}
	return "", false
}

// lastIn is the first group of the last match.
func lastIn(r *regexp.Regexp, text string) (string, bool) {
	all := r.FindAllStringSubmatch(text, -1)
	if all == nil {
		return "", false
	}
	return all[len(all)-1][1], true
}

// orWhole is what was found, or else the whole text, stripped.
func orWhole(found string, ok bool, text string) string {
	if !ok {
		found = text
	}
	return pytext.Strip(found)
}
