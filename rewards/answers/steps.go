package answers

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: R1-VL's rewards of steps (jingyi0000/R1-VL, open_r1/grpo.py). A reply is written in sections: ### Image
// Description:, ### Rationales:, ### Step 1:, ### Step 2:, ..., ### The final answer is:.
//
//	FinalAnswer   the text on the line of the final answer is the truth's
//	KeySteps      StepRAR: the share of meta.key_steps that occur in the text of the steps, whatever their case
//	Reasoned      StepRVR: all sections are there, steps are numbered 1, 2, 3 ..., and the final answer comes last
//
// A key step is a text, or a list of texts of which one suffices. The published reward is the sum FinalAnswer + 0.1
// KeySteps + Reasoned, over whole answers: its policy gradient has no step of its own. meta.key_steps is a list, or
// upstream's object with the list under "Steps". Upstream first asks a program of symbolic mathematics whether both
// answers are equal; here the texts alone are compared. Invariant (test): the scores are those of upstream's
// functions.

var (
	stepHead    = regexp.MustCompile(`### Step (\p{Nd}+):`)
	finalAnswer = regexp.MustCompile(`### The final answer is:` + pytext.SpaceClass + `*\n?(.*)`)
)

const finalHead = "### The final answer is:"

// FinalAnswer compares the text after the heading of the final answer; a text without it is compared as a whole.
func FinalAnswer(reply, truth string) (rewards.Score, error) {
	said, ok := firstIn(finalAnswer, reply)
	said = orWhole(said, ok, reply)
	right, ok := firstIn(finalAnswer, truth)
	return judged(one(said == orWhole(right, ok, truth)), "answer", said), nil
}

// Reasoned is StepRVR's form.
func Reasoned(reply string) bool {
	for _, head := range []string{"### Image Description:", "### Rationales:", "### Step 1:", finalHead} {
		if !strings.Contains(reply, head) {
			return false
		}
	}
	steps := stepHead.FindAllStringSubmatchIndex(reply, -1)
	if !strings.HasSuffix(pytext.Strip(reply), finalHead) && strings.Index(reply, finalHead) < steps[len(steps)-1][1] {
		return false
	}
	for i, at := range steps {
		if n, ok := pytext.Float(reply[at[2]:at[3]]); !ok || n != float64(i+1) {
			return false
		}
	}
	return true
}

// stepsText joins the texts of the steps.
func stepsText(reply string) string {
	var all []string
	for at := 0; ; {
		head := stepHead.FindStringIndex(reply[at:])
		if head == nil {
			return pytext.Lower(strings.Join(all, " "))
		}
		text := strings.TrimLeftFunc(reply[at+head[1]:], pytext.Space)
		end := strings.Index(text, "\n###")
		if end < 0 {
			end = len(text)
		}
		all = append(all, text[:end])
		at = len(reply) - len(text) + end
	}
}

// KeySteps is StepRAR, a reward of one reply.
type KeySteps struct{}

// Score is the share of the prompt's key steps that the reply's steps have.
func (KeySteps) Score(_ context.Context, item rewards.Item) (rewards.Score, error) {
	reply, err := lastTurn(item)
	if err != nil {
		return rewards.Score{}, err
	}
	var raw json.RawMessage
	if err := item.Meta.Read("key_steps", &raw); err != nil {
		return rewards.Score{}, err
	}
	keys, err := keySteps(raw)
	if err != nil {
		return rewards.Score{}, err
	}
	if len(keys) == 0 {
		return judged(0, "key steps", "none are named"), nil
	}
	text, found := stepsText(reply), 0
	for _, either := range keys {
		for _, one := range either {
			if strings.Contains(text, pytext.Lower(one)) {
				found++
				break
			}
		}
	}
	return judged(float64(found)/float64(len(keys)), "key steps", fmt.Sprintf("%d of %d", found, len(keys))), nil
}

// keySteps reads them: of each, the texts of which one suffices.
func keySteps(raw json.RawMessage) (keys [][]string, err error) {
	var under struct {
		Steps []json.RawMessage `json:"Steps"`
	}
	if json.Unmarshal(raw, &under) != nil || under.Steps == nil {
		if err := json.Unmarshal(raw, &under.Steps); err != nil || under.Steps == nil {
			return nil, fmt.Errorf(`meta.key_steps of the prompt is neither a list nor {"Steps": [...]}: %.60s`, raw)
		}
	}
	for i, step := range under.Steps {
		var one string
		var some []string
		if json.Unmarshal(step, &one) == nil {
			some = []string{one}
		} else if err := json.Unmarshal(step, &some); err != nil {
			return nil, fmt.Errorf("meta.key_steps of the prompt: step %d is neither a text nor a list of texts: %w", i+1, err)
		}
		keys = append(keys, some)
	}
	return keys, nil
}
