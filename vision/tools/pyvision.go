package tools

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: PyVision-RL (agents-x-project/PyVision-RL, safe_persis_python_exe_tool_w_image_hint.py). The last answer that
// is not empty ends the episode. Else the last ```python block inside <code> is run, or the last such block anywhere;
// without one the reply is an error of its format. Code that ran earns its reward, also where it raised; where the
// interpreter itself failed, nothing; nor where a picture that it drew cannot be read. Nothing is run here: an
// Interpreter that someone configured does (program), and without one each piece of code is refused. Held to
// vlm.tool_pyvision. Pictures are numbered from the prompt's on; upstream from 1, which is the same where the prompt
// has one. Its training loop (parallel_env.py) takes any refusal, of code that raised too, for an error in the
// action, which ends the episode after it earned its reward: Strict. Without it the model reads the error, which is
// the text's purpose.

// An Interpreter runs code in a sandbox that keeps its variables between calls.
type Interpreter interface {
	Run(code string) (Execution, error)
}

// An Execution is the result of a piece of code.
type Execution struct {
	Failed   bool   // it raised
	Spoiled  bool   // a picture that it drew cannot be read
	Error    string // with Failed; with Spoiled: why, where that is known
	Text     string // its output
	NoOutput bool   // nothing can have been printed: a result without a text
	Figures  int    // the number of pictures until now, the prompt's included; 0: unknown
	Drawn    []*vision.Image
}

// PyVision is its protocol; worth is the reward of a turn that ran.
func PyVision(worth float64) *Protocol {
	return &Protocol{
		Name: "pyvision", Card: "Code that sees and draws pictures (PyVision-RL).",
		Source: "agents-x-project/PyVision-RL 62ca599d05ba, verl_agents/verl/utils/dataset/rl_system_prompt_template.json",
		Limits: Limits{Response: 20480, Turns: 5, ActFirst: true}, Code: true,
		Cases: []string{"vlm.tool_pyvision"},
		Read:  readPyVision, Observation: sayPyVision, Pad: "<image>", Together: true,
		Tools: []Tool{{Name: "python", Plan: runPython}},
		Worth: func(r Result) float64 {
			if r.Refusal != nil && r.Refusal.Raised != raisedInside {
				return 0
			}
			return worth
		},
	}
}

// raisedInside marks the refusal of code that ran and raised.
const raisedInside = "raised"

var (
	fencedInTags = regexp.MustCompile("(?s)<code>" + pytext.SpaceClass + "*```python" + pytext.SpaceClass + "*(.*?)" + pytext.SpaceClass + "*```" + pytext.SpaceClass + "*</code>")
	fenced       = regexp.MustCompile("(?s)```python" + pytext.SpaceClass + "*(.*?)" + pytext.SpaceClass + "*```")
)

// PythonCode is the code of a text that is run, and whether there is any.
func PythonCode(text string) (string, bool) {
	for _, form := range []*regexp.Regexp{fencedInTags, fenced} {
		if found, ok := last(form.FindAllStringSubmatch(text, -1)); ok {
			return found[1], true
		}
	}
	return "", false
}

func readPyVision(text string) Reading {
	if answer, ok := last(between(text, "<answer>", "</answer>")); ok && answer != "" {
		return Reading{Answer: answer, Answered: true}
	}
	code, _ := PythonCode(text)
	if code == "" {
		return Reading{Refused: refuse(BadSyntax, "NO_CODE_NOR_ANSWER", "Error: No Python code or final answer found. There is something wrong with the format.")}
	}
	return one(Call{Name: "python", Args: code})
}

func runPython(s *State, args any) (Plan, error) {
	broken := refuse(Failed, "TOOL_EXECUTION_ERROR", "TOOL_EXECUTION_ERROR")
	if s.Program == nil {
		return Plan{}, broken
	}
	done, err := s.Program.Run(args.(string)) // as readPyVision wrote it
	if err != nil {
		return Plan{}, broken
	}
	if done.Failed {
		return Plan{}, refuse(Failed, raisedInside, "Execution error: %s", done.Error)
	}
	if done.Spoiled {
		why := "\nError: Something wrong with processed images."
		if done.Error != "" {
			why += " (" + done.Error + ")"
		}
		return Plan{}, &Refusal{Kind: Failed, Raised: "ERROR_WHEN_PROCESSING_IMAGES", Message: why}
	}
	text := "Text Result:\n" + done.Text
	if done.NoOutput {
		text = ""
		if len(done.Drawn) == 0 {
			text = "Text Result:\nNone"
		}
	}
	return Plan{Ready: done.Drawn, Text: text, Figures: done.Figures}, nil
}

// PyVisionParts are the pieces of a message that shows pictures: each between tags with its
// number, from first on.
func PyVisionParts(text string, first, pictures int) []string {
	parts := []string{"<tool_response>\n<interpreter>"}
	if text != "" {
		parts = append(parts, text+"\n")
	}
	parts = append(parts, "Image Result:\n")
	for i := range pictures {
		parts = append(parts, fmt.Sprintf("<image_clue_%d>", first+i), "<image>", fmt.Sprintf("</image_clue_%d>", first+i))
	}
	return append(parts, "</interpreter>\n\n</tool_response>")
}

func sayPyVision(s *State, r *Reply) string {
	inside := ""
	switch {
	case r.Refusal != nil:
		inside = "<tool_response>\n<interpreter>" + r.Refusal.Message + "</interpreter>\n\n</tool_response>"
	case r.Pictures > 0:
		inside = strings.Join(PyVisionParts(r.Results[0].Text, s.Figures, r.Pictures), "")
	default:
		inside = "<tool_response>\n<interpreter>\n" + r.Results[0].Text + "</interpreter>\n\n</tool_response>"
	}
	return "\n" + userTurn + inside + modelTurn
}
