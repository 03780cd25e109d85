package train

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/run"
	"github.com/darkroom-rl/darkroom/trainer/trained"
	"github.com/darkroom-rl/darkroom/view/report"
)

// Output of train about its iterations and its end. A value that was not measured is not shown as a number.

// IterationLine is an iteration for people.
func IterationLine(l *ledger.Line, t *ledger.TimingLine) string {
	s := fmt.Sprintf("%4d  ", l.Iteration)
	imitates := l.Samples > 0 && len(l.Rewards) == 0
	switch {
	case imitates && len(l.Updates) > 0:
		s += fmt.Sprintf("loss %.4g", l.Updates[len(l.Updates)-1].Loss)
	case imitates:
		s += "no reward"
	case l.Total.Missing < l.Samples:
		s += fmt.Sprintf("reward %.3f  in groups ±%.3f", l.Total.Mean, l.Spread)
	default:
		s += "reward missing"
	}
	if l.Total.Missing > 0 && !imitates {
		s += fmt.Sprintf("  missing %d of %d", l.Total.Missing, l.Samples)
	}
	if n := len(l.Updates); n > 0 {
		u := l.Updates[n-1]
		s += fmt.Sprintf("  gradient %.3g", u.Gradient)
		if kl := u.Metrics["kl"]; kl != 0 { // 0 without a reference
			s += fmt.Sprintf("  kl %.2g", kl)
		}
	}
	s += fmt.Sprintf("  %.1f s", t.Seconds["all"])
	if m, ok := l.HeldOut["total"]; ok {
		s += fmt.Sprintf("  held out %.3f (%.3f to %.3f)", m.Mean, m.Low, m.High)
	}
	return s
}

// An ending is a run's end, with its text.
type ending struct {
	*ledger.Result
	*experiment.Experiment
	dir     string
	resumed bool
	here    int // iterations of this process
	took    time.Duration
}

// write is the text at the end.
func (e ending) write(w io.Writer) {
	fmt.Fprintf(w, "%s after %s%s\n\n", e.Status, console.Plural(int64(e.Result.Iterations), "iteration"), e.time())
	if len(e.HeldOut) > 0 {
		e.measures(w)
	} else {
		fmt.Fprintln(w, "nothing was measured on held-out prompts: [evaluate] prompts names some")
	}
	if sheet := latestSheet(e.dir); sheet != "" {
		console.ShowPicture(w, sheet)
	}
	fmt.Fprintf(w, "\nlook at         %s\n", filepath.Join(e.dir, report.Name))
	if run.ModalityOf(e.Experiment).Sampled {
		fmt.Fprintf(w, "sample with it  %s\n", e.again())
	} else {
		fmt.Fprintf(w, "ask it          darkroom ask --run %s --image FILE 'QUESTION'\n", e.dir)
	}
	if e.Evaluate.Weights == string(trained.EMA) && e.Optim.EMA > 0 {
		fmt.Fprintln(w, "weights         the moving average was measured, and is what sample, ask and export take; --weights current takes the others")
	}
}

// again is the command that samples one of the run's own prompts, from its picture where it has one.
func (e ending) again() string {
	last := ledger.SampleLine{Text: "..."}
	var images []string
	_ = folder.ReadLines(filepath.Join(e.dir, "samples.jsonl"), func(text []byte) error { // without it the prompt stays open
		var l ledger.SampleLine
		if err := json.Unmarshal(text, &l); err == nil && l.Picture != "" {
			last = l
		}
		return nil
	})
	if last.Picture == "" { // of pictures that exist there are no samples
		for _, name := range e.Rollout.Prompts {
			if list, err := e.Open(name); err == nil && len(list) > 0 {
				last.Text, images = list[0].Text, sourceFiles(list[0], name)
				break
			}
		}
	}
	command := "darkroom sample --run " + word(e.dir) + " --prompt " + quoted(last.Text)
	for _, s := range last.Sources {
		images = append(images, filepath.Join(e.dir, filepath.FromSlash(s)))
	}
	for _, path := range images {
		command += " --image " + word(path)
	}
	if run.ModalityOf(e.Experiment).Name == "clips" {
		return command + " --out a.gif"
	}
	return command + " --out a.png"
}

// sourceFiles are the pictures that a prompt of a list changes or animates; FILE for one without a file of its own: it
// is drawn, or lies in a table.
func sourceFiles(p prompts.Prompt, list string) (all []string) {
	for _, source := range p.Sources() {
		path := filepath.Join(p.Folder(list), filepath.FromSlash(source))
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			path = "FILE"
		}
		all = append(all, path)
	}
	return all
}

// word is a path in a shell's command, quoted where it has to be.
func word(path string) string {
	if strings.ContainsAny(path, " \t'\"$&;|<>()*?`\\") {
		return quoted(path)
	}
	return path
}

// quoted is a word of a shell's command.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// time says how long this process took, and for how much of the run.
func (e ending) time() string {
	took := e.took.Round(time.Second)
	switch {
	case !e.resumed:
		return fmt.Sprintf(" and %v", took)
	case e.here == 0:
		return "; there was nothing left to do"
	}
	return fmt.Sprintf(", %d of them now, in %v", e.here, took)
}

// measures is the table of held-out numbers.
func (e ending) measures(w io.Writer) {
	t := console.Table{Header: []string{"HELD OUT", "BEFORE", "95 %", "AFTER", "95 %", "GAIN"}}
	for _, name := range slices.Sorted(maps.Keys(e.HeldOut)) {
		t.Add(measuredRow(e.label(name), e.HeldOut[name])...)
	}
	if e.Guided != nil {
		t.Add(fmt.Sprintf("AT GUIDANCE %v", e.Guidance))
	}
	for _, name := range slices.Sorted(maps.Keys(e.Guided)) {
		t.Add(measuredRow(e.label(name), e.Guided[name])...)
	}
	t.Write(w)
	for _, says := range e.caveats() {
		fmt.Fprintln(w, says)
	}
}

// label is a reward's name, and whether it was trained on.
func (e ending) label(name string) string {
	if kind := e.Result.Rewards[name]; kind != "" {
		return name + " (" + kind + ")"
	}
	return name
}

// caveats say of which iteration measures are that are not the end's, and how many samples are missing in them.
func (e ending) caveats() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(e.HeldOut)) {
		g := e.HeldOut[name]
		if g.After == nil {
			continue
		}
		if g.Iteration != e.Result.Iterations {
			all = append(all, fmt.Sprintf("%s: AFTER is after iteration %d of %d", name, g.Iteration, e.Result.Iterations))
		}
		if g.After.Missing > 0 {
			all = append(all, fmt.Sprintf("%s: %s AFTER without a score", name, console.Plural(int64(g.After.Missing), "sample")))
		}
	}
	return all
}

// measuredRow is a reward before and after.
func measuredRow(label string, g ledger.Gain) []string {
	row := append([]string{label}, append(measured(g.Before), measured(g.After)...)...)
	if g.Known() {
		row = append(row, report.Signed(g.After.Mean-g.Before.Mean))
	}
	return row
}

func measured(m *ledger.Measure) []string {
	if m == nil {
		return []string{"-", "not measured"}
	}
	if m.Prompts == 1 {
		return []string{fmt.Sprintf("%.3f", m.Mean), "one prompt"}
	}
	return []string{fmt.Sprintf("%.3f", m.Mean), fmt.Sprintf("%.3f to %.3f", m.Low, m.High)}
}

// latestSheet is the file of a run's latest held-out pictures; "" where it has none.
func latestSheet(dir string) string {
	all, err := filepath.Glob(filepath.Join(dir, "images", "heldout_[0-9]*.png"))
	if err != nil || len(all) == 0 {
		return ""
	}
	return slices.Max(all)
}
