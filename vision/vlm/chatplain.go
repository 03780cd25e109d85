package vlm

import "strings"

// Card: the plain form of a Jinja template. Copies of a published template are indented otherwise, have comments, or
// marks of what the assistant generates, and render the same bytes. Their plain form is one:
//
//	line ends are \n, and the last one is left out
//	white space that a tag's "-" takes away is gone, and so is what trim_blocks and lstrip_blocks take, with which
//	transformers compiles templates
//	comments, {% generation %} and {% endgeneration %} are gone
//	within a tag, words are one space apart and other signs none; a text is in single quotes where it holds no quotes
//
// Two templates of one plain form render the same of every conversation. The reverse does not hold.

// A tag is what stands between braces.
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
		if t.kind == '%' && plainCode(t.inside) == "raw" { // what looks like tags may be text
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

// cut is the text before a tag without what the tag takes of it.
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
	b.WriteByte(0) // no text has it: what stands outside looks like no tag
	b.WriteByte(t.kind)
	b.WriteString(inside)
	b.WriteByte(0)
}

// plainCode is what stands in a tag, with single spaces between words.
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
