package report

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/eval"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// The page of 'darkroom eval': findings about rewards, with plots and pictures.

//go:embed judges.html
var judgesPage string

// judgesView is the template's data.
type judgesView struct {
	Style   template.CSS
	Rewards []judgeView
}

type judgeView struct {
	*eval.Report
	Rows  [][2]string
	Plots []drawn
	Worst []picture
}

// picture is a sheet with its caption.
type picture struct {
	Caption string
	Source  template.URL
}

// Well reports whether the page may say so in green.
func (v judgeView) Well() bool { return v.Conclusion == eval.NoneFound }

// drawn is a plot with its title.
type drawn struct {
	Title, Legend string
	SVG           template.HTML
}

// Judges is the page of reports: one file that needs nothing else, and runs no script.
func Judges(all []*eval.Report) ([]byte, error) {
	v := judgesView{Style: Style()}
	for _, r := range all {
		j := judgeView{Report: r}
		if r.Judged > 0 {
			j.Rows, j.Plots = judgeRows(r), judgePlots(r)
			var err error
			if j.Worst, err = worstCases(r); err != nil {
				return nil, fmt.Errorf("the page's pictures: %w", err)
			}
		}
		v.Rewards = append(v.Rewards, j)
	}
	t, err := template.New("judges").Parse(judgesPage)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, v); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func judgeRows(r *eval.Report) [][2]string {
	said := func(i *eval.Interval) string {
		if i == nil {
			return "not to be said"
		}
		return fmt.Sprintf("%.3f (%.3f to %.3f)", i.Value, i.Low, i.High)
	}
	rows := [][2]string{
		{"pairs with both scores", fmt.Sprintf("%d of %d", r.Judged, r.Judged+r.Missing)},
		{"accuracy: pairs in order", said(r.Order.Accuracy)},
		{"Kendall's tau-b", said(r.Order.Tau)},
	}
	if r.Calibration != nil {
		rows = append(rows, [2]string{"expected calibration error", said(r.Calibration.ECE)}, [2]string{"log-odds for a unit of score", said(r.Calibration.Slope)})
	}
	g := r.Groups
	rows = append(rows, [2]string{"prompts whose samples all have one score", fmt.Sprintf("%.0f %% of %d", 100*g.Dead, g.Prompts)})
	if g.Within != nil {
		rows = append(rows, [2]string{"variance inside prompts", fmt.Sprintf("%.0f %% of all", 100**g.Within)})
	}
	if g.Typical != nil {
		rows = append(rows, [2]string{"typical difference of two samples of a prompt", fmt.Sprintf("%.4g", *g.Typical)}, [2]string{"contrast: better less worse, in typical differences", said(g.Contrast)})
	}
	if r.Swaps != nil {
		rows = append(rows, [2]string{"prefers what is shown first", said(r.Swaps.First)}, [2]string{"changes its mind when both are exchanged", said(r.Swaps.Flipped)})
	}
	if r.Repeats != nil {
		rows = append(rows, [2]string{"says the same when asked again", said(r.Repeats.Same)})
	}
	return append(rows, [2]string{"speed", fmt.Sprintf("%s samples a second; a pair %s ms, at most %s for 95 %%", label(r.Speed.PerSecond), label(r.Speed.MedianMS), label(r.Speed.SlowMS))})
}

func judgePlots(r *eval.Report) []drawn {
	var all []drawn
	probes := Forest{Title: "What raises it", Wide: true, Ticks: []float64{-100, -10, -1, -0.25, 0, 0.25, 1, 10, 100, 1000}}
	above := 0.25
	probes.Threshold = &above
	hue := map[string]int{eval.Weak: 1, eval.SideEffect: 4}
	for _, p := range r.Probes {
		i := p.Raise
		if i == nil {
			i = p.Gain
		}
		if i == nil {
			continue
		}
		note := p.Outcome
		if p.Missing > 0 {
			note += fmt.Sprintf(" (%d missing)", p.Missing)
		}
		probes.Rows = append(probes.Rows, ForestRow{p.Name, note, i.Value, i.Low, i.High, hue[p.Outcome]})
	}
	if len(probes.Rows) > 0 {
		all = append(all, drawn{probes.Title, "Mean gain of each probe in typical differences between two samples of a prompt, with simultaneous 95 % intervals; right of the dashed line an optimiser gains what it should not.", probes.SVG()})
	}
	kinds := Forest{Title: "Pairs in order, by kind", Ticks: []float64{0, 0.25, 0.5, 0.75, 1}}
	for _, k := range r.Kinds {
		if k.Accuracy != nil {
			kinds.Rows = append(kinds.Rows, ForestRow{k.Kind, fmt.Sprintf("%.2f of %d", k.Accuracy.Value, k.Pairs), k.Accuracy.Value, k.Accuracy.Low, k.Accuracy.High, 0})
		}
	}
	if len(kinds.Rows) > 0 {
		all = append(all, drawn{kinds.Title, "Share of pairs whose better one scores higher, with 95 % intervals.", kinds.SVG()})
	}
	if r.Calibration != nil {
		p := Plot{Title: "Reliability", Across: "confidence", Curves: []Curve{{Name: "pairs by confidence, with 95 % intervals", Dots: true}, {Name: "as it should be", X: []float64{0.5, 1}, Y: []float64{0.5, 1}}}}
		c := &p.Curves[0]
		for _, b := range r.Calibration.Bins {
			c.X, c.Y, c.Low, c.High = append(c.X, b.Confidence), append(c.Y, b.Better.Value), append(c.Low, b.Better.Low), append(c.High, b.Better.High)
		}
		all = append(all, drawn{p.Title, "How often the higher score is the better sample, over how often a logistic of the difference says so.", p.SVG()})
	}
	return all
}

// shownSide is about how large a sample is on the page, in pixels.
const shownSide = 160

// worstCases is a sheet for each probe that raises the reward: the samples that gain most, before
// and after.
func worstCases(r *eval.Report) ([]picture, error) {
	var all []picture
	for _, p := range r.Probes {
		if p.Outcome == eval.Fine {
			continue
		}
		var pictures []*vision.Image
		var captions []string
		for _, c := range p.Worst {
			before, after, err := c.Items()
			if err != nil {
				return nil, err
			}
			for i, item := range []rewards.Item{before, after} {
				m, err := shown(item)
				if err != nil {
					return nil, err
				}
				pictures = append(pictures, m)
				captions = append(captions, []string{fmt.Sprintf("before: %.4g", c.Before), fmt.Sprintf("after: %.4g", c.After)}[i])
			}
		}
		columns := 6
		if r.Of == eval.Moving {
			columns = 2
		}
		sheet, err := vision.Sheet{Columns: columns, Captions: captions}.Draw(pictures)
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		if err := vision.EncodePNG(&b, sheet); err != nil {
			return nil, err
		}
		all = append(all, picture{fmt.Sprintf("%s, %s: %s", p.Name, p.Outcome, p.Card), template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes()))}) //nolint:gosec // it is our own picture
	}
	return all, nil
}

// framesShown are those of a clip.
const framesShown = 5

// shown is a sample at a size to be looked at: of a clip, some frames beside each other.
func shown(item rewards.Item) (*vision.Image, error) {
	if item.Clip == nil {
		return sized(item.Image, shownSide)
	}
	few, err := item.Clip.Pick(video.Uniform(len(item.Clip.Frames), framesShown))
	if err != nil {
		return nil, err
	}
	var frames []*vision.Image
	for _, px := range few.Frames {
		m, err := sized(&vision.Image{Width: few.Width, Height: few.Height, Pix: px}, shownSide/2)
		if err != nil {
			return nil, err
		}
		frames = append(frames, m)
	}
	return vision.Sheet{Columns: len(frames), Padding: 2}.Draw(frames)
}

// sized is about so large: pixels of small pictures are repeated, large pictures are made smaller.
func sized(m *vision.Image, side int) (*vision.Image, error) {
	long := max(m.Width, m.Height)
	if long <= side {
		return m.Enlarge(side / long), nil
	}
	return m.Resize(max(1, m.Width*side/long), max(1, m.Height*side/long), vision.Bicubic)
}
