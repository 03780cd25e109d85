package answers

import (
	"compress/gzip"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
)

// TestHunyuanOCR: the recorded rewards of upstream. Where upstream leaves a sample out, there is no score; the same
// holds for a truth without regions.
func TestHunyuanOCR(t *testing.T) {
	f, err := os.Open("testdata/hunyuanocr.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Rows [][4]any }
	if err := json.NewDecoder(z).Decode(&file); err != nil || len(file.Rows) < 250 {
		t.Fatal(len(file.Rows), err)
	}
	rules := map[string]Rule{"spotting": Spotting, "document_layout": DocumentLayout, "parsing": Parsing, "fields": Fields, "charts": Charts}
	for _, r := range file.Rows {
		name, reply, truth, want := r[0].(string), r[1].(string), r[2].(string), r[3].(float64)
		s, err := hunyuan(rules[name])(reply, truth)
		switch {
		case want == -1 || name == "document_layout" && len(regions(truth)) == 0:
			if err == nil {
				t.Errorf("%s of %q, %q: %v; want no score", name, reply, truth, s.Value)
			}
		case err != nil || math.Abs(s.Value-want) > 1e-12:
			t.Errorf("%s of %q, %q: %v, %v; want %v", name, reply, truth, s.Value, err, want)
		}
	}
	if _, err := hunyuan(Parsing)("", "a"); err == nil || !strings.Contains(err.Error(), "the reply is empty") {
		t.Error(err)
	}
}

// TestTEDSRule: a table is itself, another structure is less, a reply without a table is 0, and a truth without one
// has no score.
func TestTEDSRule(t *testing.T) {
	a, b := "<table><tr><td>1</td><td>2</td></tr></table>", "<table><tr><td>1</td><td>3</td></tr></table>"
	for _, c := range []struct {
		rule         TEDS
		reply, truth string
		want         float64
	}{{TEDS{}, a, a, 1}, {TEDS{}, "<answer>" + a + "</answer>", a, 1}, {TEDS{}, b, a, 0.75}, {TEDS{Structure: true}, b, a, 1}, {TEDS{}, "none", a, 0}, {TEDS{}, `<table><td colspan="x">`, a, 0}} {
		if s, err := c.rule.Rule(c.reply, c.truth); err != nil || math.Abs(s.Value-c.want) > 1e-12 {
			t.Errorf("%q: %v, %v; want %v", c.reply, s.Value, err, c.want)
		}
	}
	if _, err := (TEDS{}).Rule(a, "no table"); err == nil {
		t.Error("a truth without a table")
	}
}

// TestChartSpans: a cell that claims more columns than a table may have ends the judging, not the memory.
func TestChartSpans(t *testing.T) {
	table := func(attributes string) string {
		return "<table><tr><td>a</td><td>b</td></tr><tr><td" + attributes + ">c</td><td>1</td></tr></table>\n|a|\n|-|"
	}
	for _, attributes := range []string{` colspan="1000000000"`, ` colspan="` + strings.Repeat("9", 5000) + `"`} {
		if s, err := Charts(table(attributes), table("")); err == nil || !strings.Contains(err.Error(), "more than 100000 cells") {
			t.Error(s, err)
		}
	}
	if s, err := Charts(table(` rowspan="999999999999"`), table("")); err != nil || s.Value < 0.99 {
		t.Error(s, err)
	}
	if _, err := Charts("| a |", "no chart"); err == nil || !strings.Contains(err.Error(), "meta.answer is no chart") {
		t.Error(err)
	}
}
