package experiment

import (
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/sde"
)

// What presets set, as docs/methods.md tells it.

// ofAPreset is the least that an experiment says beside its preset.
const ofAPreset = `
[run]
name = "preset"
iterations = 1
[model]
path = "embed:tiny"
[rollout]
prompts = "embed:scenes"
[[reward]]
name = %q
`

// SettingsColumns name the cells of Settings.
var SettingsColumns = []string{"sampler", "advantage", "objective", "KL"}

// Settings is what a preset sets, in cells of a table.
func (p Preset) Settings() ([]string, error) {
	reward, episode := "jpeg", ""
	if p.forTokens() {
		episode = "[episode]\n"
	}
	if episode != "" || strings.Contains(p.Text, "[episode]") {
		reward = "format"
	}
	e, err := Parse(p.Name.Name, fmt.Appendf(nil, "preset = %q\n"+ofAPreset+episode, p.Name.Name, reward), nil)
	if err != nil {
		return nil, err
	}
	return []string{samplerCell(e), advantageCell(e), lossCell(e), klCell(e)}, nil
}

// forTokens says of a preset without an [episode] that it needs one; its card says so.
func (p Preset) forTokens() bool { return strings.Contains(p.Card, "for tokens") }

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
		cell += "; " + s.Window.Words()
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
