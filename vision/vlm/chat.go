package vlm

import (
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// A Message is a turn of a conversation.
type Message struct {
	Role    string // system, user, assistant, tool
	Content []Part
	Calls   []Call
	Thought *string // before the content, where it is given by itself (reasoning_content)
}

// A Part is a stretch of a message.
type Part struct {
	Kind PartKind
	Text string // of a picture, too, where a list gives both
}

// A PartKind is the kind of a part's content.
type PartKind int

const (
	TextPart PartKind = iota
	PicturePart
	ClipPart
)

// Text is a message's content where it holds text alone; "" is no content.
func Text(s string) []Part {
	if s == "" {
		return nil
	}
	return []Part{{TextPart, s}}
}

// A Call is a tool that the assistant called.
type Call struct {
	Name      string
	Arguments any // as pytext.OrderedJSON reads them; a string is a text of them
}

// ReadMessages reads a conversation in the form that OpenAI's protocol and the templates share: a
// list of {"role", "content", "tool_calls", "reasoning_content"}, content a text or a list of parts. A part is a
// picture if its type is "image" or it has "image" or "image_url", a clip likewise with
// "video", else its "text" counts. Other keys are let pass.
func ReadMessages(text string) ([]Message, error) {
	v, err := pytext.OrderedJSON(text)
	if err != nil {
		return nil, fmt.Errorf("messages: %w", err)
	}
	return messagesOf(v)
}

func messagesOf(v any) ([]Message, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("messages: a list was expected")
	}
	all := make([]Message, len(list))
	for i, e := range list {
		var err error
		if all[i], err = messageOf(e); err != nil {
			return nil, fmt.Errorf("messages[%d]%w", i, err)
		}
	}
	return all, nil
}

func messageOf(v any) (m Message, err error) {
	o, ok := v.(pytext.Ordered)
	if !ok {
		return m, fmt.Errorf(": an object was expected")
	}
	if m.Role, ok = o.Values["role"].(string); !ok {
		return m, fmt.Errorf(`.role: one of "system", "user", "assistant", "tool" was expected`)
	}
	switch content := o.Values["content"].(type) {
	case nil:
	case string:
		m.Content = Text(content)
	case []any:
		m.Content = make([]Part, len(content))
		for i, e := range content {
			if m.Content[i], err = partOf(e); err != nil {
				return m, fmt.Errorf(".content[%d]%w", i, err)
			}
		}
	default:
		return m, fmt.Errorf(".content: a text or a list of parts was expected")
	}
	if thought, ok := o.Values["reasoning_content"].(string); ok {
		m.Thought = &thought
	}
	calls, ok := o.Values["tool_calls"].([]any)
	if !ok && o.Values["tool_calls"] != nil {
		return m, fmt.Errorf(".tool_calls: a list was expected")
	}
	for i, e := range calls {
		call, err := callOf(e)
		if err != nil {
			return m, fmt.Errorf(".tool_calls[%d]%w", i, err)
		}
		m.Calls = append(m.Calls, call)
	}
	return m, nil
}

func partOf(v any) (p Part, err error) {
	o, ok := v.(pytext.Ordered)
	if !ok {
		return p, fmt.Errorf(": an object was expected")
	}
	has := func(kind string, keys ...string) bool {
		for _, k := range keys {
			if _, ok := o.Values[k]; ok {
				return true
			}
		}
		return o.Values["type"] == kind
	}
	switch {
	case has("image", "image", "image_url"):
		p.Kind = PicturePart
	case has("video", "video"):
		p.Kind = ClipPart
	}
	text, given := o.Values["text"]
	if p.Text, ok = text.(string); given && !ok {
		return p, fmt.Errorf(".text: a text was expected")
	}
	return p, nil
}

func callOf(v any) (c Call, err error) {
	o, ok := v.(pytext.Ordered)
	if !ok {
		return c, fmt.Errorf(": an object was expected")
	}
	if inner, ok := o.Values["function"].(pytext.Ordered); ok {
		o = inner
	}
	if c.Name, ok = o.Values["name"].(string); !ok {
		return c, fmt.Errorf(": a name was expected")
	}
	if c.Arguments, ok = o.Values["arguments"]; !ok {
		return c, fmt.Errorf(`: "arguments" are missing; {} says that there are none`)
	}
	return c, nil
}

// ReadTools reads a list of tools: JSON objects that templates write as they are.
func ReadTools(text string) ([]any, error) {
	v, err := pytext.OrderedJSON(text)
	if err != nil {
		return nil, fmt.Errorf("tools: %w", err)
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("tools: a list was expected")
	}
	for i, e := range list {
		if _, ok := e.(pytext.Ordered); !ok {
			return nil, fmt.Errorf("tools[%d]: an object was expected", i)
		}
	}
	return list, nil
}

// Card: conversations as the published templates write them. A folder holds its template as a
// Jinja program; weights saw the output of one of seven, which are written here as Go, since a
// program from a stranger's folder can run for ever. Which one a folder has is found in chatfile.go.
//
//	qwen2_5_vl  Qwen2-VL and Qwen2.5-VL: tools and calls of tools are NOT written, a tool's reply
//	            is a turn of its own role, a system turn is added if the first turn is of another role
//	qwen3_vl    tools and calls written, replies that follow each other share a user's turn;
//	            system turns that are not the first and other roles are not written
//	qwen2_5     Qwen2.5, text alone: as qwen3_vl, with a system text of its own
//
// and those of models that think first (thinking). Held to vlm.chat_template.

// A Template is a published form of conversations.
type Template int

const (
	Qwen25VL Template = iota // Qwen2-VL's, too
	Qwen3VL
	Qwen25
	Qwen3VLThinking
	Qwen35Think   // Qwen3.5 from 4B on: it thinks by default
	Qwen35NoThink // Qwen3.5 up to 2B: it thinks on request
	Qwen36
)

var templateNames = []string{Qwen25VL: "qwen2_5_vl", Qwen3VL: "qwen3_vl", Qwen25: "qwen2_5",
	Qwen3VLThinking: "qwen3_vl_thinking", Qwen35Think: "qwen3_5_think", Qwen35NoThink: "qwen3_5_nothink", Qwen36: "qwen3_6"}

func (t Template) String() string {
	if t < 0 || int(t) >= len(templateNames) {
		return fmt.Sprintf("template %d", int(t))
	}
	return templateNames[t]
}

// TemplateNamed finds a template by its name.
func TemplateNamed(name string) (Template, error) {
	for t, n := range templateNames {
		if n == name {
			return Template(t), nil
		}
	}
	if t, ok := map[string]Template{"qwen2_vl": Qwen25VL, "qwen3_5": Qwen35Think}[name]; ok {
		return t, nil
	}
	return 0, fmt.Errorf("a chat template named %q is not known; %s are", name, strings.Join(templateNames, ", "))
}

// WritesTools reports whether the template tells the model of a row's tools.
func (t Template) WritesTools() bool { return t != Qwen25VL }

// Rendering has a template's options beside the conversation.
type Rendering struct {
	Tools    []any // as pytext.OrderedJSON reads them
	Generate bool  // end with the assistant's turn begun
	Number   bool  // "Picture 1: " before pictures
	// Of models that think first. Think says whether the turn that is begun thinks; nil: as the template has it.
	// KeepThoughts writes the thoughts of earlier turns, too (Qwen3.6).
	Think        *bool
	KeepThoughts bool
}

// The parts of a turn.
const (
	turn     = "<|im_start|>"
	turnEnd  = "<|im_end|>\n"
	picture  = "<|vision_start|><|image_pad|><|vision_end|>"
	clip     = "<|vision_start|><|video_pad|><|vision_end|>"
	toolHead = "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function signatures within <tools></tools> XML tags:\n<tools>"
	toolTail = "\n</tools>\n\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>"
)

// A page is a text in the making.
type page struct {
	strings.Builder
	number          bool
	still           bool // pictures are not counted
	pictures, clips int
	spans           []Span // of the assistant's turns
}

func (p *page) write(all ...string) {
	for _, s := range all {
		p.WriteString(s)
	}
}

// parts writes a content with its pictures.
func (p *page) parts(content []Part) {
	for _, part := range content {
		switch part.Kind {
		case PicturePart:
			p.count("Picture", &p.pictures)
			p.write(picture)
		case ClipPart:
			p.count("Video", &p.clips)
			p.write(clip)
		default:
			p.write(part.Text)
		}
	}
}

func (p *page) count(what string, n *int) {
	if !p.still {
		*n++
	}
	if p.number {
		fmt.Fprintf(p, "%s %d: ", what, *n)
	}
}

// texts writes the texts of a content alone.
func (p *page) texts(content []Part) {
	for _, part := range content {
		p.write(part.Text)
	}
}

// Render is a conversation as text. The number of <|image_pad|> is that of the pictures that
// must be handed on.
func (t Template) Render(messages []Message, r Rendering) (string, error) {
	p := &page{number: r.Number}
	if err := t.render(p, messages, r); err != nil {
		return "", err
	}
	return p.String(), nil
}

func (t Template) render(p *page, messages []Message, r Rendering) error {
	switch t {
	case Qwen25VL:
		p.plain(messages)
	case Qwen3VL, Qwen25:
		if len(messages) == 0 {
			return fmt.Errorf("a conversation without messages: %v needs one", t)
		}
		if t == Qwen25 {
			if err := textAlone(messages); err != nil {
				return err
			}
		}
		t.head(p, messages[0], r.Tools)
		t.turns(p, messages)
	case Qwen3VLThinking, Qwen35Think, Qwen35NoThink, Qwen36:
		if err := (thinking{page: p, form: t, asked: r}).render(messages); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%v is not known", t)
	}
	if r.Generate {
		p.write(turn, "assistant\n", t.beginning(r))
	}
	return nil
}

func textAlone(messages []Message) error {
	for i, m := range messages {
		for _, part := range m.Content {
			if part.Kind != TextPart {
				return fmt.Errorf("messages[%d] has a picture: %v is for text alone", i, Qwen25)
			}
		}
	}
	return nil
}

// plain is Qwen2.5-VL's.
func (p *page) plain(messages []Message) {
	for i, m := range messages {
		if i == 0 && m.Role != "system" {
			p.write(turn, "system\nYou are a helpful assistant.", turnEnd)
		}
		from := p.Len()
		p.write(turn, m.Role, "\n")
		p.parts(m.Content)
		p.write(turnEnd)
		if m.Role == "assistant" {
			p.answered(from)
		}
	}
}

// head is the first system turn.
func (t Template) head(p *page, first Message, tools []any) {
	system := first.Role == "system"
	if !system && len(tools) == 0 && t == Qwen3VL {
		return
	}
	p.write(turn, "system\n")
	if system {
		p.texts(first.Content)
	} else if t == Qwen25 {
		p.write("You are Qwen, created by Alibaba Cloud. You are a helpful assistant.")
	}
	if len(tools) > 0 {
		if system || t == Qwen25 {
			p.write("\n\n")
		}
		p.write(ToolsText(tools))
	}
	p.write(turnEnd)
}

// ToolsText is how a system turn lists tools.
func ToolsText(tools []any) string {
	text := toolHead
	for _, tool := range tools {
		text += "\n" + pytext.Dumps(tool)
	}
	return text + toolTail
}

func (t Template) turns(p *page, messages []Message) {
	for i, m := range messages {
		switch {
		case m.Role == "user" || t == Qwen25 && m.Role == "system" && i > 0:
			p.write(turn, m.Role, "\n")
			p.parts(m.Content)
			p.write(turnEnd)
		case m.Role == "assistant":
			from := p.Len()
			t.assistant(p, m)
			p.answered(from)
		case m.Role == "tool":
			if i == 0 || messages[i-1].Role != "tool" {
				p.write(turn, "user")
			}
			p.write("\n<tool_response>\n")
			p.parts(m.Content)
			p.write("\n</tool_response>")
			if i == len(messages)-1 || messages[i+1].Role != "tool" {
				p.write(turnEnd)
			}
		}
	}
}

func (t Template) assistant(p *page, m Message) {
	p.write(turn, "assistant")
	if t == Qwen3VL || len(m.Calls) == 0 || len(m.Content) > 0 {
		p.write("\n")
		p.texts(m.Content)
	}
	for i, c := range m.Calls {
		if t == Qwen25 || i > 0 || len(m.Content) > 0 {
			p.write("\n")
		}
		arguments, isText := c.Arguments.(string)
		if !isText || t == Qwen25 {
			arguments = pytext.Dumps(c.Arguments)
		}
		p.write("<tool_call>\n{\"name\": \"", c.Name, "\", \"arguments\": ", arguments, "}\n</tool_call>")
	}
	p.write(turnEnd)
}

// A Span is a stretch of a rendered conversation, in bytes.
type Span struct{ From, To int }

// Marked is Render, and where the assistant's turns stand: from behind "<|im_start|>assistant" and
// its newline to the newline behind "<|im_end|>", which the model shall write as well. Spans are
// in the order of turns; a conversation without an assistant has none.
func (t Template) Marked(messages []Message, r Rendering) (text string, spans []Span, err error) {
	p := &page{number: r.Number}
	err = t.render(p, messages, r)
	return p.String(), p.spans, err
}

// answered notes that the assistant's turn, which began at a place, has ended.
func (p *page) answered(from int) {
	p.spans = append(p.spans, Span{from + len(turn+"assistant\n"), p.Len()})
}

// Card: the templates of models that think before they answer. A thought is written between <think> and </think>, or
// in reasoning_content. It is written for turns behind the user's last query alone, since earlier thoughts are not
// read again; a user's turn that is a tool's reply does not count as a query.
//
//	qwen3_vl_thinking  as qwen3_vl, but that system turns are written wherever they stand, and pictures of the
//	                   assistant; a thought that is empty is written in the last turn alone
//	qwen3_5_think      calls are written as <function=NAME> with a <parameter=NAME> each, contents without white
//	                   space around them; a second system turn, other roles, pictures in the system turn and
//	                   conversations without a query are refused; the turn that is begun thinks
//	qwen3_5_nothink    the same, but the turn that is begun has an empty thought
//	qwen3_6            as qwen3_5_think, but parameters other than texts are JSON ("true", not "True"), and earlier
//	                   thoughts may be kept
//
// Held to testdata/chat, which transformers rendered.

// thinking writes a conversation in one of these forms.
type thinking struct {
	*page
	form  Template
	asked Rendering
}

// beginning is how the turn that is begun opens.
func (t Template) beginning(r Rendering) string {
	const open, empty = "<think>\n", "<think>\n\n</think>\n\n"
	think := t != Qwen35NoThink
	if r.Think != nil {
		think = *r.Think
	}
	switch {
	case t < Qwen3VLThinking:
		return ""
	case think || t == Qwen3VLThinking:
		return open
	}
	return empty
}

// third reports whether the form is one of Qwen3.5's and Qwen3.6's.
func (t Template) third() bool { return t > Qwen3VLThinking }

func (k thinking) render(messages []Message) error {
	if len(messages) == 0 {
		return fmt.Errorf("a conversation without messages: %v needs one", k.form)
	}
	if err := k.check(messages); err != nil {
		return err
	}
	k.head(messages[0])
	last := k.query(messages)
	for i, m := range messages {
		content := k.content(m, true)
		switch {
		case m.Role == "user" || m.Role == "system" && i > 0:
			k.write(turn, m.Role, "\n", content, turnEnd)
		case m.Role == "assistant":
			from := k.Len()
			k.says(m, content, i > last, i == len(messages)-1)
			k.answered(from)
		case m.Role == "tool":
			if first := i == 0; first && !k.form.third() || !first && messages[i-1].Role != "tool" {
				k.write(turn, "user")
			}
			k.write("\n<tool_response>\n", content, "\n</tool_response>")
			if i == len(messages)-1 || messages[i+1].Role != "tool" {
				k.write(turnEnd)
			}
		}
	}
	return nil
}

// check refuses messages that the template refuses.
func (k thinking) check(messages []Message) error {
	if !k.form.third() {
		return nil
	}
	for i, m := range messages {
		switch m.Role {
		case "user", "assistant", "tool":
		case "system":
			if i > 0 {
				return fmt.Errorf("messages[%d] is of the system: %v has such a turn at the beginning alone", i, k.form)
			}
			for _, part := range m.Content {
				if part.Kind != TextPart {
					return fmt.Errorf("messages[%d] is of the system and has a picture or a clip: %v refuses it", i, k.form)
				}
			}
		default:
			return fmt.Errorf("messages[%d] has the role %q: %v knows system, user, assistant and tool", i, m.Role, k.form)
		}
		for j, c := range m.Calls {
			if _, ok := c.Arguments.(pytext.Ordered); !ok {
				return fmt.Errorf("messages[%d].tool_calls[%d]: %v writes a parameter a line: \"arguments\" must be an object", i, j, k.form)
			}
		}
	}
	if k.query(messages) < 0 {
		return fmt.Errorf("a conversation without a query of the user: %v needs one", k.form)
	}
	return nil
}

// content is a message's, as one text.
func (k thinking) content(m Message, counted bool) string {
	in := &page{number: k.number, still: !counted, pictures: k.pictures, clips: k.clips}
	in.parts(m.Content)
	k.pictures, k.clips = in.pictures, in.clips
	if k.form.third() {
		return pytext.Strip(in.String())
	}
	return in.String()
}

// query is the place of the user's last turn that is not a reply of a tool. Without one, Qwen3-VL's has the last
// message, and the others -1.
func (k thinking) query(messages []Message) int {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role != "user" {
			continue
		}
		text := k.content(messages[i], false)
		if !strings.HasPrefix(text, "<tool_response>") || !strings.HasSuffix(text, "</tool_response>") {
			return i
		}
	}
	if k.form.third() {
		return -1
	}
	return len(messages) - 1
}

const functionTail = "\n</tools>\n\nIf you choose to call a function ONLY reply in the following format with NO suffix:\n\n<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</parameter>\n<parameter=example_parameter_2>\nThis is the value for the second parameter\nthat can span\nmultiple lines\n</parameter>\n</function>\n</tool_call>\n\n<IMPORTANT>\nReminder:\n- Function calls MUST follow the specified format: an inner <function=...></function> block must be nested within <tool_call></tool_call> XML tags\n- Required parameters MUST be specified\n- You may provide optional reasoning for your function call in natural language BEFORE the function call, but NOT after\n- If there is no function call available, answer the question like normal with your current knowledge and do not tell the user about function calls\n</IMPORTANT>"

// head is the first system turn. Tools come before its text in Qwen3.5's, and after it in Qwen3-VL's.
func (k thinking) head(first Message) {
	tools, system := k.asked.Tools, first.Role == "system"
	if !system && len(tools) == 0 {
		return
	}
	text := ""
	if system {
		text = k.content(first, false)
	}
	k.write(turn, "system\n")
	switch {
	case len(tools) == 0:
		k.write(text)
	case k.form.third():
		k.write("# Tools\n\nYou have access to the following functions:\n\n<tools>")
		for _, tool := range tools {
			k.write("\n", pytext.Dumps(tool))
		}
		k.write(functionTail)
		if text != "" {
			k.write("\n\n", text)
		}
	default:
		if system {
			k.write(text, "\n\n")
		}
		k.write(ToolsText(tools))
	}
	k.write(turnEnd)
}

// says is a turn of the assistant, behind the last query or before it.
func (k thinking) says(m Message, content string, behind, last bool) {
	thought, said := apart(m, content)
	k.write(turn, "assistant\n")
	switch third := k.form.third(); {
	case third && (behind || k.form == Qwen36 && k.asked.KeepThoughts):
		k.write("<think>\n", pytext.Strip(thought), "\n</think>\n\n", said)
	case !third && behind && (last || thought != ""):
		k.write("<think>\n", strings.Trim(thought, "\n"), "\n</think>\n\n", strings.TrimLeft(said, "\n"))
	default:
		k.write(said)
	}
	for i, c := range m.Calls {
		if k.form.third() {
			k.function(i, c, said)
			continue
		}
		if i > 0 || said != "" {
			k.write("\n")
		}
		arguments, isText := c.Arguments.(string)
		if !isText {
			arguments = pytext.Dumps(c.Arguments)
		}
		k.write("<tool_call>\n{\"name\": \"", c.Name, "\", \"arguments\": ", arguments, "}\n</tool_call>")
	}
	k.write(turnEnd)
}

// apart separates the assistant's thought from its answer.
func apart(m Message, content string) (thought, said string) {
	if m.Thought != nil {
		return *m.Thought, content
	}
	before, _, found := strings.Cut(content, "</think>")
	if !found {
		return "", content
	}
	thought = pytext.Last(strings.TrimRight(before, "\n"), "<think>")
	return strings.TrimLeft(thought, "\n"), strings.TrimLeft(pytext.Last(content, "</think>"), "\n")
}

// function is a call of a tool in Qwen3.5's form.
func (k thinking) function(i int, c Call, said string) {
	switch {
	case i > 0:
		k.write("\n")
	case pytext.Strip(said) != "":
		k.write("\n\n")
	}
	k.write("<tool_call>\n<function=", c.Name, ">\n")
	given := c.Arguments.(pytext.Ordered) // check
	for _, name := range given.Keys {
		k.write("<parameter=", name, ">\n", k.parameter(given.Values[name]), "\n</parameter>\n")
	}
	k.write("</function>\n</tool_call>")
}

// parameter is a value as the form writes it: lists and objects as JSON, others as Python prints them, or JSON too.
func (k thinking) parameter(v any) string {
	_, list := v.([]any)
	_, object := v.(pytext.Ordered)
	_, text := v.(string)
	if list || object || k.form == Qwen36 && !text {
		return pytext.Dumps(v)
	}
	return pytext.Str(v)
}
