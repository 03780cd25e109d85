package tools

import (
	"regexp"
	"strings"

	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: DeepEyesV2 (Visual-Agent/DeepEyesV2, deepeyesv2.py): code, and two searches. The last answer that is not empty
// ends the episode. Else a text with <code> runs the last ```python block of the last <code>, and one without it makes
// the last <tool_call>:
//
//	{"name": "search", "arguments": {"query": "..."}}     the tool outside called search
//	{"name": "image_search"}                              the tool outside called image_search
//
// A text with neither ends the episode. The model reads on behind "<think>", which stands in every observation.
// Upstream repairs a block's indentation with autopep8 first; here code is run as it was written. Upstream looks an
// image search up by the row's number; here the call has {"picture": "..."}, SHA-256 of "WIDTHxHEIGHT\n" and the RGB
// bytes of the prompt's first picture. The pictures of a search come after its text; upstream writes each beside its
// title. Errors of JSON have this program's words. The output of code before it raised is left out. A code block
// shows at most ten pictures.
// Invariant (test): observations of code, of a search and of each refusal are those of upstream's execute.

// codePictures is how many pictures a block shows.
const codePictures = 10

// DeepEyesV2 is its protocol.
func DeepEyesV2() *Protocol {
	return &Protocol{
		Name: "deepeyes_v2", Card: "Code and two searches (DeepEyesV2).",
		Source: "Visual-Agent/DeepEyesV2 0373e6e0c923, evaluation/inference_demo/inference_demo.py",
		Limits: Limits{Turns: 9, ActFirst: true}, Code: true, Outside: []string{"search", "image_search"},
		Read: readDeepEyesV2, Observation: sayDeepEyesV2, Pad: "<image>", Together: true,
		Tools: []Tool{{Name: "python", Plan: runDeepEyesV2}, {Name: "search", Plan: searchText}, {Name: "image_search", Plan: searchPicture}},
	}
}

// blockOfCode is upstream's pattern: a fence on lines of its own.
var blockOfCode = regexp.MustCompile("(?s)```python" + pytext.SpaceClass + "*\n(.*?)\n```")

func readDeepEyesV2(text string) Reading {
	if answer, ok := last(between(text, "<answer>", "</answer>")); ok && answer != "" {
		return Reading{Answer: answer, Answered: true}
	}
	if strings.Contains(text, "<code>") {
		inside, _ := last(between(text, "<code>", "</code>"))
		block, ok := last(blockOfCode.FindAllStringSubmatch(inside, -1))
		if !ok || block[1] == "" {
			return Reading{}
		}
		return one(Call{Name: "python", Args: block[1]})
	}
	call, _ := last(between(text, "<tool_call>", "</tool_call>"))
	if call == "" {
		return Reading{}
	}
	return one(searchCall(pytext.Strip(call)))
}

// searchCall reads a call of a search.
func searchCall(text string) Call {
	v, err := pytext.OrderedJSON(text)
	if err != nil {
		return Call{Refused: refuse(BadSyntax, "JSONDecodeError", "Invalid tool call format: %s. Error: %v", text, err)}
	}
	o, ok := v.(pytext.Ordered)
	name, named := o.Values["name"]
	args := o.Values["arguments"]
	switch {
	case !ok || !named:
		return Call{Refused: refuse(MissingKey, "KeyError", "'name'")}
	case name != "search" && name != "image_search":
		return Call{Name: pytext.Str(name), Refused: refuse(UnknownTool, "", "Invalid tool call name: %s.", text)}
	case name == "image_search" && args != nil:
		return Call{Name: "image_search", Refused: refuse(BadValue, "", "Invalid tool call parameters for image search: %s.", text)}
	}
	return Call{Name: name.(string), Args: args}
}

func runDeepEyesV2(s *State, args any) (Plan, error) {
	broken := refuse(Failed, "", "Code execution error")
	if s.Program == nil {
		return Plan{}, broken
	}
	done, err := s.Program.Run(args.(string)) // as readDeepEyesV2 wrote it
	switch {
	case err != nil:
		return Plan{}, broken
	case done.Spoiled:
		return Plan{}, refuse(Failed, raisedInside, "a picture that was drawn cannot be read: %s", done.Error)
	case done.Failed:
		return Plan{}, refuse(Failed, raisedInside, "%s", done.Error)
	}
	return Plan{Ready: done.Drawn[:min(len(done.Drawn), codePictures)], Text: done.Text, Figures: done.Figures}, nil
}

func searchText(s *State, args any) (Plan, error) {
	query, err := field(args, "query")
	if err != nil {
		return Plan{}, refuse(MissingKey, "KeyError", "'query'")
	}
	return OutsideTool("search").Plan(s, pytext.Ordered{Keys: []string{"query"}, Values: pytext.Object{"query": query}})
}

func searchPicture(s *State, _ any) (Plan, error) {
	p, err := s.Album.picture(0)
	if err != nil {
		return Plan{}, err
	}
	return OutsideTool("image_search").Plan(s, pytext.Ordered{Keys: []string{"picture"}, Values: pytext.Object{"picture": p.Hash()}})
}

func sayDeepEyesV2(_ *State, r *Reply) string {
	text := ""
	switch result := r.Results[0]; {
	case result.Refusal != nil && result.Refusal.Raised == raisedInside:
		text = codeResult("", result.Refusal.Message, 0)
	case result.Refusal != nil && result.Refusal.Message == "Code execution error":
		text = result.Refusal.Message
	case result.Refusal != nil:
		text = "Error: " + result.Refusal.Message
	case result.Name == "python":
		text = codeResult(result.Text, "", r.Pictures)
	default:
		text = "<tool_response>\n" + result.Text + strings.Repeat("\n<image>", r.Pictures) + "\n</tool_response>"
	}
	return "<|im_end|>\n" + userTurn + text + modelTurn + "<think>"
}

// codeResult is the output and the pictures of code, in upstream's words.
func codeResult(printed, raised string, pictures int) string {
	drawn := ""
	if pictures > 0 {
		drawn = "Images:\n" + strings.Repeat("<image>", pictures)
	}
	return pytext.Strip("Code execution result:\nstdout:\n```\n" + printed + "\n```\n\nstderr:\n```\n" + raised + "\n```\n\n" + drawn)
}
