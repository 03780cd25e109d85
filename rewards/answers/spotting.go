package answers

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/rewards/evidence"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: texts with their boxes (HunyuanOCR, spotting.py). In four forms, each side in its own:
//
//	<ref>text</ref><quad>(x1,y1),(x2,y2)</quad>
//	<quad><pos_x1><pos_y1><pos_x2><pos_y2></quad><ref>text</ref>
//	text(x1,y1),(x2,y2)
//	[{"box": [x1, y1, x2, y2], "text": "..."}]
//
// A box of the reply takes the box of the truth, which no other has taken, with the largest intersection over union,
// if that is 0.5; then the pair's texts are so far apart as Levenshtein's distance over the longer. A box without
// another is as far apart as can be:
//
//	1 - sum of distances / (pairs + boxes without another + 1e-6)
//
// A reply that is the truth but for full stops is 1, one in no form 0; where nothing can be read out of a form, there
// is no score. Invariants (tests): recorded values of upstream.

// A spot is a text with its box.
type spot struct {
	text string
	box  boxes.Box
}

var (
	spotCoordinates = regexp.MustCompile(`\((\p{Nd}+),(\p{Nd}+)\),\((\p{Nd}+),(\p{Nd}+)\)`)
	spotPlain       = regexp.MustCompile(`[^(]+\(\p{Nd}+,\p{Nd}+\),\(\p{Nd}+,\p{Nd}+\)`)
	spotRef         = regexp.MustCompile(`<ref>(.*?)</ref>`)
	spotQuad        = regexp.MustCompile(`<quad>\((\p{Nd}+),(\p{Nd}+)\),\((\p{Nd}+),(\p{Nd}+)\)`)
	spotPlaces      = regexp.MustCompile(`<quad><pos_(\p{Nd}+)><pos_(\p{Nd}+)><pos_(\p{Nd}+)><pos_(\p{Nd}+)></quad><ref>(.*?)</ref>`)
	spotSays        = regexp.MustCompile(`[^\s(),]`)
)

// spots reads a text; ok says whether it is in one of the forms.
func spots(text string) (list []spot, ok bool) {
	if list, ok := spotList(pytext.Strip(text)); ok {
		return list, true
	}
	switch {
	case strings.Contains(text, "<ref>") && strings.Contains(text, "<quad>("):
		for _, part := range strings.Split(text, "</quad>") {
			said, at := spotRef.FindStringSubmatch(part), spotQuad.FindStringSubmatch(part)
			if said != nil && at != nil {
				list = append(list, spot{pytext.Strip(said[1]), wholeBox(at[1:])})
			}
		}
	case strings.Contains(text, "<quad><pos_") && strings.Contains(text, "</quad><ref>"):
		for _, m := range spotPlaces.FindAllStringSubmatch(text, -1) {
			list = append(list, spot{pytext.Strip(m[5]), wholeBox(m[1:5])})
		}
	case spotPlain.MatchString(text):
		last := 0
		for _, m := range spotCoordinates.FindAllStringSubmatchIndex(text, -1) {
			said := pytext.Strip(text[last:m[0]])
			last = m[1]
			if spotSays.MatchString(said) {
				at := spotCoordinates.FindStringSubmatch(text[m[0]:m[1]])
				list = append(list, spot{said, wholeBox(at[1:])})
			}
		}
	default:
		return nil, false
	}
	return list, true
}

// wholeBox is a box of four whole numbers.
func wholeBox(numbers []string) (b boxes.Box) {
	for i := range b {
		b[i], _ = strconv.ParseFloat(numbers[i], 64)
	}
	return b
}

// spotList reads a list of objects.
func spotList(text string) (list []spot, ok bool) {
	if !strings.HasPrefix(text, "[") || !strings.HasSuffix(text, "]") || !strings.Contains(text, `"text"`) || !strings.Contains(text, `"box"`) && !strings.Contains(text, `"bbox"`) {
		return nil, false
	}
	v, err := pytext.JSON(text)
	entries, isList := v.([]any)
	if err != nil || !isList || len(entries) == 0 {
		return nil, false
	}
	boxOf := func(o pytext.Object) (any, bool) {
		if box, ok := o["box"]; ok {
			return box, true
		}
		box, ok := o["bbox"]
		return box, ok
	}
	first, _ := entries[0].(pytext.Object)
	if _, ok := boxOf(first); !ok {
		return nil, false
	}
	for _, e := range entries {
		o, _ := e.(pytext.Object)
		box, _ := boxOf(o)
		numbers, _ := box.([]any)
		if len(numbers) != 4 {
			continue
		}
		s, good := spot{}, true
		for i, n := range numbers {
			x, ok := numeric(n)
			if said, text := n.(string); text {
				whole, err := strconv.Atoi(pytext.Strip(said))
				x, ok = float64(whole), err == nil
			}
			good = good && ok && !math.IsNaN(x) && !math.IsInf(x, 0)
			s.box[i] = math.Trunc(x)
		}
		if good {
			said, has := o["text"]
			if has {
				s.text = pytext.Strip(pytext.Str(said))
			}
			list = append(list, s)
		}
	}
	return list, true
}

// insideAnswer is the text in the first answer tag, or all of it.
func insideAnswer(text string) string {
	if strings.Contains(text, "<answer>") && strings.Contains(text, "</answer>") {
		if said, ok := firstIn(answerWhole, text); ok {
			return pytext.Strip(said)
		}
	}
	return text
}

var answerWhole = regexp.MustCompile(`(?s)<answer>(.+?)</answer>`)

var errNoSpots = errors.New("nothing can be read out of the form of the reply, or of meta.answer")

// Spotting judges texts with their boxes.
func Spotting(reply, truth string) (rewards.Score, error) {
	reply, truth = insideAnswer(reply), insideAnswer(truth)
	bare := func(s string) string { return strings.NewReplacer(".", "", "。", "").Replace(pytext.Strip(s)) }
	const none = "没有文字"
	if r, t := bare(reply), bare(truth); r == t || strings.Contains(r, none) && (t == "" || strings.Contains(t, none)) {
		return judged(1, "reply", reply), nil
	}
	found, formed := spots(reply)
	if !formed {
		return judged(0, "no form", reply), nil
	}
	want, formed := spots(truth)
	if !formed {
		return rewards.Score{}, errors.New("meta.answer is in none of the forms of spotting")
	}
	if len(found) == 0 || len(want) == 0 {
		return rewards.Score{}, errNoSpots
	}
	sum, pairs := 0.0, 0
	taken := make([]bool, len(want))
	s := rewards.Score{}
	for _, f := range found {
		best, at := -1.0, -1
		for j, w := range want {
			if over := boxes.IoU(f.box, w.box); !taken[j] && over > best {
				best, at = over, j
			}
		}
		s.Evidence = append(s.Evidence, evidence.Reason{What: "found", Text: shown(f.text), Box: &f.box})
		if best >= 0.5 {
			taken[at] = true
			sum += apart(normalised(f.text), normalised(want[at].text))
		} else {
			sum += apart(normalised(f.text), "")
		}
		pairs++
	}
	for j, w := range want {
		if !taken[j] {
			sum += apart(normalised(w.text), "")
			pairs++
		}
	}
	s.Value = lessApart(sum, pairs)
	return s, nil
}
