package ledger

import "bytes"

// eachField calls f for every field of a JSON object, with its name as it is written and its value, until f returns
// false. It reports whether it came to the object's end. Brackets and quotes separate values; f reads their content.
func eachField(text []byte, f func(name, value []byte) bool) bool {
	i := space(text, 0)
	if i == len(text) || text[i] != '{' {
		return false
	}
	if i = space(text, i+1); i < len(text) && text[i] == '}' {
		return space(text, i+1) == len(text)
	}
	for i < len(text) && text[i] == '"' {
		end := stringEnd(text, i)
		colon := space(text, end)
		if end < 0 || colon == len(text) || text[colon] != ':' {
			return false
		}
		from := space(text, colon+1)
		to := valueEnd(text, from)
		if to <= from || !f(text[i+1:end-1], text[from:to]) {
			return false
		}
		if i = space(text, to); i == len(text) {
			return false
		}
		switch text[i] {
		case ',':
			i = space(text, i+1)
		case '}':
			return space(text, i+1) == len(text)
		default:
			return false
		}
	}
	return false
}

// space returns the first place from i on without white space.
func space(text []byte, i int) int {
	for i >= 0 && i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\n' || text[i] == '\r') {
		i++
	}
	return i
}

// stringEnd is behind the string that begins at i; -1: it has no end.
func stringEnd(text []byte, i int) int {
	for i++; ; i++ {
		n := bytes.IndexByte(text[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		escapes := 0
		for text[i-1-escapes] == '\\' { // it ends at the quote that began the string
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
}

// ends are the bytes that a value's end may depend on.
var ends = [256]bool{'"': true, '{': true, '[': true, '}': true, ']': true, ',': true, ' ': true, '\t': true, '\n': true, '\r': true}

// deepest is how deep values may lie within one another, as for encoding/json.
const deepest = 10000

// valueEnd is behind the value that begins at i; -1: it has no end, or lies too deep.
func valueEnd(text []byte, i int) int {
	deep := 0
	for ; i < len(text); i++ {
		if !ends[text[i]] {
			continue
		}
		switch text[i] {
		case '"':
			if i = stringEnd(text, i); i < 0 || deep == 0 {
				return i
			}
			i--
		case '{', '[':
			if deep++; deep > deepest {
				return -1
			}
		case '}', ']':
			if deep == 0 {
				return i // of the container of the value: a number or a word ends before it
			}
			if deep--; deep == 0 {
				return i + 1
			}
		default:
			if deep == 0 {
				return i
			}
		}
	}
	return -1
}
