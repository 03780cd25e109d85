package answers

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/abadojack/whatlanggo"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/evidence"
)

// Card: language consistency (DeepSeek-R1, 2025, section 2.3.2, by words of the chain of thought; GLM-4.5V has it,
// too). The reward is the share of a reply that is in the wanted language: meta.language, a code of ISO 639 such as
// "en" or "deu", or else the language of the prompt. Every turn counts, thoughts included. A paragraph is in one
// language, unless it mixes scripts: then its Chinese, Japanese or Korean is one part, and the rest another. Letters
// are counted, and signs that write a syllable or a word as four of them, so that the share is about that of words: a
// gate at_least = 0.7 is the rule "more than 30 % of words of another language". Calls of tools, tags, code and
// formulas are in none.
//
// Which language a text is in, trigrams and scripts tell (whatlanggo), among those of spoken. A text of fewer than
// fewLetters letters tells nothing: it counts for nobody, and a reply of nothing else is 1, with that as the evidence.
// Invariants (tests): a reply in the prompt's language is 1, one in another 0, half and half about one half.
type Language struct{}

// fewLetters is how short a text must be not to tell its language.
const fewLetters = 24

// spoken are the languages that are distinguished: those that models are asked in. With all that trigrams know, short
// texts are taken for their small neighbours.
var spoken = []whatlanggo.Lang{whatlanggo.Eng, whatlanggo.Cmn, whatlanggo.Deu, whatlanggo.Fra, whatlanggo.Spa, whatlanggo.Por, whatlanggo.Ita,
	whatlanggo.Nld, whatlanggo.Swe, whatlanggo.Pol, whatlanggo.Ces, whatlanggo.Hun, whatlanggo.Ron, whatlanggo.Tur, whatlanggo.Vie, whatlanggo.Ind,
	whatlanggo.Rus, whatlanggo.Ukr, whatlanggo.Arb, whatlanggo.Pes, whatlanggo.Hin, whatlanggo.Jpn, whatlanggo.Kor, whatlanggo.Tha, whatlanggo.Heb, whatlanggo.Ell}

// unspoken matches text of no language: calls, code, formulas, tags.
var unspoken = regexp.MustCompile("(?s)<tool_call>.*?</tool_call>|<tool_response>.*?</tool_response>|```.*?```|`[^`]*`|\\$\\$.*?\\$\\$|\\$[^$\\n]*\\$|\\\\[a-zA-Z]+|<[^<>]*>|https?://\\S+")

// Score judges a conversation.
func (Language) Score(_ context.Context, item rewards.Item) (rewards.Score, error) {
	if _, err := lastTurn(item); err != nil {
		return rewards.Score{}, err
	}
	want, told, err := wanted(item)
	if err != nil {
		return rewards.Score{}, err
	}
	s := rewards.Score{Value: 1}
	if !told {
		s.Because("language", "the prompt is too short to tell its language; meta.language names one")
		return s, nil
	}
	letters := map[whatlanggo.Lang]int{}
	all := 0
	for _, turn := range item.Transcript.Turns {
		for paragraph := range strings.SplitSeq(unspoken.ReplaceAllString(turn.Text, " "), "\n") {
			for _, part := range scriptsOf(paragraph) {
				if in, n, ok := languageOf(part, want); ok {
					letters[in] += n
					all += n
				}
			}
		}
	}
	if all == 0 {
		s.Because("language", "the reply is too short to tell")
		return s, nil
	}
	s.Value = float64(letters[want]) / float64(all)
	for _, in := range append([]whatlanggo.Lang{want}, spoken...) {
		if n := letters[in]; n > 0 {
			s.Evidence = append(s.Evidence, evidence.Reason{What: "language", Text: in.String(), Value: float64(n) / float64(all)})
			delete(letters, in)
		}
	}
	return s, nil
}

// wanted is the language that a reply should have; told is false where the item names none.
func wanted(item rewards.Item) (in whatlanggo.Lang, told bool, err error) {
	if _, ok := item.Meta["language"]; !ok {
		in, _, told = languageOf(unspoken.ReplaceAllString(item.Prompt, " "), -1)
		return in, told, nil
	}
	code, err := item.Meta.Text("language")
	if err != nil {
		return in, false, err
	}
	for in := range whatlanggo.Langs {
		if in.Iso6391() == strings.ToLower(code) || in.Iso6393() == strings.ToLower(code) {
			return in, true, nil
		}
	}
	return in, false, fmt.Errorf("meta.language of the prompt is %q, which is no known code of ISO 639: \"en\" and \"deu\" are some", code)
}

// isDense is whether a letter is of a script that writes a syllable or a word with one.
func isDense(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
}

// lettersOf counts letters, dense ones as four.
func lettersOf(text string) (n int) {
	for _, r := range text {
		switch {
		case isDense(r):
			n += 4
		case unicode.IsLetter(r):
			n++
		}
	}
	return n
}

// scriptsOf is a paragraph, or its dense letters and the rest of it where each is long enough to tell its language.
func scriptsOf(paragraph string) []string {
	only := func(keep func(r rune) bool) string {
		return strings.Map(func(r rune) rune {
			if unicode.IsLetter(r) && !keep(r) {
				return ' '
			}
			return r
		}, paragraph)
	}
	dense, rest := only(isDense), only(func(r rune) bool { return !isDense(r) })
	if lettersOf(dense) < fewLetters || lettersOf(rest) < fewLetters {
		return []string{paragraph}
	}
	return []string{dense, rest}
}

// languageOf is the language of a text and the number of its letters; false where it is too short.
func languageOf(text string, also whatlanggo.Lang) (in whatlanggo.Lang, letters int, ok bool) {
	if letters = lettersOf(text); letters < fewLetters {
		return in, letters, false
	}
	among := map[whatlanggo.Lang]bool{}
	for _, l := range spoken {
		among[l] = true
	}
	if also >= 0 {
		among[also] = true
	}
	info := whatlanggo.DetectWithOptions(text, whatlanggo.Options{Whitelist: among})
	return info.Lang, letters, info.Lang >= 0
}

// LanguageKind is reward language.
var LanguageKind = replies(rewards.Kind{
	Name:   "language",
	Card:   "Share of a reply that is in the language of the prompt, or that meta.language names, thoughts included (DeepSeek-R1).",
	Paper:  "DeepSeek-R1 (Guo et al., 2025)",
	Bounds: rewards.Unit,
}, Language{})
