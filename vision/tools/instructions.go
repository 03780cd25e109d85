package tools

import (
	"embed"
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: what a model reads of its tools before it can call one. Of a published system that is its published text, byte
// for byte, as instructions/NAME.system.txt (a system message), NAME.question.txt (what stands around a question) and
// NAME.words.txt (the same where nothing is shown). Of our own protocol it is written from the tools that may be
// called, in the form of Qwen's templates.
//
//	deepeyes, deepeyes_v5  SYSTEM_PROMPT_V2 and USER_PROMPT_V2, SYSTEM_PROMPT_V5 and USER_PROMPT_V5; the schema requires
//	                       "bbox" of a property that is called bbox_2d, as upstream's does
//	deepeyes_v2            SYSTEM_PROMPT and USER_PROMPT; its "<image>" is the picture's own place here
//	mini_o3                TOOL_CROP_SYSTEM_PROMPT
//	pixel_reasoner         what NousFnCallPrompt of Qwen-Agent writes of both tools, and the trigger "vcot"
//	pyvision               "vistool_with_img_info_v2", and "retool" where nothing is shown
//	verl                   what the recipe's template writes; its schema has no "items", which verl's classes drop
//	vrag                   USER_PROMPT
//
// Invariant (test): the texts have the sums that upstream's have at the commits that Source names.

// Instructions are what a model reads of its tools.
type Instructions struct {
	System   string `json:"system,omitempty"`   // the system message; "": the template's own
	Question string `json:"question,omitempty"` // what stands around the question: {question}, and {width} and {height} of its first picture; "": nothing
	Words    string `json:"words,omitempty"`    // Question where nothing is shown; "": Question
	Source   string `json:"source,omitempty"`   // repository, commit and file of a published text; "": a text that somebody wrote for this run
}

//go:embed instructions
var published embed.FS

// sourceOf is where a protocol's instructions were published; "" where they were not.
func sourceOf(protocol string) string {
	return map[string]string{
		"deepeyes":       "Visual-Agent/DeepEyes 6c5e79671dbf, verl/workers/agent/envs/mm_process_engine/prompt.py",
		"deepeyes_v5":    "Visual-Agent/DeepEyes 6c5e79671dbf, verl/workers/agent/envs/mm_process_engine/prompt.py",
		"deepeyes_v2":    "Visual-Agent/DeepEyesV2 0373e6e0c923, evaluation/inference_demo/inference_demo.py",
		"mini_o3":        "Mini-o3/Mini-o3 8654dbf42d2e, verl/trainer/constants.py",
		"pixel_reasoner": "TIGER-AI-Lab/Pixel-Reasoner a3a6c3a557a8, experience_maker.py and prompts_dataset.py; QwenLM/Qwen-Agent 545bca767608, nous_fncall_prompt.py",
		"pyvision":       "agents-x-project/PyVision-RL 62ca599d05ba, verl_agents/verl/utils/dataset/rl_system_prompt_template.json",
		"verl":           "volcengine/verl 246cac4ca6b0, recipe/deepeyes",
		"vrag":           "Alibaba-NLP/VRAG 24f8d055989c, VRAG-RL/scripts/hf_dataset_convert.py",
	}[protocol]
}

// Instructions are the protocol's.
func (p *Protocol) Instructions() Instructions {
	source := sourceOf(p.Name)
	if source == "" {
		return Instructions{System: p.written(), Source: "this program"}
	}
	text := func(part string) string {
		b, err := published.ReadFile("instructions/" + p.Name + "." + part + ".txt")
		if err != nil {
			return "" // a system has some of them
		}
		return string(b)
	}
	return Instructions{System: text("system"), Question: text("question"), Words: text("words"), Source: source}
}

// written are the instructions of a protocol whose tools say what they do.
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

// Around are what stands before a question and behind it, where its first picture has such a size; 0: it has none.
func (in Instructions) Around(width, height int) (before, behind string) {
	text := in.Question
	if width == 0 && in.Words != "" {
		text = in.Words
	}
	text = strings.NewReplacer("{width}", fmt.Sprint(width), "{height}", fmt.Sprint(height)).Replace(text)
	before, behind, _ = strings.Cut(text, "{question}")
	return before, behind
}

// shownPicture is the argument that names a picture.
const shownPicture = `"picture": {"type": "integer", "description": "number of the picture, from 1 on; the first unless it is given"}`

// object is the schema of arguments; the last of them must be given.
func object(optional, required string) string {
	name, _, _ := strings.Cut(required, ":")
	if optional != "" {
		optional += ", "
	}
	return `{"type": "object", "properties": {` + optional + required + `}, "required": [` + name + `]}`
}

// boxIn is the argument of four corners in a frame.
func boxIn(f Frame) string {
	return `"bbox_2d": {"type": "array", "items": {"type": "number"}, "minItems": 4, "maxItems": 4, "description": "[x1, y1, x2, y2], ` + f.words() + `"}`
}

// words say what a frame counts.
func (f Frame) words() string {
	return map[Frame]string{
		ShownPixels: "in pixels of the picture as it is shown", FullPixels: "in pixels of the picture at full size",
		Unit: "in shares of the picture's width and height, 0 to 1", Thousandths: "in thousandths of the picture's width and height, 0 to 1000",
	}[f]
}
