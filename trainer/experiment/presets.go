package experiment

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/trainer/optim"
)

// Presets are TOML that anyone could have written: each is the settings of a published system, in the words of this
// file, and sets nothing that is not seen there. darkroom plan --resolved shows the result.

//go:embed presets/*.toml
var presetFiles embed.FS

// A Preset is a file of settings; its card is the comment that it begins with.
type Preset struct {
	Name
	Text string
}

// Presets are all, in the order of their names.
func Presets() []Preset {
	files, err := presetFiles.ReadDir("presets")
	if err != nil {
		panic(err) // embedded
	}
	var all []Preset
	for _, f := range files {
		text, err := presetFiles.ReadFile(path.Join("presets", f.Name()))
		if err != nil {
			panic(err)
		}
		var card []string
		for line := range strings.Lines(string(text)) {
			words, ok := strings.CutPrefix(line, "# ")
			if !ok {
				break
			}
			card = append(card, strings.TrimSpace(words))
		}
		name := Name{Name: strings.TrimSuffix(f.Name(), ".toml"), Card: strings.Join(card, " ")}
		all = append(all, Preset{name, string(text)})
	}
	return all
}

// given is a preset that a file asks for, for one table or, with "", for all.
type given struct {
	preset Preset
	table  string
	doc    *config.Document
}

// presetTables may ask for a preset of their own.
var presetTables = [...]string{"", "sampler", "advantage", "loss"}

// applyPresets decodes the file's presets, and then the settings of its own names, so that only written keys are
// stronger.
func (e *Experiment) applyPresets() {
	if e.asksForTokens() {
		e.Loss.OfTokens()
	}
	for _, table := range presetTables {
		key := strings.TrimPrefix(table+".preset", ".")
		name := e.doc.Text(key)
		if name == "" {
			continue
		}
		for _, p := range Presets() {
			if p.Name.Name == name {
				e.apply(given{p, table, config.ParseFragment("preset "+name, []byte(p.Text))})
			}
		}
	}
	e.namesSet(e.doc)
}

// asksForTokens reports whether the file, or its preset, has an [episode].
func (e *Experiment) asksForTokens() bool {
	if e.written("episode") {
		return true
	}
	for _, p := range Presets() {
		if p.Name.Name == e.doc.Text("preset") {
			return config.ParseFragment("preset", []byte(p.Text)).Origin("episode") != config.Absent
		}
	}
	return false
}

// apply decodes one preset over the experiment.
func (e *Experiment) apply(g given) {
	if g.table != "sampler" {
		e.namesSet(g.doc)
	}
	switch g.table {
	case "":
		p := partial{&e.Model, &e.Sampler, &e.Rollout, &e.Advantage, &e.Loss, &e.Optim, &e.Evaluate, e.Episode}
		g.doc.Decode("", &p)
		e.Model, e.Sampler, e.Rollout, e.Advantage, e.Loss, e.Optim, e.Evaluate, e.Episode = *p.Model, *p.Sampler, *p.Rollout, *p.Advantage, *p.Loss, *p.Optim, *p.Evaluate, p.Episode
	case "sampler":
		g.doc.Decode("sampler", &e.Sampler)
	case "advantage":
		g.doc.Decode("advantage", &e.Advantage)
	case "loss":
		g.doc.Decode("loss", &e.Loss)
	}
	if err := g.doc.Err(); err != nil {
		panic(fmt.Sprintf("the preset %s: %v", g.preset.Name.Name, err)) // a test decodes all
	}
	e.given = append(e.given, g)
}

// unbound takes a preset's bound of the loss from an objective in the place of the preset's that clips nothing. The
// file's own bound stays, and is refused. A stage has its own objective, and keeps its own keys.
func (e *Experiment) unbound() {
	bounded := func(l *Loss) bool {
		o, _ := loss.ObjectiveNamed(l.Objective)
		return has(o.Form(false).Options, l.DualBound) || has(o.Form(true).Options, l.DualBound)
	}
	take := func(l *Loss, keys ...string) {
		if !bounded(l) && !slices.ContainsFunc(keys, e.written) {
			l.DualClip = 0
		}
	}
	take(&e.Loss, "loss.dual_clip")
	for i := range e.Stages {
		take(&e.Stages[i].Loss, fmt.Sprintf("stage[%d].loss.dual_clip", i))
	}
}

// partial is the tables that a preset may hold. Nothing in it is required.
type partial struct {
	Model     *Model         `toml:"model"`
	Sampler   *Sampler       `toml:"sampler"`
	Rollout   *Rollout       `toml:"rollout"`
	Advantage *Advantage     `toml:"advantage"`
	Loss      *Loss          `toml:"loss"`
	Optim     *optim.Options `toml:"optim"`
	Evaluate  *Evaluate      `toml:"evaluate"`
	Episode   *Episode       `toml:"episode"`
}

// namesSet sets the keys that an estimator's and an objective's name imply.
func (e *Experiment) namesSet(doc *config.Document) {
	if r, ok := advantage.RuleNamed(doc.Text("advantage.estimator")); ok && r.Set != nil {
		r.Set(&e.Advantage.Settings)
	}
	o, ok := loss.ObjectiveNamed(doc.Text("loss.objective"))
	if f := o.Form(doc.Origin("episode") != config.Absent); ok && f.Set != nil {
		f.Set(&e.Loss.Options)
	}
}

// Settings of presets, for docs/methods.md.

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

// Settings is a preset's settings, in cells of a table.
func (p Preset) Settings() ([]string, error) {
	published, err := p.Published()
	if err != nil {
		return nil, err
	}
	reward, episode := "jpeg", ""
	if published.Episode {
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
