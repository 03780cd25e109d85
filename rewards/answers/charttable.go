package answers

import (
	"errors"
	"fmt"
	"html"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards/edits"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: a table as triples (HunyuanOCR, chart_deplot, csv_eval; SCRM of StructChart): the names of a cell's row and
// column, in order, and its value. Two triples are the same where both names together are at most two letters apart
// and a number is within 5 %, or where all three texts together are at most two letters apart. The similarity is
//
//	triples of the reply that are in the truth / (triples of both - those that are in the truth in other words)
//
// Before that the reply gets parts that it may leave out: names of columns, a first column, a common beginning or end
// of the truth's names; triples about outliers and scattered points, of which the truth has none, are left out. Tables
// are those of Markdown, of HTML (the first; cells over several columns and rows are repeated) and lines with bars.
// Kept as upstream has it: rows are one text between " \t " and " \n " in letters, so that an empty last cell is lost;
// a wanted number below zero is met by all numbers; several triples of a reply may meet one of the truth.
// Invariants (tests): values of upstream's functions.

const (
	columnBreak = ` \t `
	rowBreak    = ` \n `
)

// mostCells is how many cells a table of HTML may have once its spans are written out.
const mostCells = 100_000

var (
	htmlTable    = regexp.MustCompile(`(?is)<table[^>]*>(.*?)</table>`)
	htmlRow      = regexp.MustCompile(`(?is)<tr[^>]*>(.*?)</tr>`)
	htmlCell     = regexp.MustCompile(`(?is)<td([^>]*)>(.*?)</td>|<th([^>]*)>(.*?)</th>`)
	htmlCaption  = regexp.MustCompile(`(?is)<caption[^>]*>.*?</caption>`)
	htmlBreak    = regexp.MustCompile(`(?i)<br` + blank + `/?>`)
	htmlSpan     = regexp.MustCompile(`(?i)(colspan|rowspan)` + blank + `=` + blank + `["']?` + blank + `(\p{Nd}+)` + blank + `["']?`)
	tableLine    = regexp.MustCompile(`^\|[\s\v\x1c-\x1f\x85\p{Z}\-:]+\|$`)
	tableBorder  = regexp.MustCompile(`^[+\-|\s\v\x1c-\x1f\x85\p{Z}:=]+$`)
	tableIndex   = regexp.MustCompile(`^[+-]?\p{Nd}+(?:_\p{Nd}+)*$`)
	markdownOpen = fence("markdown")
	htmlOpen     = fence("html")
)

// fence is a whole text in a fence of a language, or of none.
func fence(language string) *regexp.Regexp {
	return regexp.MustCompile("(?s)^```(?:" + language + "|" + strings.ToUpper(language) + ")?" + blank + `\n?(.*?)` + "\n?```" + blank + `$`)
}

// inFence is the text inside of a fence, or the text.
func inFence(f *regexp.Regexp, text string) string {
	text = pytext.Strip(text)
	if m := f.FindStringSubmatch(text); m != nil {
		return pytext.Strip(m[1])
	}
	return text
}

// hasHTML reports whether a text has a table of HTML.
func hasHTML(text string) bool {
	has := func(tag string) bool {
		return strings.Contains(text, tag) || strings.Contains(text, strings.ToUpper(tag))
	}
	return has("<table") && has("<tr") && (has("<td") || has("<th"))
}

// htmlCells reads the first table of HTML.
func htmlCells(text string) (string, error) {
	text = inFence(htmlOpen, inFence(markdownOpen, text))
	m := htmlTable.FindStringSubmatch(htmlCaption.ReplaceAllString(text, ""))
	if m == nil {
		return "", nil
	}
	type below struct {
		rows int
		text string
	}
	var rows []map[int]string
	waiting := map[int]below{} // cells of the rows above, by column
	width, cells := 0, 0
	for _, tr := range htmlRow.FindAllStringSubmatch(m[1], -1) {
		row := map[int]string{}
		column := 0
		fill := func() {
			for waiting[column].rows > 0 {
				w := waiting[column]
				row[column] = w.text
				w.rows--
				waiting[column] = w
				column++
			}
		}
		fill()
		for _, c := range htmlCell.FindAllStringSubmatch(tr[1], -1) {
			columns, down := spans(c[1] + c[3])
			if cells += columns; cells > mostCells {
				return "", fmt.Errorf("a table has more than %d cells: colspan %d", mostCells, columns)
			}
			text := htmlText(c[2] + c[4])
			for range columns {
				row[column] = text
				if down > 1 {
					waiting[column] = below{down - 1, text}
				}
				column++
			}
			fill()
		}
		if len(row) > 0 {
			rows = append(rows, row)
			for c := range maps.Keys(row) {
				width = max(width, c+1)
			}
		}
		if width*len(rows) > mostCells {
			return "", fmt.Errorf("a table has more than %d cells: %d rows of %d", mostCells, len(rows), width)
		}
	}
	var lines []string
	for _, row := range rows {
		line, empty := make([]string, width), true
		for c := range line {
			line[c] = row[c]
			empty = empty && line[c] == ""
		}
		if !empty {
			lines = append(lines, strings.Join(line, columnBreak))
		}
	}
	return strings.Join(lines, rowBreak), nil
}

// spans are how many columns and rows a cell takes.
func spans(attributes string) (columns, rows int) {
	columns, rows = 1, 1
	for _, m := range htmlSpan.FindAllStringSubmatch(attributes, -1) {
		v, _ := pytext.Float(m[2])
		if n := max(1, int(min(v, 1e9))); strings.EqualFold(m[1], "colspan") {
			columns = n
		} else {
			rows = n
		}
	}
	return columns, rows
}

// htmlText is a cell's text.
func htmlText(cell string) string {
	cell = tagged.ReplaceAllString(htmlBreak.ReplaceAllString(cell, " "), "")
	return pytext.Strip(parsingSpace.ReplaceAllString(html.UnescapeString(cell), " "))
}

// separates reports whether a line divides a table's head from its rows.
func separates(line string) bool {
	return tableLine.MatchString(line) || strings.HasPrefix(line, "|") && strings.Contains(line, "-") && strings.Trim(line, "-|: ") == ""
}

// isMarkdownTable reports whether a text has a row between bars and a line that divides.
func isMarkdownTable(text string) bool {
	rows, divided := false, false
	for _, line := range strings.Split(pytext.Strip(text), "\n") {
		line = pytext.Strip(line)
		rows = rows || strings.HasPrefix(line, "|") && strings.HasSuffix(line, "|")
		divided = divided || separates(line)
	}
	return rows && divided
}

// cellsOf are the texts between bars.
func cellsOf(line string) []string {
	cells := strings.Split(line, "|")
	for i, c := range cells {
		cells[i] = pytext.Strip(c)
	}
	return cells
}

// markdownCells reads a table of Markdown.
func markdownCells(text string) string {
	var lines []string
	for _, line := range strings.Split(pytext.Strip(text), "\n") {
		if line = pytext.Strip(line); strings.HasPrefix(line, "|") && !separates(line) {
			lines = append(lines, strings.Join(cellsOf(strings.Trim(line, "|")), columnBreak))
		}
	}
	return strings.Join(lines, rowBreak)
}

// commonest is the length that most have, of those the first.
func commonest(lengths []int) (length, count int) {
	counts := map[int]int{}
	for _, n := range lengths {
		counts[n]++
	}
	for _, n := range lengths {
		if counts[n] > count {
			length, count = n, counts[n]
		}
	}
	return length, count
}

// isBars reports whether most lines have bars, and most of those equally many.
func isBars(text string) bool {
	lines := 0
	var lengths []int
	for _, line := range strings.Split(text, "\n") {
		line = pytext.Strip(line)
		if line == "" || tableBorder.MatchString(line) {
			continue
		}
		lines++
		if strings.Contains(line, "|") {
			lengths = append(lengths, strings.Count(pytext.Strip(strings.Trim(line, "|")), "|")+1)
		}
	}
	if lines < 2 || len(lengths) < max(2, int(float64(lines)*0.7)) || slices.Max(lengths) < 2 {
		return false
	}
	_, count := commonest(lengths)
	return count >= max(2, int(float64(len(lengths))*0.7))
}

// barCells reads lines with bars: rows of one length, which two rows of names and numbers become columns of.
func barCells(text string) string {
	var rows [][]string
	var lengths []int
	for _, line := range strings.Split(text, "\n") {
		line = pytext.Strip(line)
		if line == "" || tableBorder.MatchString(line) || !strings.Contains(line, "|") {
			continue
		}
		row := cellsOf(pytext.Strip(strings.Trim(line, "|")))
		if strings.Join(row, "") != "" {
			rows, lengths = append(rows, row), append(lengths, len(row))
		}
	}
	width, _ := commonest(lengths)
	if len(rows) < 2 || width < 2 {
		return ""
	}
	for i, row := range rows {
		rows[i] = append(row, make([]string, max(0, width-len(row)))...)[:width]
	}
	if len(rows) == 2 && width >= 3 {
		names, numbers := 0, 0
		for c, name := range rows[0] {
			if name != "" && !isBarNumber(name) {
				names++
			}
			if isBarNumber(rows[1][c]) {
				numbers++
			}
		}
		if least := max(2, int(0.8*float64(width))); names >= least && numbers >= least {
			var turned [][]string
			for c, name := range rows[0] {
				turned = append(turned, []string{name, rows[1][c]})
			}
			rows = turned
		}
	}
	var lines []string
	for _, row := range rows {
		lines = append(lines, strings.Join(row, columnBreak))
	}
	return strings.Join(lines, rowBreak)
}

func isBarNumber(text string) bool {
	_, ok := pytext.Float(strings.ReplaceAll(strings.TrimRight(pytext.Strip(text), "%"), ",", ""))
	return ok
}

// tableText is a table as one text.
func tableText(text string) (string, error) {
	text = pytext.Strip(text)
	if hasHTML(text) {
		if cells, err := htmlCells(text); cells != "" || err != nil {
			return cells, err
		}
	}
	if isMarkdownTable(text) {
		return markdownCells(text), nil
	}
	if isBars(text) {
		if cells := barCells(text); cells != "" {
			return cells, nil
		}
	}
	return text, nil
}

// nameless reports whether a row names no column; the first cell may be a title.
func nameless(row []string) bool {
	for i, c := range row {
		if pytext.Strip(c) != "" && (i > 0 || len(row) < 2) {
			return false
		}
	}
	return true
}

// A rowText is a table as one text, and its rows.
type rowText struct {
	text string
	rows [][]string
}

func writtenTable(text string) rowText {
	w := rowText{text: text}
	if text = strings.TrimRight(text, "\n\r"); pytext.Strip(text) != "" {
		for _, line := range strings.Split(text, rowBreak) {
			w.rows = append(w.rows, strings.Split(line, columnBreak))
		}
	}
	return w
}

// unnamed is the table's text with blank names for a number of columns.
func (w rowText) unnamed(columns int) string {
	_, rest, _ := strings.Cut(strings.TrimRight(w.text, "\n\r"), rowBreak)
	return strings.TrimSuffix(strings.Repeat(" "+columnBreak, columns), columnBreak) + rowBreak + rest
}

// firstGone is the table's text without its first column.
func (w rowText) firstGone() string {
	lines := strings.Split(strings.TrimRight(w.text, "\n\r"), rowBreak)
	for i, line := range lines {
		if _, rest, more := strings.Cut(line, columnBreak); more {
			lines[i] = rest
		}
	}
	return strings.Join(lines, rowBreak)
}

// blankFirst reports whether the first column has no name.
func (w rowText) blankFirst() bool { return pytext.Strip(w.rows[0][0]) == "" }

// numbered reports whether the first column is 0, 1, 2 ... or 1, 2, 3 ... without a name.
func (w rowText) numbered() bool {
	if !w.blankFirst() || len(w.rows) < 3 {
		return false
	}
	first := 0.0
	for i, row := range w.rows[1:] {
		cell := pytext.Strip(row[0])
		v, ok := pytext.Float(cell)
		if !ok || !tableIndex.MatchString(cell) {
			return false
		}
		if i == 0 {
			first = v
		}
		if v != first+float64(i) || first != 0 && first != 1 {
			return false
		}
	}
	return true
}

// alignedTables are both tables' texts, where one names its columns and the other does not.
func alignedTables(reply, truth string) (string, string) {
	got, want := writtenTable(reply), writtenTable(truth)
	named := func(w rowText) bool { return len(w.rows) == 0 || !nameless(w.rows[0]) }
	width := func(w rowText) int { return len(w.rows[min(1, len(w.rows)-1)]) }
	near := len(got.rows)-len(want.rows) <= 1 && len(want.rows)-len(got.rows) <= 1
	switch {
	case !named(want) && named(got) && len(got.rows) > 1:
		return got.unnamed(len(got.rows[0])), truth
	case !named(got) && named(want) && len(want.rows) > 1:
		if near && width(got) == width(want) && width(want) >= 2 {
			return reply, want.unnamed(len(want.rows[0]))
		}
	case named(got) && named(want) && len(got.rows) > 1 && len(want.rows) > 1 && near:
		if width(got) == width(want)+1 && width(want) >= 2 && (want.blankFirst() && !got.blankFirst() || got.numbered()) {
			return got.firstGone(), truth
		}
		second := func(w rowText) bool { return len(w.rows[0]) >= 2 && pytext.Strip(w.rows[0][1]) != "" }
		if width(got) == 2 && width(want) == 2 && second(got) && second(want) && (want.blankFirst() || !got.blankFirst()) {
			return got.unnamed(2), want.unnamed(2)
		}
	}
	return reply, truth
}

var halfWidth = strings.NewReplacer("：", ":", "（", "(", "）", ")", "，", ",", "；", ";", "％", "%")

var superscripts = strings.NewReplacer("0", "⁰", "1", "¹", "2", "²", "3", "³", "4", "⁴", "5", "⁵", "6", "⁶", "7", "⁷", "8", "⁸", "9", "⁹", "n", "ⁿ", "+", "⁺", "-", "⁻")

var (
	latexDollars = regexp.MustCompile(`\$` + blank + `(.*?)` + blank + `\$`)
	latexTexts   = []*regexp.Regexp{regexp.MustCompile(`\\text\{([^}]*)\}`), regexp.MustCompile(`\\mathrm\{([^}]*)\}`), regexp.MustCompile(`\\textbf\{([^}]*)\}`)}
	latexPowers  = regexp.MustCompile(`\^\{([^}]*)\}`)
	latexPower   = regexp.MustCompile(`\^(\p{Nd})`)
)

// plainLatex is a name without the marks of LaTeX.
func plainLatex(text string) string {
	if !strings.ContainsAny(text, `$\`) {
		return text
	}
	for _, r := range append([]*regexp.Regexp{latexDollars}, latexTexts...) {
		text = r.ReplaceAllString(text, "${1}")
	}
	text = latexPowers.ReplaceAllStringFunc(text, func(m string) string { return superscripts.Replace(m[2 : len(m)-1]) })
	text = latexPower.ReplaceAllStringFunc(text, func(m string) string {
		if d := m[1:]; len(d) == 1 {
			return superscripts.Replace(d)
		}
		return m[1:]
	})
	return pytext.Strip(parsingSpace.ReplaceAllString(text, " "))
}

// boxplots are the names of a box plot's numbers, the first that fits. The first group is the name; letters around it
// are not part of it.
var boxplots = []struct {
	find *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`(?i)([_\-]?(?:下|第一)四分位数?` + blank + `(?:[(（]` + blank + `Q1` + blank + `[)）])?)`), "-Q1"},
	{regexp.MustCompile(`(?i)([_\-]?Q1)` + chartNoWord), "-Q1"},
	{regexp.MustCompile(`(?i)([_\-]?第二四分位数?` + blank + `(?:[(（]` + blank + `Q2` + blank + `[)）])?)`), "-中位数"},
	{regexp.MustCompile(`(?i)([_\-]?中位数` + blank + `(?:[(（]` + blank + `Q2` + blank + `[)）])?)`), "-中位数"},
	{regexp.MustCompile(`(?i)([_\-]?Q2)` + chartNoWord), "-中位数"},
	{regexp.MustCompile(`(?i)([_\-]?(?:上|第三)四分位数?` + blank + `(?:[(（]` + blank + `Q3` + blank + `[)）])?)`), "-Q3"},
	{regexp.MustCompile(`(?i)([_\-]?Q3)` + chartNoWord), "-Q3"},
	{boxplotWord("Median"), "-中位数"},
	{regexp.MustCompile(`(?i)([_\-]?最小值)`), "-最小值"},
	{boxplotWord("Min"), "-最小值"},
	{regexp.MustCompile(`(?i)([_\-]?最大值)`), "-最大值"},
	{boxplotWord("Max"), "-最大值"},
}

// boxplotWord is a whole word, with a hyphen before it.
func boxplotWord(word string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)(?:^|[^\p{L}\p{N}_\-])(-?` + word + `)` + chartNoWord + `|(-` + word + `)` + chartNoWord)
}

// tripleName is a row's or a column's name as it is compared.
func tripleName(text string) string {
	text = pytext.Strip(text)
	if text == "" {
		return ""
	}
	text = strings.ReplaceAll(plainLatex(halfWidth.Replace(text)), "µ", "μ")
	for _, b := range boxplots {
		m := b.find.FindStringSubmatchIndex(text)
		if m == nil {
			continue
		}
		begin, end := m[2], m[3]
		if begin < 0 {
			begin, end = m[4], m[5]
		}
		before := strings.TrimRight(strings.TrimRight(strings.TrimRight(text[:begin], "-_— "), "(（"), " ")
		after := strings.TrimLeft(strings.TrimLeft(strings.TrimLeft(text[end:], "-_— "), ")）"), " ")
		switch {
		case before != "" && after != "":
			return before + b.to + "-" + after
		case before != "":
			return before + b.to
		}
		return after + b.to
	}
	return text
}

// A triple is a cell: names of its row and column, and its value.
type triple struct {
	first, second string
	number        bool
	value         float64
	text          string
}

// newTriple reads a value.
func newTriple(first, second, value string) triple {
	t := triple{first: pytext.Lower(first), second: pytext.Lower(second)}
	if v, ok := pytext.Float(value); ok {
		t.number, t.value = true, v
	} else {
		t.text = pytext.Lower(value)
	}
	return t
}

// ordered has the names in order.
func (t triple) ordered() triple {
	t.first, t.second = min(t.first, t.second), max(t.first, t.second)
	return t
}

// whole is all of a triple as one text.
func (t triple) whole() string {
	if t.number {
		return t.first + t.second + pytext.Str(pytext.NewFloat(t.value))
	}
	return t.first + t.second + t.text
}

// triplesOf reads a table's text.
func triplesOf(text string) (list []triple) {
	lines := strings.Split(strings.TrimRight(text, "\n\r \t"), rowBreak)
	head := strings.Split(lines[0], columnBreak)
	value := func(cell string) string {
		return strings.NewReplacer("%", "", "$", "").Replace(halfWidth.Replace(pytext.Strip(cell)))
	}
	if nameless(head) {
		for _, line := range lines {
			row := strings.Split(line, columnBreak)
			switch {
			case len(row) == 1 && pytext.Strip(row[0]) != "":
				list = append(list, newTriple(tripleName(row[0]), "", ""))
			case len(row) > 1 && !nameless(row):
				for _, cell := range row[1:] {
					list = append(list, newTriple(tripleName(row[0]), "", value(cell)))
				}
			}
		}
		return list
	}
	for _, line := range lines[1:] {
		row := strings.Split(line, columnBreak)
		for i := 1; i < min(len(row), len(head)); i++ {
			a, b := tripleName(row[0]), tripleName(head[i])
			list = append(list, newTriple(min(a, b), max(a, b), value(row[i])))
		}
	}
	return list
}

// boxplotEnds are the names of a box plot's numbers alone.
var boxplotEnds = []string{"-最小值", "-q1", "-中位数", "-q3", "-最大值"}

// namesOf are the names of triples without those that are numbers.
func namesOf(list []triple) map[string]bool {
	names := map[string]bool{}
	for _, t := range list {
		for _, name := range []string{t.first, t.second} {
			if name != "" && !pytext.IsDigit(strings.NewReplacer(".", "", "-", "").Replace(name)) {
				names[name] = true
			}
		}
	}
	return names
}

// renamed has names as a function makes them; changed ones are in order.
func renamed(list []triple, to func(name string) string) []triple {
	out := slices.Clone(list)
	for i, t := range out {
		a, b := to(t.first), to(t.second)
		if a != t.first || b != t.second {
			t.first, t.second = a, b
			out[i] = t.ordered()
		}
	}
	return out
}

// completed gives the reply's names the common beginning or end of the truth's.
func completed(got, want []triple) []triple {
	got, boxed := withBoxplot(got, want)
	names := namesOf(want)
	if len(names) < 2 {
		return got
	}
	sorted := slices.Sorted(maps.Keys(names))
	if out, ok := withEnd(got, names, sorted); ok {
		return out
	}
	if boxed {
		return got
	}
	return withBeginning(got, names, sorted)
}

// withBoxplot puts the only name of the truth's box plots before the bare names of the reply's.
func withBoxplot(got, want []triple) (out []triple, changed bool) {
	names := map[string]bool{}
	for _, t := range want {
		for _, name := range []string{t.first, t.second} {
			for _, end := range boxplotEnds {
				if before, ok := strings.CutSuffix(name, end); ok && before != "" {
					names[before] = true
				}
			}
		}
	}
	bare := func(name string) bool { return slices.Contains(boxplotEnds, name) }
	if len(names) != 1 || !slices.ContainsFunc(got, func(t triple) bool { return bare(t.first) || bare(t.second) }) {
		return got, false
	}
	before := slices.Collect(maps.Keys(names))[0]
	return renamed(got, func(name string) string {
		if bare(name) {
			return before + name
		}
		return name
	}), true
}

// stemmed gives names of the reply their missing part, where each is a name of the truth without it and none is whole.
func stemmed(got []triple, names, stems map[string]bool, whole func(stem string) string) ([]triple, bool) {
	have := namesOf(got)
	if len(have) == 0 {
		return got, false
	}
	for name := range have {
		if !stems[name] || names[name] {
			return got, false
		}
	}
	return renamed(got, func(name string) string {
		if stems[name] && !names[name] {
			return whole(name)
		}
		return name
	}), true
}

// withEnd gives the reply's names the end that is common to the truth's.
func withEnd(got []triple, names map[string]bool, sorted []string) ([]triple, bool) {
	common := []rune(sorted[0])
	for _, name := range sorted {
		letters := []rune(name)
		n := 0
		for n < min(len(common), len(letters)) && common[len(common)-1-n] == letters[len(letters)-1-n] {
			n++
		}
		common = common[len(common)-n:]
	}
	end := strings.TrimLeftFunc(string(common), pytext.Space)
	if end == "" || !strings.Contains("-_", end[:1]) {
		return got, false
	}
	stems := map[string]bool{}
	for _, name := range sorted {
		stems[strings.TrimRight(name[:len(name)-len(string(common))], "-_ ")] = true
	}
	return stemmed(got, names, stems, func(stem string) string { return stem + end })
}

// withBeginning gives the reply's names the beginning that is common to the truth's.
func withBeginning(got []triple, names map[string]bool, sorted []string) []triple {
	common := []rune(sorted[0])
	for _, name := range sorted {
		letters := []rune(name)
		n := 0
		for n < min(len(common), len(letters)) && common[n] == letters[n] {
			n++
		}
		common = common[:n]
	}
	begin := strings.TrimRightFunc(string(common), pytext.Space)
	if begin == "" || !strings.Contains("-_", begin[len(begin)-1:]) {
		return got
	}
	stems := map[string]bool{}
	for _, name := range sorted {
		stems[strings.TrimLeft(name[len(string(common)):], "-_ ")] = true
	}
	out, _ := stemmed(got, names, stems, func(stem string) string { return begin + stem })
	return out
}

// extras are words of triples that are left out of a reply where the truth has none of them.
var extras = [][]string{{"异常值", "outlier", "离群"}, {"离散点", "离散值", "discrete", "scatter"}}

// withoutExtras leaves out triples about outliers and scattered points, of which the truth has none.
func withoutExtras(got, want []triple) []triple {
	for _, words := range extras {
		has := func(t triple) bool {
			return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(t.first+t.second, w) })
		}
		if !slices.ContainsFunc(want, has) {
			got = slices.DeleteFunc(slices.Clone(got), has)
		}
	}
	return got
}

// lettersApart is how many letters names, or texts, may be apart; farApart how many those that upstream divides of.
const (
	lettersApart = 2
	farApart     = 5
)

// similarTriples is the similarity of two lists.
func similarTriples(got, want []triple) (float64, error) {
	set := func(list []triple) (out []triple, in map[triple]bool, names, wholes [][]rune) {
		in = map[triple]bool{}
		for _, t := range list {
			if in[t] {
				continue
			}
			in[t] = true
			out, names, wholes = append(out, t), append(names, []rune(t.first+t.second)), append(wholes, []rune(t.whole()))
		}
		return out, in, names, wholes
	}
	found, _, foundNames, foundWholes := set(got)
	asked, in, names, wholes := set(want)
	met, words, all := 0, 0, len(asked) // triples that are in the truth, those in other words, and those of both
	for i, f := range found {
		meets := false
		for j, w := range asked {
			switch {
			case f.number && w.number:
				if w.value == -0.000001 && edits.Within(foundNames[i], names[j], farApart) {
					return 0, errDivision
				}
				meets = meets || closeTo(f.value, w.value) && edits.Within(foundNames[i], names[j], lettersApart)
			case !meets:
				meets = edits.Within(foundWholes[i], wholes[j], lettersApart)
			}
		}
		if !in[f] {
			all++
		}
		if meets {
			met++
			if !in[f] {
				words++
			}
		}
	}
	if all == words {
		return 0, nil
	}
	return float64(met) / float64(all-words), nil
}

// similarTables is the similarity of two tables.
func similarTables(reply, truth string) (float64, error) {
	got, err := tableText(reply)
	if err != nil {
		return 0, fmt.Errorf("the reply: %w", err)
	}
	want, err := tableText(truth)
	if err != nil {
		return 0, errors.Join(errors.New("meta.answer"), err)
	}
	if got == "" || want == "" {
		return 0, nil
	}
	got, want = alignedTables(got, want)
	a, b := triplesOf(got), triplesOf(want)
	return similarTriples(withoutExtras(completed(a, b), b), b)
}
