package answers

import (
	"regexp"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards/edits"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: a flowchart of Mermaid as nodes and arrows (HunyuanOCR, chart_deplot, flowchart_eval). The similarity of two
// nodes is Levenshtein's ratio of their texts, that of two arrows the mean over both ends and the arrow's text. Nodes,
// and arrows, are assigned to each other, and pairs from 0.85 on are added, over the longer list:
//
//	0.6 arrows + 0.4 nodes, or nodes alone without arrows
//
// Invariants (tests): values of upstream's functions.

// An arrow leads from a node to a node.
type arrow struct{ from, to, text string }

// A graph is a flowchart.
type graph struct {
	names  []string          // of nodes, in their order
	texts  map[string]string // of nodes
	arrows []arrow
}

const blank = pytext.SpaceClass + `*`

var (
	mermaidBegin    = regexp.MustCompile("(?i)^```" + blank + "mermaid" + blank + `\n?`)
	mermaidEnd      = regexp.MustCompile("\n?```" + blank + `$`)
	mermaidDeclared = regexp.MustCompile(`(?i)^(?:flowchart|graph)` + pytext.SpaceClass + `+(?:TD|TB|LR|RL|BT)` + chartNoWord)
	mermaidArrow    = regexp.MustCompile(`-->|---|\.->|==>|--` + blank + chartWord + `+` + blank + `-->`)
	mermaidEdge     = regexp.MustCompile(`-->|---|==>|-\.->|\.->`)
	mermaidOther    = regexp.MustCompile(`(?i)^(?:subgraph|end|style|classDef|class|click|linkStyle)` + chartNoWord)
	mermaidBreak    = regexp.MustCompile(`(?i)<` + blank + `br` + blank + `/?` + blank + `>`)
	mermaidEscape   = regexp.MustCompile(`\\[nrl]`)
	mermaidNode     = nodePattern()
	mermaidArrows   = arrowPatterns()
)

// nodePattern is a node's name and its text, in the forms of Mermaid.
func nodePattern() *regexp.Regexp {
	quoted := func(open, shut string) string { return open + blank + `"([^"]*)"` + blank + shut }
	forms := []string{
		quoted(`\(\(`, `\)\)`),
		quoted(`\(`+blank+`\[`, `\]`+blank+`\)`),
		quoted(`\[`+blank+`\[`, `\]`+blank+`\]`),
		quoted(`\[`+blank+`\(`, `\)`+blank+`\]`),
		quoted(`\{`+blank+`\{`, `\}`+blank+`\}`),
		quoted(`\[`, `\]`),
		quoted(`\(`, `\)`),
		quoted(`\{`, `\}`),
		quoted(`>`, `\]`),
		quoted(`\[`+blank+`/`, `/`+blank+`\]`),
		quoted(`\[`+blank+`\\`, `\\`+blank+`\]`),
		`\(\(` + blank + `([^)]*?)` + blank + `\)\)`,
		`\(` + blank + `\[` + blank + `([^\]]*?)` + blank + `\]` + blank + `\)`,
		`\[` + blank + `\[` + blank + `([^\]]*?)` + blank + `\]` + blank + `\]`,
		`\[` + blank + `\(` + blank + `([^)]*?)` + blank + `\)` + blank + `\]`,
		`\{` + blank + `\{` + blank + `([^}]*?)` + blank + `\}` + blank + `\}`,
		`\[` + blank + `([^\]]*)` + blank + `\]`,
		`\(` + blank + `([^)]*)` + blank + `\)`,
		`\{` + blank + `([^}]*)` + blank + `\}`,
		`>` + blank + `([^\]]*)` + blank + `\]`,
	}
	return regexp.MustCompile(`^([A-Za-z_]` + chartWord + `*)` + blank + `(?:` + strings.Join(forms, "|") + `)?$`)
}

// arrowPatterns are the forms of arrows. Of two that begin at one place the earlier counts.
func arrowPatterns() (list []*regexp.Regexp) {
	for _, p := range []string{
		`-->` + blank + `\|` + blank + `"([^"]*)"` + blank + `\|`,
		`-->` + blank + `\|([^|]*)\|`,
		`==>` + blank + `\|` + blank + `"([^"]*)"` + blank + `\|`,
		`==>` + blank + `\|([^|]*)\|`,
		`-\.->` + blank + `\|` + blank + `"([^"]*)"` + blank + `\|`,
		`-\.->` + blank + `\|([^|]*)\|`,
		`==` + blank + `"([^"]*)"` + blank + `==>`,
		`--` + blank + `"([^"]*)"` + blank + `-->`,
		`--` + blank + `([^\->\s\v\x1c-\x1f\x85\p{Z}][^\->]*?)` + blank + `-->`,
		`==` + blank + `([^=>\s\v\x1c-\x1f\x85\p{Z}][^=>]*?)` + blank + `==>`,
		`==>`,
		`-->`,
		`-\.->`,
		`---`,
	} {
		list = append(list, regexp.MustCompile(p))
	}
	return list
}

// mermaidLines are the lines of a flowchart, without its fence.
func mermaidLines(text string) (lines []string) {
	text = mermaidBegin.ReplaceAllString(pytext.Strip(text), "")
	text = mermaidEnd.ReplaceAllString(text, "")
	for _, line := range strings.Split(pytext.Strip(text), "\n") {
		lines = append(lines, pytext.Strip(line))
	}
	return lines
}

// isFlowchart reports whether a text declares a flowchart and has an arrow.
func isFlowchart(text string) bool {
	declared, arrows := false, false
	for _, line := range mermaidLines(text) {
		declared = declared || mermaidDeclared.MatchString(line)
		arrows = arrows || mermaidArrow.MatchString(line)
	}
	return declared && arrows
}

// nodeText is a text as it is compared.
func nodeText(text string) string {
	text = mermaidEscape.ReplaceAllString(mermaidBreak.ReplaceAllString(text, " "), " ")
	return pytext.Strip(parsingSpace.ReplaceAllString(text, " "))
}

// node reads a node's name and its text.
func node(token string) (name, text string) {
	token = pytext.Strip(token)
	m := mermaidNode.FindStringSubmatchIndex(token)
	if m == nil {
		return token, nodeText(token)
	}
	name = token[m[2]:m[3]]
	for i := 4; i < len(m); i += 2 {
		if m[i] >= 0 {
			return name, nodeText(token[m[i]:m[i+1]])
		}
	}
	return name, name
}

// mostArrows is how many arrows of a line are read.
const mostArrows = 256

// arrowsOf are the arrows of a line, between tokens of nodes.
func arrowsOf(line string) (list []arrow) {
	if !mermaidEdge.MatchString(line) {
		return nil
	}
	var tokens, texts []string
	for n := 0; line != "" && n < mostArrows; n++ {
		at, end, text := len(line), -1, ""
		for _, p := range mermaidArrows {
			m := p.FindStringSubmatchIndex(line)
			if m == nil || m[0] >= at {
				continue
			}
			at, end, text = m[0], m[1], ""
			if len(m) > 2 && m[2] >= 0 {
				text = pytext.Strip(line[m[2]:m[3]])
			}
		}
		if before := pytext.Strip(line[:at]); before != "" {
			tokens = append(tokens, before)
		}
		if end < 0 {
			break
		}
		texts = append(texts, text)
		line = pytext.Strip(line[end:])
	}
	for i := 0; i+1 < len(tokens); i++ {
		a := arrow{from: tokens[i], to: tokens[i+1]}
		if i < len(texts) {
			a.text = texts[i]
		}
		list = append(list, a)
	}
	return list
}

// graphOf reads a flowchart.
func graphOf(text string) graph {
	g := graph{texts: map[string]string{}}
	add := func(token string) string {
		name, text := node(token)
		if _, ok := g.texts[name]; !ok && name != "" {
			g.names = append(g.names, name)
			g.texts[name] = text
		}
		return name
	}
	for _, line := range mermaidLines(text) {
		if line == "" || mermaidDeclared.MatchString(line) || mermaidOther.MatchString(line) || strings.HasPrefix(line, "%%") {
			continue
		}
		arrows := arrowsOf(line)
		for _, a := range arrows {
			from, to := add(a.from), add(a.to)
			g.arrows = append(g.arrows, arrow{from, to, a.text})
		}
		if len(arrows) == 0 {
			add(line)
		}
	}
	return g
}

// compared are the texts of nodes and of arrows, in lower case.
func (g graph) compared() (nodes []string, arrows []arrow) {
	lower := func(text string) string { return pytext.Lower(nodeText(text)) }
	for _, name := range g.names {
		nodes = append(nodes, lower(g.texts[name]))
	}
	for _, a := range g.arrows {
		arrows = append(arrows, arrow{lower(g.texts[a.from]), lower(g.texts[a.to]), lower(a.text)})
	}
	return nodes, arrows
}

// similarFlowcharts is the similarity of two flowcharts.
func similarFlowcharts(reply, truth string) (float64, error) {
	foundNodes, foundArrows := graphOf(reply).compared()
	nodes, arrows := graphOf(truth).compared()
	some, err := assigned(foundNodes, nodes, edits.Ratio)
	if err != nil || len(foundArrows) == 0 && len(arrows) == 0 {
		return some, err
	}
	led, err := assigned(foundArrows, arrows, func(a, b arrow) float64 {
		return (edits.Ratio(a.from, b.from) + edits.Ratio(a.to, b.to) + edits.Ratio(a.text, b.text)) / 3
	})
	return float64(0.6*led) + float64(0.4*some), err
}
