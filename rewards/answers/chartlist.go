package answers

import (
	"regexp"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards/edits"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: a Markdown list as a tree (HunyuanOCR, chart_deplot, tree_eval). Two spaces, or a tab, are a level. An item "a:
// b" (also —, -, ->) is b below a; then an item with one child is one with it. A path is the names from the root to an
// item. The similarity of two paths is Levenshtein's ratio; paths are assigned to each other, and pairs from 0.85 on
// are added, over the longer list. Invariants (tests): values of upstream's functions.

// An entry is an item of a list with those below it.
type entry struct {
	name     string
	children []*entry
}

var (
	listTag  = regexp.MustCompile(`^` + pytext.SpaceClass + `*<[^>]+>`)
	listItem = regexp.MustCompile(`^` + pytext.SpaceClass + `*- `)
	listBare = regexp.MustCompile(`^` + pytext.SpaceClass + `*-[^\s\v\x1c-\x1f\x85\p{Z}]`)
)

// listLines are the lines of a text without blank ones and those that begin with a tag.
func listLines(text string) (lines []string) {
	for _, line := range strings.Split(pytext.Strip(text), "\n") {
		if line = strings.TrimRightFunc(line, pytext.Space); line != "" && !listTag.MatchString(line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// isChartList reports whether a text has two items.
func isChartList(text string) bool {
	items := 0
	for _, line := range listLines(text) {
		if listItem.MatchString(line) {
			items++
		}
	}
	return items >= 2
}

// level is how deep a line lies, and its item.
func level(line string) (depth int, item string) {
	spaces, rest := 0, line
	for rest != "" && (rest[0] == ' ' || rest[0] == '\t') {
		spaces++
		if rest[0] == '\t' {
			spaces++
		}
		rest = rest[1:]
	}
	return spaces / 2, pytext.Strip(strings.TrimPrefix(rest, "-"))
}

// treesOf reads a list.
func treesOf(text string) (roots []*entry) {
	type open struct {
		depth int
		entry *entry
	}
	var stack []open
	for _, line := range listLines(text) {
		if !listItem.MatchString(line) && !listBare.MatchString(line) {
			continue
		}
		depth, item := level(line)
		if item == "" {
			continue
		}
		for len(stack) > 0 && stack[len(stack)-1].depth >= depth {
			stack = stack[:len(stack)-1]
		}
		e := &entry{name: item}
		if len(stack) > 0 {
			parent := stack[len(stack)-1].entry
			parent.children = append(parent.children, e)
		} else {
			roots = append(roots, e)
		}
		stack = append(stack, open{depth, e})
	}
	return roots
}

// separators divide an item's names, the first that fits.
var separators = []string{"——", "—", "->", "-->", "--", "-", ":", "："}

// dividedNames are the names of an item. A separator has a letter before and behind it, and white space around.
func dividedNames(item string) (names []string) {
	letters := []rune(item)
	add := func(name []rune) {
		if n := pytext.Strip(string(name)); n != "" {
			names = append(names, n)
		}
	}
	begin := 0
	for i := 1; i < len(letters); {
		end := separatorAt(letters, i)
		if end == 0 {
			i++
			continue
		}
		add(letters[begin:i])
		begin, i = end, end
	}
	add(letters[begin:])
	return names
}

// separatorAt is the end of the separator at a place, or 0.
func separatorAt(letters []rune, i int) int {
	if pytext.Space(letters[i-1]) {
		return 0
	}
	for i < len(letters) && pytext.Space(letters[i]) {
		i++
	}
	for _, s := range separators {
		mark := []rune(s)
		if !slices.Equal(letters[i:min(i+len(mark), len(letters))], mark) {
			continue
		}
		end := i + len(mark)
		for end < len(letters) && pytext.Space(letters[end]) {
			end++
		}
		if end < len(letters) {
			return end
		}
	}
	return 0
}

// divided has an entry's names one below the other.
func (e *entry) divided() *entry {
	for i, c := range e.children {
		e.children[i] = c.divided()
	}
	names := dividedNames(e.name)
	if len(names) <= 1 {
		return e
	}
	below := e.children
	for _, name := range slices.Backward(names) {
		below = []*entry{{name, below}}
	}
	return below[0]
}

// joined makes one of an entry and its only child.
func (e *entry) joined() {
	for _, c := range e.children {
		c.joined()
	}
	for len(e.children) == 1 {
		only := e.children[0]
		e.name, e.children = e.name+"——"+only.name, only.children
	}
}

// paths are the names from the root to each entry, in lower case.
func (e *entry) paths(above string, list []string) []string {
	path := e.name
	if above != "" {
		path = above + " -> " + e.name
	}
	list = append(list, pytext.Lower(path))
	for _, c := range e.children {
		list = c.paths(path, list)
	}
	return list
}

// pathsOf are the paths of a list.
func pathsOf(text string) (list []string) {
	for _, root := range treesOf(text) {
		root = root.divided()
		root.joined()
		list = root.paths("", list)
	}
	return list
}

// similarTrees is the similarity of two lists.
func similarTrees(reply, truth string) (float64, error) {
	return assigned(pathsOf(reply), pathsOf(truth), edits.Ratio)
}
