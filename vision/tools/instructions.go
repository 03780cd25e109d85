package tools

import (
	"embed"
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: the description of tools that a model reads before it can call one. A published system has its published
// text, byte for byte, as instructions/NAME.system.txt (a system message), NAME.question.txt (text around a question)
// and NAME.words.txt (the same without pictures). Of our own protocol it is written from the tools that may be
// called, in the form of Qwen's templates.
//
//	deepeyes, deepeyes_v5  SYSTEM_PROMPT_V2 and USER_PROMPT_V2, SYSTEM_PROMPT_V5 and USER_PROMPT_V5; the schema requires
//	                       "bbox" of a property that is called bbox_2d, as upstream's does
//	deepeyes_v2            SYSTEM_PROMPT and USER_PROMPT; its "<image>" is the picture's own place here
//	mini_o3                TOOL_CROP_SYSTEM_PROMPT
//	pixel_reasoner         the text of NousFnCallPrompt of Qwen-Agent for both tools, and the trigger "vcot"
//	pyvision               "vistool_with_img_info_v2", and "retool" where nothing is shown
//	verl                   the text of the recipe's template; its schema has no "items", which verl's classes drop
//	vrag                   USER_PROMPT
//
// Invariant (test): the texts have the sums that upstream's have at the commits that Source names.

// Instructions describe the tools to a model.
type Instructions struct {
	System   string `json:"system,omitempty"`   // the system message; "": the template's own
	Question string `json:"question,omitempty"` // text around the question: {question}, and {width} and {height} of its first picture; "": nothing
	Words    string `json:"words,omitempty"`    // Question where nothing is shown; "": Question
	Source   string `json:"source,omitempty"`   // repository, commit and file of a published text; "": a text that somebody wrote for this run
}

//go:embed instructions
var published embed.FS

// Instructions are the protocol's.
func (p *Protocol) Instructions() Instructions {
	if p.Source == "" {
		return Instructions{System: p.written(), Source: "this program"}
	}
	text := func(part string) string {
		b, err := published.ReadFile("instructions/" + p.Name + "." + part + ".txt")
		if err != nil {
			return "" // a system has some of them
		}
		return string(b)
	}
	return Instructions{System: text("system"), Question: text("question"), Words: text("words"), Source: p.Source}
}

// written are the instructions of a protocol whose tools describe themselves.
func (p *Protocol) written() string {
	var b strings.Builder
	b.WriteString("You are a helpful assistant.\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\n" +
		"You are provided with function signatures within <tools></tools> XML tags:\n<tools>")
	for _, t := range p.Tools {
		if t.Parameters != "" {
			fmt.Fprintf(&b, "\n{\"type\": \"function\", \"function\": {\"name\": %s, \"description\": %s, \"parameters\": %s}}", pytext.Dumps(t.Name), pytext.Dumps(t.About), t.Parameters)
		}
	}
	b.WriteString("\n</tools>\n\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n" +
		"<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>\n\n" +
		"What a call shows comes in the next turn. Put the final answer within <answer></answer> tags.")
	return b.String()
}

// Around returns the texts before and after a question whose first picture has this size; 0: it has none.
func (in Instructions) Around(width, height int) (before, behind string) {
	text := in.Question
	if width == 0 && in.Words != "" {
		text = in.Words
	}
	text = strings.NewReplacer("{width}", fmt.Sprint(width), "{height}", fmt.Sprint(height)).Replace(text)
	before, behind, _ = strings.Cut(text, "{question}")
	return before, behind
}
