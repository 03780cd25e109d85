package answers

import (
	"errors"
	"math"
	"regexp"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: a chart as text (HunyuanOCR, chart_deplot), in three forms, looked for in this order:
//
//	flowchart TD ... A["text"] -->|text| B      Mermaid: flowchart.go
//	- item                                      a Markdown list: chartlist.go
//	| head | head |                             a Markdown table: charttable.go
//
// Each form has a similarity s of its own. The score is the share of ten limits, 0.5 to 0.95, that s reaches; upstream
// adds ten tenths, so that the best score is 1 less half of a bit. A reply in another form is 0, a truth in none has no
// score. Invariants (tests): values of upstream's functions.

// A chartForm is the form of a chart's text.
type chartForm int

const (
	noChart chartForm = iota
	flowchart
	chartList
	chartTable
)

var (
	looseSeparator = regexp.MustCompile(`(?m)^` + pytext.SpaceClass + `*\|?` + pytext.SpaceClass + `*:?-{2,}`)
	chartWord      = `[\p{L}\p{N}_]`
	chartNoWord    = `(?:[^\p{L}\p{N}_]|$)`
)

// chartFormOf is the form of a text.
func chartFormOf(text string) chartForm {
	switch {
	case isFlowchart(text):
		return flowchart
	case isChartList(text):
		return chartList
	case isMarkdownTable(text), looselyTable(text):
		return chartTable
	}
	return noChart
}

// looselyTable reports whether a text has a line of dashes and two lines that begin with a bar.
func looselyTable(text string) bool {
	rows := 0
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(pytext.Strip(line), "|") {
			rows++
		}
	}
	return rows >= 2 && looseSeparator.MatchString(text)
}

// Charts judges a chart's text.
func Charts(reply, truth string) (rewards.Score, error) {
	form := chartFormOf(truth)
	if form == noChart {
		return rewards.Score{}, errors.New("meta.answer is no chart: neither a flowchart of Mermaid nor a list or a table of Markdown")
	}
	if chartFormOf(reply) != form {
		return judged(0, "form", reply), nil
	}
	var similar float64
	var err error
	switch form {
	case flowchart:
		similar, err = similarFlowcharts(reply, truth)
	case chartList:
		similar, err = similarTrees(reply, truth)
	case chartTable:
		similar, err = similarTables(reply, truth)
	}
	if err != nil {
		return rewards.Score{}, err
	}
	s := judged(reached(similar), "chart", reply)
	s.Parts = map[string]float64{"similarity": similar}
	return s, nil
}

// reached is the share of the ten limits that a similarity reaches, added as upstream does.
func reached(similar float64) (share float64) {
	first, step := 0.5, 0.05
	step = first + step - first
	for i := range 10 {
		if similar >= first+float64(float64(i)*step) {
			share += 0.1
		}
	}
	return share
}

// alikeFrom is the similarity from which a pair counts.
const alikeFrom = 0.85

// assigned is the sum of similarities of the best pairs, of those that are alike, over the longer of both lists.
func assigned[E any](found, want []E, similarity func(a, b E) float64) (float64, error) {
	if len(found) == 0 && len(want) == 0 {
		return 1, nil
	}
	if len(found) == 0 || len(want) == 0 {
		return 0, nil
	}
	apart := make([][]float64, len(found))
	similar := make([][]float64, len(found))
	for i, f := range found {
		apart[i], similar[i] = make([]float64, len(want)), make([]float64, len(want))
		for j, w := range want {
			similar[i][j] = similarity(f, w)
			apart[i][j] = 1 - similar[i][j]
		}
	}
	rows, columns, err := boxes.Assign(apart, false)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for k, i := range rows {
		if v := similar[i][columns[k]]; v >= alikeFrom {
			sum += v
		}
	}
	return sum / float64(max(len(found), len(want))), nil
}

var errDivision = errors.New("meta.answer has the value -0.000001, by which upstream divides by zero")

// closeTo reports whether a value lies within 5 % of the wanted one, as upstream divides: a wanted value below zero is
// close to all.
func closeTo(got, want float64) bool {
	return math.Abs(got-want)/(want+0.000001) <= 0.05
}
