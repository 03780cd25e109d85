package tools

import "strings"

// between is re.findall(open + "(.*?)" + end) over lines: what stands between pairs of tags,
// each opening one with the next closing one.
func between(text, open, end string) []string {
	var all []string
	for {
		_, rest, ok := strings.Cut(text, open)
		if !ok {
			return all
		}
		inside, after, ok := strings.Cut(rest, end)
		if !ok {
			return all
		}
		all, text = append(all, inside), after
	}
}

// without is re.sub of these pairs by nothing.
func without(text, open, end string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, open)
		_, after, closed := strings.Cut(rest, end)
		if !ok || !closed {
			return b.String() + text
		}
		b.WriteString(before)
		text = after
	}
}

// A tagged is a pair of tags by name, and what stands between.
type tagged struct{ name, inside string }

// allTagged is re.findall("<(a|b)>(.*?)</\1>"): pairs of any of the names, from left to right,
// none within another.
func allTagged(text string, names ...string) []tagged {
	var all []tagged
	open := map[string]bool{} // names whose closing tag may still come
	for _, name := range names {
		open[name] = true
	}
	for at := 0; at < len(text); at++ {
		if text[at] != '<' {
			continue
		}
		for _, name := range names {
			rest, ok := strings.CutPrefix(text[at:], "<"+name+">")
			if !ok || !open[name] {
				continue
			}
			inside, _, closed := strings.Cut(rest, "</"+name+">")
			if !closed {
				open[name] = false
				continue
			}
			all = append(all, tagged{name, inside})
			at += 2*len(name) + len("<></>") + len(inside) - 1
			break
		}
	}
	return all
}

// last is the last of a list, and whether there is one.
func last[T any](list []T) (T, bool) {
	if len(list) == 0 {
		var none T
		return none, false
	}
	return list[len(list)-1], true
}
