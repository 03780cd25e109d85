package vlm

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRender: differences between the three forms, beside the recorded ones.
func TestRender(t *testing.T) {
	const talk = `[{"role": "user", "content": [{"type": "image", "text": "seen by system turns alone"}, {"type": "video"}, {"type": "text", "text": "what?"}]},
		{"role": "assistant", "content": null, "tool_calls": [{"name": "zoom", "arguments": {"b": [1, 2.50], "a": "é"}}, {"function": {"name": "f", "arguments": "{}"}}]},
		{"role": "tool", "content": "x"}, {"role": "tool", "content": []}, {"role": "referee", "content": "stop"}]`
	messages, err := ReadMessages(talk)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Qwen3VL.Render(messages, Rendering{Number: true, Generate: true})
	want := "<|im_start|>user\nPicture 1: <|vision_start|><|image_pad|><|vision_end|>Video 1: <|vision_start|><|video_pad|><|vision_end|>what?<|im_end|>\n" +
		"<|im_start|>assistant\n<tool_call>\n{\"name\": \"zoom\", \"arguments\": {\"b\": [1, 2.5], \"a\": \"é\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call><|im_end|>\n" +
		"<|im_start|>user\n<tool_response>\nx\n</tool_response>\n<tool_response>\n\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
	if err != nil || got != want {
		t.Errorf("qwen3_vl: %q, %v, want %q", got, err, want)
	}
	got, err = Qwen25VL.Render(messages, Rendering{})
	want = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|><|vision_start|><|video_pad|><|vision_end|>what?<|im_end|>\n" +
		"<|im_start|>assistant\n<|im_end|>\n<|im_start|>tool\nx<|im_end|>\n<|im_start|>tool\n<|im_end|>\n<|im_start|>referee\nstop<|im_end|>\n"
	if err != nil || got != want {
		t.Errorf("qwen2_5_vl: %q, %v, want %q", got, err, want)
	}
	if _, err := Qwen25.Render(messages, Rendering{}); err == nil || !strings.Contains(err.Error(), "text alone") {
		t.Errorf("qwen2_5 with a picture: %v", err)
	}
	if _, err := Qwen3VL.Render(nil, Rendering{}); err == nil {
		t.Error("no message")
	}
	if _, err := Template(9).Render(messages, Rendering{}); err == nil {
		t.Error("no template")
	}
}

func TestBadMessages(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "not JSON",
		"{}":                 "a list",
		"[1]":                "messages[0]: an object",
		`[{"content": "x"}]`: "messages[0].role",
		`[{"role": "user"}, {"role": "user", "content": 5}]`:              "messages[1].content",
		`[{"role": "user", "content": ["x"]}]`:                            "messages[0].content[0]: an object",
		`[{"role": "user", "content": [{"text": 5}]}]`:                    "messages[0].content[0].text",
		`[{"role": "user", "tool_calls": {}}]`:                            "tool_calls: a list",
		`[{"role": "user", "tool_calls": [5]}]`:                           "tool_calls[0]: an object",
		`[{"role": "user", "tool_calls": [{"arguments": {}}]}]`:           "a name",
		`[{"role": "user", "tool_calls": [{"function": {"name": "x"}}]}]`: `"arguments" are missing`,
		strings.Repeat("[", 100000):                                       "not JSON",
	} {
		if m, err := ReadMessages(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, %v, want %q", text, m, err, want)
		}
	}
	for _, text := range []string{"", "{}", "[5]", "[[]]"} {
		if v, err := ReadTools(text); err == nil {
			t.Errorf("tools %s: %v", text, v)
		}
	}
}

// TestOpenTemplate: a template that is not known is refused, with the names of those that are.
func TestOpenTemplate(t *testing.T) {
	for name, text := range map[string]string{
		"chat_template.jinja":   "{% for m in messages %}{{ m }}{% endfor %}",
		"chat_template.json":    `{"chat_template": "{{ messages }}"}`,
		"tokenizer_config.json": `{"chat_template": "{{ messages }}"}`,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenTemplate(dir); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "qwen3_vl") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := OpenTemplate(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no chat template") {
		t.Errorf("an empty folder: %v", err)
	}
	for i, name := range templateNames {
		if !slices.Contains(slices.Collect(maps.Values(templateHashes)), Template(i)) {
			t.Errorf("%s has no hash", name)
		}
		if found, err := TemplateNamed(name); err != nil || found != Template(i) || found.String() != name {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
	if _, err := TemplateNamed("qwen9"); err == nil {
		t.Error("qwen9")
	}
}

// TestPlainTemplate: a copy that renders the same is the same, however it is written, and one that renders otherwise is
// not.
func TestPlainTemplate(t *testing.T) {
	const folder = "../../assets/tiny-vlm/chat_template.jinja"
	text, err := os.ReadFile(folder)
	if err != nil {
		t.Fatal(err)
	}
	want, err := recognise(folder, string(text))
	if err != nil {
		t.Fatal(err)
	}
	published := string(text)
	same := map[string]string{
		"a comment":          "{# of somebody #}" + published,
		"marks of answers":   strings.Replace(published, "{% for", "{% generation %}{% endgeneration %}{% for", 1),
		"spaces in a tag":    strings.Replace(published, "{% for", "{%   for", 1),
		"line ends":          strings.ReplaceAll(published+"\n", "\n", "\r\n"),
		"another line's end": "  {# indented #}\n" + published,
	}
	for name, copied := range same {
		if got, err := recognise(name, copied); err != nil || got != want || copied == published {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for name, other := range map[string]string{
		"a space outside":  strings.Replace(published, "<|im_end|>", " <|im_end|>", 1),
		"a space in texts": strings.Replace(published, "You are a", "You are  a", 1),
		"a line more":      published + "\n\n",
		"raw":              "{% raw %}{% endraw %}" + published,
		"a tag cut off":    published[:len(published)-3],
	} {
		if got, err := recognise(name, other); err == nil || other == published {
			t.Errorf("%s: %v", name, got)
		}
	}
	for _, c := range [][2]string{
		{"a\n  {% if x %}\n  b\n  {% endif %}\nc\n", "a\n\x00%if x\x00  b\n\x00%endif\x00c"},
		{"a {%- if x -%} \n b {{- 'q' + \"it's\" ~ \"r\" }} {{ y }}", "a\x00%if x\x00b\x00{'q'+\"it's\"~'r'\x00 \x00{y\x00"},
		{"{{ '}}' }}{", "\x00{'}}'\x00{"},
		{"{% if a %}  {% endif %}", "\x00%if a\x00  \x00%endif\x00"},
		{"  {%+ if a +%}\n", "  \x00%if a\x00"},
	} {
		if got := plainTemplate(c[0]); got != c[1] {
			t.Errorf("%q: %q, want %q", c[0], got, c[1])
		}
	}
	list, err := json.Marshal(map[string]any{"chat_template": []any{map[string]string{"name": "tool_use", "template": "x"}, map[string]string{"name": "default", "template": published}}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), list, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := OpenTemplate(dir); err != nil || got != want {
		t.Errorf("of several: %v, %v", got, err)
	}
}

// FuzzPlainTemplate: any text has a plain form; without tags it is the text itself, line ends apart.
func FuzzPlainTemplate(f *testing.F) {
	for _, s := range []string{"{% if a %}b{% endif %}", "{{- 'x' -}}\n", "{# c #}", "{%", "{%-%}", "{{'\\", "{% raw %}{{ }}{% endraw %}", "a\r\n", "{"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		plain := plainTemplate(text)
		if want := strings.TrimSuffix(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), "\n"); nextTag(text) < 0 && plain != want {
			t.Errorf("%q: %q", text, plain)
		}
	})
}

// FuzzMessages: any text as a conversation, in every form: no panic, and one mark a picture.
func FuzzMessages(f *testing.F) {
	f.Add(`[{"role": "user", "content": [{"type": "image"}, {"text": "a"}]}]`, `[{"type": "function"}]`, true)
	f.Add(`[{"role": "assistant", "tool_calls": [{"name": "x", "arguments": {"a": 1e5}}]}, {"role": "tool", "content": ""}]`, `[{}]`, false)
	f.Fuzz(func(t *testing.T, talk, tools string, flag bool) {
		messages, err := ReadMessages(talk)
		if err != nil {
			return
		}
		r := Rendering{Generate: flag, Number: flag}
		r.Tools, _ = ReadTools(tools)
		pictures := 0
		for _, m := range messages {
			for _, p := range m.Content {
				if p.Kind == PicturePart {
					pictures++
				}
			}
		}
		for i := range templateNames {
			text, err := Template(i).Render(messages, r)
			if err != nil {
				continue
			}
			if n := strings.Count(text, "<|image_pad|>"); i == int(Qwen25VL) && n < pictures {
				t.Errorf("%d pictures, %d marks: %q", pictures, n, text)
			}
		}
	})
}
