package experiment

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/sde"
)

// The section of ARCHITECTURE.md about published systems has a row of settings for every
// preset, which is what the preset sets, and a row of conventions; and no others.
func TestConventionsTable(t *testing.T) {
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Conventions of published systems")
	section, _, _ = strings.Cut(section, "\n## ")
	conventions, settings, ok := strings.Cut(section, "### What the presets set")
	if !ok {
		t.Fatal("the section is not there, or has one part")
	}
	told, set := tableRows(conventions), tableRows(settings)
	for _, p := range Presets() {
		if told[p.Name.Name] == "" {
			t.Errorf("%s has no row of conventions", p.Name.Name)
		}
		if want := settingsRow(withPreset(t, p), p.Name.Name); set[p.Name.Name] != want {
			t.Errorf("the row of settings is\n%s\nwant\n%s", set[p.Name.Name], want)
		}
		delete(told, p.Name.Name)
		delete(set, p.Name.Name)
	}
	for name := range told {
		t.Errorf("conventions of %q, which is no preset", name)
	}
	for name := range set {
		t.Errorf("settings of %q, which is no preset", name)
	}
}

// tableRows are the rows of a table below its header, by the names in their first cell: one
// row may be of several.
func tableRows(section string) map[string]string {
	rows := map[string]string{}
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		for _, name := range strings.Split(cells[0], ",") {
			rows[strings.Trim(strings.TrimSpace(name), "`")] = line
		}
	}
	return rows
}

// settingsRow is what a preset sets, in a line.
func settingsRow(e *Experiment, name string) string {
	cells := []string{"`" + name + "`", samplerCell(e), advantageCell(e), lossCell(e), klCell(e)}
	return "| " + strings.Join(cells, " | ") + " |"
}

func samplerCell(e *Experiment) string {
	if e.Episode != nil {
		return "tokens"
	}
	s := e.Sampler
	cell := s.Solver
	if k, _ := sde.SolverNamed(s.Solver); k.Stochastic {
		cell += fmt.Sprintf(" %v", s.Noise)
	}
	if s.NoiseLimit > 0 {
		cell += fmt.Sprintf(" to %v", s.NoiseLimit)
	}
	cell += fmt.Sprintf(", %d steps, %s", s.Steps, s.Schedule.Kind)
	if s.Schedule.Kind != "ddpm" {
		cell += fmt.Sprintf(" %v", s.Schedule.Shift)
	}
	if !e.Kind().OfFinished() {
		cell += "; " + windowCell(s.Window)
	}
	if t := s.Tree; t != nil {
		cell += fmt.Sprintf("; %s of %d", t.Kind, t.Children)
		if len(t.Splits) > 0 {
			cell += fmt.Sprintf(" at %v, noise × %v", t.Splits, t.Scale)
		}
	}
	if f := s.Flash; f != nil {
		cell += fmt.Sprintf("; tail × %v", f.Ratio)
	}
	return cell
}

func windowCell(w sde.WindowOptions) string {
	switch w.Kind {
	case "fraction":
		return fmt.Sprintf("first %v", w.Fraction)
	case "subset":
		return fmt.Sprintf("%v of all but %d", w.Fraction, w.Drop)
	case "random":
		return fmt.Sprintf("random %d, drop %d", w.Size, w.Drop)
	case "sliding":
		return fmt.Sprintf("sliding %d by %d every %d, drop %d", w.Size, w.Stride, w.Every, w.Drop)
	}
	if w.One {
		return fmt.Sprintf("one of the first %d", w.Size)
	}
	return fmt.Sprintf("%s, drop %d", w.Kind, w.Drop)
}

func advantageCell(e *Experiment) string {
	a := e.Advantage
	cell := a.Estimator
	if a.rule().Scaled && a.Scale != "none" {
		cell += fmt.Sprintf(", ddof %d, eps %v", a.DDOF, a.Eps)
	}
	if a.Clip > 0 {
		cell += fmt.Sprintf(", clip %v", a.Clip)
	}
	if a.How != "rewards" {
		cell += ", Σ " + a.How
	}
	if a.Filter != nil {
		cell += ", filter " + a.Filter.By
	}
	if a.Credit.Whiten.On {
		cell += ", whitened"
	}
	return fmt.Sprintf("%s; group %d", cell, e.Rollout.Group)
}

func lossCell(e *Experiment) string {
	l := e.Loss
	switch l.Objective {
	case "rwr":
		return "rwr"
	case "dppo":
		return fmt.Sprintf("dppo %v", l.Threshold)
	case "nft":
		return fmt.Sprintf("nft β %v, cut %v", l.Beta, l.AdvClip)
	case "awm":
		return fmt.Sprintf("awm ±%v, %d times, cut %v to %v", l.ClipRange, l.Times, l.AdvClip, l.AdvMax)
	case "dpo":
		return fmt.Sprintf("dpo β %v", l.Beta)
	}
	cell := fmt.Sprintf("%s ±%v", l.Objective, l.ClipRange)
	switch low, high := l.Bounds(); {
	case l.Objective == "sapo":
		cell = fmt.Sprintf("sapo τ %v, %v", l.TauPos, l.TauNeg)
	case low != high:
		cell = fmt.Sprintf("%s -%v +%v", l.Objective, low, high)
	}
	if e.Episode != nil {
		return cell + ", " + l.Mode
	}
	if l.NoiseWeight > 0 {
		cell += fmt.Sprintf(", A × %vτ", l.NoiseWeight)
	}
	if l.Rectify {
		cell += ", rectified"
	}
	if l.NoiseScale {
		cell += ", by noise"
	}
	return cell
}

func klCell(e *Experiment) string {
	k := e.Loss.KL
	switch {
	case k.Weight == 0:
		return "0"
	case k.Estimator == "mean":
		return fmt.Sprintf("%v %s, %s", k.Weight, k.Estimator, k.Over)
	}
	return fmt.Sprintf("%v %s", k.Weight, k.Estimator)
}
