package answers

import (
	"context"
	"regexp"
	"strings"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: Mini-o3 (general_qa_tool_mc.py) on several turns, of which all but the last call a tool:
//
//	score = right·acc·(1 - penalty if a tool was called) + form·format + tool if one was called
//
// acc is 1 where the last answer tag of the last turn is the letter, or begins with "(X)" or
// "X.". The form wants <think>...</think>...<grounding>...</grounding> of every turn but the
// last, thoughts once and no answer; and of the last <think>...</think>...<answer>...</answer>,
// each once and no tool. Turns that call are counted up to the first malformed one; a single
// turn counts its own call, too. Turns are stripped, the last of several is not, though one line
// end may follow it.
// Invariants (tests): the right letter is worth more than a wrong one, whatever the weights.
type MiniO3 struct {
	Right   float64 `toml:"right" doc:"worth of a right answer"`
	Form    float64 `toml:"form" doc:"worth of the right form"`
	Tool    float64 `toml:"tool" doc:"worth of calling a tool"`
	Penalty float64 `toml:"penalty" range:"[0,1]" doc:"share of a right answer that a tool costs"`
}

// SetDefaults are the published weights.
func (m *MiniO3) SetDefaults() { *m = MiniO3{Right: 1, Form: 1, Penalty: 0.1} }

// MiniO3Judgement holds the findings about one episode.
type MiniO3Judgement struct {
	Score   float64
	Correct bool
	Formed  bool
	Tools   int // turns that call one
}

// Of judges turns.
func (m MiniO3) Of(turns []string, truth string) MiniO3Judgement {
	var v MiniO3Judgement
	if len(turns) == 0 {
		return v
	}
	v.Correct = letter(turns[len(turns)-1], pytext.Strip(truth))
	v.Formed, v.Tools = miniO3Form(turns)
	kept, extra := 1.0, 0.0
	if v.Tools > 0 {
		kept, extra = 1-m.Penalty, m.Tool
	}
	v.Score = float64(kept*(m.Right*one(v.Correct))) + float64(m.Form*one(v.Formed)) + extra
	return v
}

// Score judges a transcript against the prompt's meta.answer.
func (m MiniO3) Score(_ context.Context, item rewards.Item) (rewards.Score, error) {
	if _, err := lastTurn(item); err != nil {
		return rewards.Score{}, err
	}
	truth, err := item.Meta.Text("answer")
	if err != nil {
		return rewards.Score{}, err
	}
	var turns []string
	for _, t := range item.Transcript.Turns {
		turns = append(turns, t.Text)
	}
	v := m.Of(turns, truth)
	s := judged(v.Score, "reply", turns[len(turns)-1])
	s.Parts = map[string]float64{"right": one(v.Correct), "form": one(v.Formed), "tools": float64(v.Tools)}
	return s, nil
}

var (
	letterInBrackets = regexp.MustCompile(`\A\(([A-Z])\)`)
	letterAndPoint   = regexp.MustCompile(`\A([A-Z])\.`)
)

func letter(turn, truth string) bool {
	said, ok := lastIn(answerTag, pytext.Strip(turn))
	if !ok {
		return false
	}
	if pytext.Strip(said) == truth {
		return true
	}
	for _, form := range []*regexp.Regexp{letterInBrackets, letterAndPoint} {
		if m := form.FindStringSubmatch(said); m != nil && m[1] == truth {
			return true
		}
	}
	return false
}

var (
	answersAtEnd = regexp.MustCompile(`(?s)\A<think>.*</think>.*<answer>.*</answer>\n?\z`)
	callsAtEnd   = regexp.MustCompile(`(?s)\A<think>.*</think>.*<grounding>.*</grounding>\n?\z`)
	callTag      = regexp.MustCompile(`(?s)<grounding>.*?</grounding>`)
)

func miniO3Form(turns []string) (formed bool, tools int) {
	last := turns[len(turns)-1]
	if len(turns) == 1 {
		last = pytext.Strip(last)
		return directAnswer(last), int(one(callTag.MatchString(last)))
	}
	for _, t := range turns[:len(turns)-1] {
		t = pytext.Strip(t)
		tools += int(one(callTag.MatchString(t)))
		if !onlyCalls(t) {
			return false, tools
		}
	}
	return directAnswer(last), tools
}

func once(text, open, shut string) bool {
	return strings.Count(text, open) == 1 && strings.Count(text, shut) == 1
}

func directAnswer(turn string) bool {
	return answersAtEnd.MatchString(turn) && once(turn, "<think>", "</think>") && once(turn, "<answer>", "</answer>") &&
		!strings.Contains(turn, "<grounding>") && !strings.Contains(turn, "</grounding>")
}

// onlyCalls allows several calls as long as one of the two tags comes once: upstream's slip.
func onlyCalls(turn string) bool {
	return callsAtEnd.MatchString(turn) && once(turn, "<think>", "</think>") &&
		(strings.Count(turn, "<grounding>") == 1 || strings.Count(turn, "</grounding>") == 1) &&
		!strings.Contains(turn, "<answer>") && !strings.Contains(turn, "</answer>")
}

// MiniO3Key is the table of MiniO3.
type MiniO3Key struct {
	MiniO3 *MiniO3 `toml:"mini_o3" doc:"of reward mini_o3: what its parts are worth"`
}

// MiniO3Kind is reward mini_o3.
var MiniO3Kind = rewards.Kind{
	Name:    "mini_o3",
	Card:    "The letter, the form of every turn and the price of tools together (Mini-o3).",
	Paper:   "Mini-o3 (Lai et al., 2025)",
	Cases:   []string{"vlm.reward_minio3"},
	Parts:   []string{"right", "form", "tools"},
	Judges:  rewards.Replies,
	Traits:  rewards.Rule,
	Options: MiniO3Key{},
	Open: rewards.Opens(func(k MiniO3Key, _ rewards.Bench) (rewards.Opened, error) {
		return rewards.One(config.Filled(k.MiniO3)), nil
	}),
}
