package judge

import (
	"context"
	"regexp"
	"strings"
	"unicode"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: HunyuanOCR's judges of replies, without pictures (Tencent-Hunyuan/HunyuanOCR@40b26e26, train_verl/reward:
// ocr_scorer.py, ocr_utils.py, prompts of utils/prompt.py). The other scorers are rules of package answers.
//
//	translation  a mark m from 0 to 5, beside a reference: 0.1 m up to 2, 0.2 + 0.3 (m - 2) up to 4,
//	             then 0.8 + 0.2 (m - 4)
//	vqa          "Judgement: 1" or "Judgement: 0"
//
// A mark is read after "Final Score:" and the like, of JSON, or at last from the end of a reply that speaks of a score.
// meta.answer is the reference, meta.source_lang_text the source, meta.target_lang the language asked for;
// upstream's words replace texts that a prompt lacks. A judgement that cannot be read is asked for again, three
// times in all; then, and of an empty reply, there is no score (upstream: -1, which leaves the sample out).
// Invariants (tests): marks of upstream's function.

// HunyuanOCR is a judge of replies by its question.
type HunyuanOCR struct {
	Model    Completer
	Question string // a name of Templates
	Read     func(judgement string) (value, mark float64, ok bool)
	Tries    int
}

// hunyuanMissing replaces a text that a prompt lacks.
const hunyuanMissing = "[未提供，请根据参考译文判断]"

// Score judges the last turn.
func (h HunyuanOCR) Score(ctx context.Context, item rewards.Item) (rewards.Score, error) {
	if item.Transcript == nil || len(item.Transcript.Turns) == 0 || item.Transcript.Last() == "" {
		return rewards.Score{}, errNoReply
	}
	b := Blanks{Prompt: asked(item), Answer: item.Transcript.Last(), Source: hunyuanMissing, Language: hunyuanMissing}
	var err error
	if b.Truth, err = truthOf(item.Meta); err != nil {
		return rewards.Score{}, err
	}
	if text, err := item.Meta.Text("source_lang_text"); err == nil && text != "" {
		b.Source = text
	}
	if text, err := item.Meta.Text("target_lang"); err == nil && text != "" {
		b.Language = text
	}
	text, err := FillTemplate(h.Question, b)
	if err != nil {
		return rewards.Score{}, err
	}
	s := rewards.Score{}
	mark := 0.0
	said, err := insist(ctx, h.Model, nil, text, h.Tries, func(judgement string) (clear bool) {
		s.Value, mark, clear = h.Read(judgement)
		return clear
	})
	s.Because("judge", "%s", said)
	s.Parts = map[string]float64{"mark": mark}
	return s, err
}

// spread is a mark from 0 to 5 as a reward from 0 to 1, with most of the room between 2 and 4.
func spread(mark float64) float64 {
	switch {
	case mark <= 2:
		return float64(mark * 0.1)
	case mark <= 4:
		return 0.2 + float64((mark-2)*0.3)
	}
	return 0.8 + float64((mark-4)*0.2)
}

var (
	translationMarks = translationPatterns()
	translationSays  = regexp.MustCompile(`(?i)得分|评分|score`)
	translationKeys  = []string{"final_score", "最终得分", "最终评分", "score", "评分", "总分"}
	fencedJSON       = []*regexp.Regexp{
		regexp.MustCompile("(?s)```json" + pytext.SpaceClass + `*(\{.*?\})` + pytext.SpaceClass + "*```"),
		regexp.MustCompile("(?s)```" + pytext.SpaceClass + `*(\{.*?\})` + pytext.SpaceClass + "*```"),
		regexp.MustCompile(`(?s)(\{[^{]*"评分过程".*?\})`),
	}
	vqaJudgement = regexp.MustCompile(`Judgement:` + pytext.SpaceClass + `*(\p{Nd}+)`)
)

// translationPatterns are the words before a mark, in their order.
func translationPatterns() (list []*regexp.Regexp) {
	colon := pytext.SpaceClass + `*[：:]` + pytext.SpaceClass + `*([0-5]` + digits + `)`
	for _, words := range []string{"最终得分", "最终评分", "综合得分", "综合评分", "总分", `final(?:_|` + pytext.SpaceClass + `)*score`} {
		list = append(list, regexp.MustCompile(`(?i)`+words+colon))
	}
	return append(list, regexp.MustCompile(`(?i)score`+colon+pytext.SpaceClass+`*/`+pytext.SpaceClass+`*5`))
}

// TranslationMark is the mark of a judgement, 0 to 5.
func TranslationMark(judgement string) (float64, bool) {
	text := strings.NewReplacer("**", "", "\u3000", " ").Replace(judgement)
	for _, p := range translationMarks {
		if v, ok := mark(p, text); ok && v <= 5 {
			return v, true
		}
	}
	if o, ok := firstJSON(text).(pytext.Object); ok {
		for _, key := range translationKeys {
			if v, ok := number(o[key]); ok && v >= 0 && v <= 5 {
				return v, true
			}
		}
	}
	if !translationSays.MatchString(text) {
		return 0, false
	}
	return lastMark([]rune(pytext.Tail(text, 200)))
}

// firstJSON is the first value of JSON: of a fence, of braces, or of the whole text.
func firstJSON(text string) any {
	for _, p := range fencedJSON {
		for _, m := range p.FindAllStringSubmatch(text, -1) {
			if v, err := pytext.JSON(m[1]); err == nil {
				return v
			}
		}
	}
	v, _ := pytext.JSON(text)
	return v
}

// lastMark is the last number from 0 to 5 that does not belong to a longer number.
func lastMark(text []rune) (value float64, ok bool) {
	digit := func(i int) bool { return i >= 0 && i < len(text) && unicode.Is(unicode.Nd, text[i]) }
	part := func(i int) bool { return digit(i) || i >= 0 && i < len(text) && text[i] == '.' }
	for i := 0; i < len(text); i++ {
		if text[i] < '0' || text[i] > '5' || part(i-1) {
			continue
		}
		end := i + 1
		if part(end) && digit(end+1) && !digit(end) {
			for end++; digit(end); end++ {
			}
		}
		if !part(end) {
			value, ok = pytext.Float(string(text[i:end]))
			i = end - 1
		}
	}
	return value, ok && value <= 5
}

// readTranslation is the reward of a mark.
func readTranslation(judgement string) (value, mark float64, ok bool) {
	mark, ok = TranslationMark(judgement)
	return spread(mark), mark, ok
}

// readVQA is 1 or 0.
func readVQA(judgement string) (value, m float64, ok bool) {
	m, ok = mark(vqaJudgement, strings.ReplaceAll(judgement, "**", ""))
	return m, m, ok && (m == 0 || m == 1)
}

// hunyuanOCR is the form of a question.
func hunyuanOCR(name, card string, read func(judgement string) (value, mark float64, ok bool)) Form {
	return Form{
		Name:   "hunyuan_" + name,
		Card:   card,
		Judges: rewards.Replies,
		Truth:  true,
		Server: Server{
			Model:  "Qwen/Qwen3-30B-A3B",
			System: "You are a helpful and precise assistant for checking the consistency of answers.",
			Extra:  map[string]any{"temperature": 0.2, "top_p": 0.95, "top_k": 10, "max_tokens": 4096},
		},
		New: func(o Options, m Model) (rewards.Reward, error) {
			if o.Tries <= 0 {
				o.Tries = 3
			}
			return HunyuanOCR{Model: m, Question: "hunyuan_" + name, Read: read, Tries: o.Tries}, nil
		},
	}
}

// Forms of HunyuanOCR.
var (
	HunyuanTranslationForm = hunyuanOCR("translation", "A translation's mark beside a reference, spread between 2 and 4 (HunyuanOCR).", readTranslation)
	HunyuanVQAForm         = hunyuanOCR("vqa", "Whether an answer and the right one agree (HunyuanOCR).", readVQA)
)
