package judge

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: win rates by category (Pref-GRPO, unifiedreward_flex.py). The judge answers in JSON, or
// in text whose outer braces hold JSON: {"winner": "Image 1", "categories": [{"name": "Style",
// "cat_winner": "Image 2"}, ...]}; the first three categories count. Each has its own rate:
//
//	reward = (Overall·overall + Dimensions·mean of the categories)/(Overall + Dimensions)
//
// where the mean is by the categories' weights, and rates are rounded to three places. Where no
// category was read, or Dimensions is not above 0, the reward is the overall rate. Upstream's
// loop variable hides Dimensions, so that the weight of the last category takes its place
// (UpstreamSlip). A category called "overall" is left out: upstream counts it as a comparison.
// Invariants (tests): one category that agrees with the winner changes nothing.
type Flex struct {
	Overall      float64   `toml:"overall" range:"[0,inf)" doc:"weight of who is better"`
	Dimensions   float64   `toml:"dimensions" range:"[0,inf)" doc:"weight of the categories"`
	Categories   []float64 `toml:"categories" doc:"weights of the categories as they first come; 1 for those without"`
	UpstreamSlip bool      `toml:"upstream_slip" doc:"dimensions is replaced by the last category's weight"`
}

// FlexRates are rewards and their parts.
type FlexRates struct {
	Rewards, Overall, Dimensions []float64
	Judged                       []bool // whether a category was read
}

// category is the tally of one.
type category struct {
	name string
	*tally
}

// Rates are the rewards of n items.
func (f Flex) Rates(n int, comparisons []Comparison) (FlexRates, error) {
	all := newTally(n)
	var categories []category
	for _, c := range comparisons {
		if err := c.check(n); err != nil {
			return FlexRates{}, err
		}
		if c.Missing {
			continue
		}
		winner, parts := flexReply(c.Reply)
		all.count(c, winner)
		for _, p := range parts {
			categories = counted(categories, p, c, n)
		}
	}
	weights := make([]float64, len(categories))
	weight := f.Dimensions
	for k := range weights {
		weights[k] = 1
		if k < len(f.Categories) {
			weights[k] = f.Categories[k]
		}
		if f.UpstreamSlip {
			weight = weights[k]
		}
	}
	var r FlexRates
	for i := range n {
		overall := rounded(all.rate(i))
		mean, judged := categoryMean(categories, weights, i)
		reward := overall
		if weight > 0 && judged {
			reward = (float64(f.Overall*overall) + float64(weight*mean)) / (f.Overall + weight)
		}
		r.Rewards, r.Overall = append(r.Rewards, reward), append(r.Overall, overall)
		r.Dimensions, r.Judged = append(r.Dimensions, mean), append(r.Judged, judged)
	}
	return r, nil
}

// won is a reply's result for one category.
type won struct {
	name   string
	winner int
}

func counted(categories []category, w won, c Comparison, n int) []category {
	for _, k := range categories {
		if k.name == w.name {
			k.count(c, w.winner)
			return categories
		}
	}
	k := category{w.name, newTally(n)}
	k.count(c, w.winner)
	return append(categories, k)
}

// categoryMean is the mean rate of an item's categories, by weight where any has one.
func categoryMean(categories []category, weights []float64, i int) (mean float64, judged bool) {
	sum, weighted, total, n := 0.0, 0.0, 0.0, 0.0
	for k, c := range categories {
		if c.compared[i] > 0 {
			v := c.rate(i)
			sum, n = sum+v, n+1
			weighted, total = weighted+float64(v*weights[k]), total+weights[k]
		}
	}
	switch {
	case n == 0:
		return 0, false
	case total > 0:
		return rounded(weighted / total), true
	}
	return rounded(sum / n), true
}

// flexReply reads who wins, and the categories.
func flexReply(reply string) (winner int, parts []won) {
	text := pytext.Strip(reply)
	v, err := pytext.JSON(text)
	if err != nil {
		v, _ = pytext.JSON(braced.FindString(text))
	}
	o, _ := v.(pytext.Object)
	list, _ := o["categories"].([]any)
	for _, entry := range list[:min(3, len(list))] {
		c, _ := entry.(pytext.Object)
		name := pytext.Strip(said(c, "name"))
		if name == "" {
			name = "category"
		}
		if name != "overall" && c != nil {
			parts = append(parts, won{name, winnerOf(said(c, "cat_winner"))})
		}
	}
	return winnerOf(said(o, "winner")), parts
}

// said is an entry as text, "" where it is not there.
func said(o pytext.Object, key string) string {
	switch v := o[key].(type) {
	case nil:
		return ""
	case string:
		return v
	default:
		return fmt.Sprint(v)
	}
}

// A word's end is where no letter or digit of any script follows.
const wordEdge = `(?:\A|\z|[^\pL\p{N}_])`

var winners = [...]*regexp.Regexp{
	regexp.MustCompile(wordEdge + `(?:video|image)` + pytext.SpaceClass + `*1` + wordEdge),
	regexp.MustCompile(wordEdge + `(?:video|image)` + pytext.SpaceClass + `*2` + wordEdge),
}

// winnerOf is 1 or 2 where just one is named.
func winnerOf(text string) int {
	text = strings.TrimSpace(pytext.Lower(text))
	first, second := winners[0].MatchString(text), winners[1].MatchString(text)
	switch {
	case first && !second:
		return 1
	case second && !first:
		return 2
	}
	return 0
}
