package vlm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
)

// Card: which of the published templates a folder has. Its program is not run; it is brought to a plain form without
// anything invisible in its output (plainTemplate), and known by that form's hash. A program that is not known is
// refused: a wrong space between turns is a mistake that nobody sees.

// templateHashes are SHA-256 sums of the published templates in their plain form. Training templates of TRL that render
// the same are among them.
var templateHashes = map[string]Template{
	"643d1aa1dbaac5620a496a5ee9f42b53935240d4a6b1e0c9c3d24788e9a57bcd": Qwen25VL,
	"d843b049e607a8c979ba28af3dab1cc689dcdbc0c6f9980303780cb46c9d2150": Qwen25VL, // for training
	"de111cfe2d0feb61cdd3f789f1116e6fc4c91ad1c07f270d778dbfa48a1e75ab": Qwen3VL,  // and for training
	"fba63460e3f53fcc20c831ba2bfbaf69eb3447a2e0ef1ba9174d3ba4693edc28": Qwen25,
	"b579553fd2238b35060fa207f956e3e41deb91025f4a0a633e09efd576694342": Qwen25, // for training
	"47c0023f2761916cf3997786cfaba7435021a7b609d0d2970613532c6ec0eeaa": Qwen3VLThinking,
	"35773c15152b31796f35ef64719d3ef072c763512bd47c8fa91eb3b15de02e6d": Qwen35Think,
	"c6ae1c8eec729568e6f48fe1ea9bb551f70063bb08c22469b81078f58ef452fe": Qwen35NoThink,
	"79dd8e662f5ae1fa16a0c3d368067b8ec24851a053c989b2484aa3e84440c1a0": Qwen36,
}

// TemplateOf is the template that somebody names for a folder: a published one by its name, or a file that has it;
// "": the folder's own.
func TemplateOf(dir, name string) (Template, error) {
	if name == "" {
		return OpenTemplate(dir)
	}
	t, err := TemplateNamed(name)
	if err == nil {
		return t, nil
	}
	info, missing := os.Stat(name)
	switch {
	case missing != nil:
		return 0, fmt.Errorf("%w; and there is no file of that name", err)
	case info.IsDir():
		return OpenTemplate(name)
	case filepath.Ext(name) == ".json":
		t, has, err := templateIn(name)
		if err == nil && !has {
			err = fmt.Errorf("%s has no chat_template", name)
		}
		return t, err
	}
	text, err := hub.ReadFile(name)
	if err != nil {
		return 0, err
	}
	return recognise(name, string(text))
}

// OpenTemplate recognises a folder's template: chat_template.jinja, or "chat_template" of chat_template.json,
// processor_config.json or tokenizer_config.json, in which it may be one of several by their names: "default" counts.
func OpenTemplate(dir string) (Template, error) {
	path := filepath.Join(dir, "chat_template.jinja")
	text, err := hub.ReadFile(path)
	if err == nil {
		return recognise(path, string(text))
	}
	if !os.IsNotExist(err) {
		return 0, err
	}
	for _, name := range []string{"chat_template.json", "processor_config.json", "tokenizer_config.json"} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		if t, has, err := templateIn(path); has || err != nil {
			return t, err
		}
	}
	return 0, fmt.Errorf("%s: no chat template\n%s", dir, templateHint())
}

// templateIn is the template of a file of settings, and whether that has one.
func templateIn(path string) (t Template, has bool, err error) {
	var f struct {
		Template *namedTemplates `json:"chat_template"`
	}
	if err := hub.JSON(path, &f); err != nil {
		return 0, false, err
	}
	if f.Template == nil {
		return 0, false, nil
	}
	t, err = recognise(path, string(*f.Template))
	return t, true, err
}

// templateHint says how a template is named.
func templateHint() string {
	return "hint: name the one that the weights were trained with, as template of [model], of a judge or of ask: one of " + strings.Join(templateNames, ", ") + ", or a file or a folder that has one of these"
}

// namedTemplates is a template, or the default of a list of them.
type namedTemplates string

// UnmarshalJSON reads both forms.
func (t *namedTemplates) UnmarshalJSON(b []byte) error {
	var list []struct {
		Name     string `json:"name"`
		Template string `json:"template"`
	}
	if len(b) == 0 || b[0] != '[' {
		return json.Unmarshal(b, (*string)(t))
	}
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	for _, one := range list {
		if one.Name == "default" {
			*t = namedTemplates(one.Template)
			return nil
		}
	}
	return fmt.Errorf("of %d templates none is called \"default\"", len(list))
}

func recognise(path, text string) (Template, error) {
	if t, ok := templateHashes[templateHash(text)]; ok {
		return t, nil
	}
	return 0, fmt.Errorf("%s: a chat template that is not one of the published, and programs of a folder are not run\n%s", path, templateHint())
}

// templateHash is that of a template's plain form.
func templateHash(text string) string {
	sum := sha256.Sum256([]byte(plainTemplate(text)))
	return hex.EncodeToString(sum[:])
}

// Card: the plain form of a Jinja template. Copies of a published template are indented otherwise, have comments, or
// marks of the assistant's output, and render the same bytes. Their plain form is one:
//
//	line ends are \n, and the last one is left out
//	white space that a tag's "-" removes is gone, and so is that of trim_blocks and lstrip_blocks, with which
//	transformers compiles templates
//	comments, {% generation %} and {% endgeneration %} are gone
//	within a tag, words are one space apart and other signs none; a text is in single quotes where it holds no quotes
//
// Two templates of one plain form render the same of every conversation. The reverse does not hold.

// A tag is the text between braces.
type tag struct {
	kind        byte // '%', '{' or '#'
	left, right byte // '-', '+' or 0
	inside      string
}

// plainTemplate is a template's plain form.
func plainTemplate(text string) string {
	text = strings.TrimSuffix(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), "\n")
	whole := text
	var b strings.Builder
	starting, strip := true, false // a line begins here; the tag before takes white space
	for text != "" {
		at := nextTag(text)
		before, t, rest := text, tag{}, ""
		if at >= 0 {
			ends := false
			before = text[:at]
			if t, rest, ends = readTag(text[at:]); !ends {
				return whole
			}
		}
		if strip {
			before = strings.TrimLeft(before, " \t\n")
		}
		b.WriteString(t.cut(before, starting))
		if at < 0 {
			break
		}
		if t.kind == '%' && plainCode(t.inside) == "raw" { // texts that look like tags may be text
			return whole
		}
		t.write(&b)
		strip, starting = t.right == '-', false
		if t.kind != '{' && t.right == 0 && strings.HasPrefix(rest, "\n") {
			rest, starting = rest[1:], true
		}
		text = rest
	}
	return b.String()
}

// nextTag is where a text's first tag begins; -1: it has none.
func nextTag(text string) int {
	for i := 0; i+1 < len(text); i++ {
		if text[i] == '{' && strings.IndexByte("%{#", text[i+1]) >= 0 {
			return i
		}
	}
	return -1
}

// cut is the text before a tag without the part that the tag removes.
func (t tag) cut(before string, starting bool) string {
	if t.left == '-' {
		return strings.TrimRight(before, " \t\n")
	}
	if t.left == '+' || t.kind != '%' && t.kind != '#' {
		return before
	}
	line := strings.LastIndexByte(before, '\n') + 1
	if (line > 0 || starting) && strings.Trim(before[line:], " \t") == "" {
		return before[:line]
	}
	return before
}

// readTag reads a tag from its brace on, if it ends.
func readTag(text string) (t tag, rest string, ends bool) {
	t.kind = text[1]
	end := len(text)
	closing := map[byte]string{'%': "%}", '{': "}}", '#': "#}"}[t.kind]
	for i, quote := 2, byte(0); i < len(text); i++ {
		switch c := text[i]; {
		case t.kind != '#' && quote != 0 && c == '\\':
			i++
		case t.kind != '#' && quote != 0:
			if c == quote {
				quote = 0
			}
		case t.kind != '#' && (c == '\'' || c == '"'):
			quote = c
		case strings.HasPrefix(text[i:], closing):
			end = i
		}
		if end < len(text) {
			break
		}
	}
	if end == len(text) {
		return t, "", false
	}
	t.inside, rest = text[2:end], text[end+2:]
	mark := func(c byte) bool { return c == '-' || c == '+' }
	if t.inside != "" && mark(t.inside[0]) {
		t.left, t.inside = t.inside[0], t.inside[1:]
	}
	if n := len(t.inside); n > 0 && mark(t.inside[n-1]) {
		t.right, t.inside = t.inside[n-1], t.inside[:n-1]
	}
	return t, rest, true
}

// write writes a tag that does something.
func (t tag) write(b *strings.Builder) {
	inside := plainCode(t.inside)
	if t.kind == '#' || t.kind == '%' && (inside == "generation" || inside == "endgeneration") {
		return
	}
	b.WriteByte(0) // no text has it: no text outside looks like a tag
	b.WriteByte(t.kind)
	b.WriteString(inside)
	b.WriteByte(0)
}

// plainCode is the content of a tag, with single spaces between words.
func plainCode(code string) string {
	var b strings.Builder
	word := false // the last sign was one of a word, and a space may be needed
	space := false
	for i := 0; i < len(code); i++ {
		c := code[i]
		if strings.IndexByte(" \t\n", c) >= 0 {
			space = true
			continue
		}
		isWord := c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80 || c == '\'' || c == '"'
		if space && word && isWord {
			b.WriteByte(' ')
		}
		word, space = isWord, false
		if c != '\'' && c != '"' {
			b.WriteByte(c)
			continue
		}
		end := i + 1
		for end < len(code) && code[end] != c {
			if code[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end, len(code))
		inside := code[i+1 : end]
		if !strings.ContainsAny(inside, `'"`) {
			c = '\''
		}
		b.WriteByte(c)
		b.WriteString(inside)
		b.WriteByte(c)
		i = end
	}
	return b.String()
}
