package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// The page of methods, docs/methods.md: the program's own table of names, with source, formula and settings of each,
// and the operation of cmd/parity that compares it with published code.

const methodsHead = `# Methods

Written by ` + "`go generate ./cmd/darkroom`" + ` from the program's own tables; ` + "`darkroom list`" + ` prints the same names.
Which published systems these express: [coverage.md](coverage.md). Every key: [config.md](config.md).

"Checked by" names operations of ` + "`cmd/parity`" + `, which runs recorded cases of published code through Darkroom's own.
The repository's cases are in ` + "`internal/golden`" + `; not every operation has one there. A method without an
operation is checked by the tests of its package alone.

Formulas: r is a reward, mean and dev its mean and deviation over the group or batch, A an advantage, ratio the new
probability over the old one, lp a log-probability, v the network's velocity, d the mean squared error of v on a noised
sample, σ( ) the logistic function. Solvers: x is the sample, x0 and x1 the clean sample and the noise that the network
predicts, s and s' the noise level before and after, Δ = s - s', η ` + "`sampler.noise`" + `, ε a standard normal.
`

// writeMethods writes docs/methods.md.
func writeMethods(w io.Writer) {
	fmt.Fprint(w, methodsHead)
	fmt.Fprint(w, "\n## Presets\n\nA published system's settings, for `preset = NAME`. The tables below say what checks each part; the last column adds\ncases of the whole.\n")
	fmt.Fprint(w, "\n| preset | what | solver | window | advantage | objective | checked by |\n|---|---|---|---|---|---|---|\n")
	for _, p := range experiment.Presets() {
		said := config.ParseFragment(p.Name.Name, []byte(p.Text))
		fmt.Fprintf(w, "| `%s` | %s |", p.Name.Name, cell(p.Card))
		for _, key := range []string{"sampler.solver", "sampler.window.kind", "advantage.estimator", "loss.objective"} {
			fmt.Fprintf(w, " %s |", said.Text(key))
		}
		fmt.Fprintf(w, " %s |\n", cases(experiment.PresetCases(p.Name.Name)))
	}
	fmt.Fprintf(w, "\n### What the presets set\n\nTheir conventions beside those of their sources: [conventions.md](conventions.md).\n\n| preset | %s |\n|---%s|\n",
		strings.Join(experiment.SettingsColumns, " | "), strings.Repeat("|---", len(experiment.SettingsColumns)))
	for _, p := range experiment.Presets() {
		set, err := p.Settings()
		if err != nil {
			set = []string{err.Error(), "", "", ""} // a test has them parse
		}
		fmt.Fprintf(w, "| `%s` | %s |\n", p.Name.Name, strings.Join(set, " | "))
	}
	for _, s := range experiment.Sections() {
		if slices.ContainsFunc(experiment.Methods(), func(m experiment.Method) bool { return m.Kind == s.Name }) {
			writeSection(w, s)
		}
	}
}

// writeSection writes the methods of one key.
func writeSection(w io.Writer, s experiment.Section) {
	fmt.Fprintf(w, "\n## %s%s\n\nFor `%s = NAME`.\n", strings.ToUpper(s.Name[:1]), s.Name[1:], s.Key)
	fmt.Fprint(w, "\n| name | whose | formula | what | presets | checked by |\n|---|---|---|---|---|---|\n")
	for _, m := range experiment.Methods() {
		if m.Kind != s.Name {
			continue
		}
		at := slices.IndexFunc(s.Has, func(n experiment.Name) bool { return n.Name == m.Name }) // a test has them agree
		fmt.Fprintf(w, "| `%s` | %s | %s | %s | %s | %s |\n", m.Name, cell(m.Paper), cell(m.Formula), cell(s.Has[at].Card), presetsWith(s.Key, m.Name), cases(m.Cases))
	}
}

// presetsWith are the presets that write a name at a key.
func presetsWith(key, name string) string {
	var all []string
	for _, p := range experiment.Presets() {
		if config.ParseFragment(p.Name.Name, []byte(p.Text)).Text(key) == name {
			all = append(all, p.Name.Name)
		}
	}
	return strings.Join(all, ", ")
}

func cases(all []string) string { return strings.Join(all, ", ") }

// methodNames are the methods for darkroom list.
func methodNames() []name {
	var all []name
	for _, m := range experiment.Methods() {
		all = append(all, name{Kind: "methods", Name: m.Name, What: m.Paper + ": " + m.Formula})
	}
	return all
}
