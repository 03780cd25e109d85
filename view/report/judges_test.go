package report_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/eval"
	"github.com/darkroom-rl/darkroom/view/report"
)

// bright is a reward that any light wins.
var bright = rewards.Each(rewards.Func(func(_ context.Context, item rewards.Item) (rewards.Score, error) {
	frames, err := item.Frames(1)
	sum := 0.0
	for _, m := range frames {
		for _, v := range m.Pix {
			sum += float64(v) / float64(len(m.Pix)*len(frames))
		}
	}
	return rewards.Score{Value: sum}, err
}), 2)

func TestJudgesPage(t *testing.T) {
	pictures, clips := eval.Scenes(), eval.Clips()
	pictures.Pairs, clips.Pairs = pictures.Pairs[:70], clips.Pairs[:48]
	var all []*eval.Report
	for _, set := range []eval.Set{pictures, clips} {
		r, err := eval.Run(t.Context(), `<bright & "shiny">`, bright, set, eval.Options{Probed: 10, Again: 5})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	failed, err := eval.Run(t.Context(), "layout", rewards.Each(rewards.SceneLayout{}, 1), clips, eval.Options{})
	if err != nil {
		t.Fatal(err)
	}
	page, err := report.Judges(append(all, failed))
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	for _, want := range []string{"&lt;bright &amp; &#34;shiny&#34;&gt; on embed:scene-pairs", "won by bright pictures", "What raises it", "Reliability", "Pairs in order, by kind", "The samples that gain most", "data:image/png;base64,", "It judged none of 48 pairs", "there is no picture to judge"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, never := range []string{"<script", "http://", "https://", "NaN", "Inf", "<bright", "ZgotmplZ"} {
		if strings.Contains(text, never) {
			t.Errorf("the page holds %q", never)
		}
	}
}

// TestJudgesMissing: a reward that missed pairs is not called free of weaknesses as one that judged all is.
func TestJudgesMissing(t *testing.T) {
	const few = "no verdict: 168 of 224 pairs have no score"
	for missing, want := range map[int]string{
		0: `<span class="flag fine">no weakness found</span>`, 5: `<span class="flag">no weakness found in 56 pairs, and 5 are missing</span>`, 168: `<span class="flag">` + few + `</span>`,
	} {
		r := &eval.Report{Reward: "ocr", Judged: 56, Missing: missing, Probes: make([]eval.ProbeResult, 1), Conclusion: eval.NoneFound}
		if missing == 168 {
			r.Conclusion = few
		}
		page, err := report.Judges([]*eval.Report{r})
		if err != nil || !strings.Contains(string(page), want) || missing > 0 && strings.Contains(string(page), "flag fine") {
			t.Errorf("%d missing: the page lacks %q, or %v", missing, want, err)
		}
	}
}

func TestForest(t *testing.T) {
	above := 0.25
	f := report.Forest{Title: "a <b>", Wide: true, Threshold: &above, Ticks: []float64{0, 1, 1e6}, Rows: []report.ForestRow{{Name: "x & y", Value: 3, Low: -2, High: 2000, Note: "<i>"}}}
	svg := string(f.SVG())
	if strings.Contains(svg, "<b>") || strings.Contains(svg, "<i>") || !strings.Contains(svg, "x &amp; y") || strings.Contains(svg, "NaN") || strings.Contains(svg, "1e+06") {
		t.Error(svg)
	}
	if empty := string(report.Forest{}.SVG()); strings.Contains(empty, "NaN") || strings.Contains(empty, "Inf") {
		t.Error(empty)
	}
	if same := string(report.Forest{Rows: []report.ForestRow{{Value: math.Pi, Low: math.Pi, High: math.Pi}}}.SVG()); strings.Contains(same, "NaN") {
		t.Error(same)
	}
}
