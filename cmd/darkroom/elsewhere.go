package main

import (
	"cmp"
	"fmt"
	"io"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// The page of other programs' settings, docs/elsewhere.md.

const elsewhereHead = `# Coming from flow_grpo, Flow-Factory, MixGRPO, TRL, verl, ai-toolkit or diffusers

Written by ` + "`go generate ./cmd/darkroom`" + `. Each table has the settings of one program, and the key or the flag that does
the same here. A table of theirs, or a name of theirs that no key here has, is refused with that hint. What keys take:
[config.md](config.md).

` + "`darkroom init --from config/grpo.py:NAME`" + ` translates flow_grpo's files, and ` + "`--from FILE.yaml`" + ` Flow-Factory's: settings
with the same meaning are written, and all others become comments with their reasons. No Python runs: values are read
from assignments, and what a loop, a condition or a call may set is not known, and said so. Prompts of an iteration are
counted for the file's own ` + "`gpu_number`" + `. Models whose networks are not read here (` + "`darkroom list families`" + `) are refused.
`

// writeElsewhere writes docs/elsewhere.md.
func writeElsewhere(w io.Writer) {
	fmt.Fprint(w, elsewhereHead)
	program := ""
	for _, s := range experiment.ElsewhereKeys() {
		if s.Program != program {
			program = s.Program
			fmt.Fprintf(w, "\n## %s\n\n| there | here | differs |\n|---|---|---|\n", program)
		}
		here := ""
		if s.Here != "" {
			here = "`" + s.Here + "`"
		}
		fmt.Fprintf(w, "| `%s` | %s | %s |\n", s.Name, here, cell(s.Differs))
	}
}

// elsewhereNames are the settings for darkroom list.
func elsewhereNames() []name {
	var all []name
	for _, s := range experiment.ElsewhereKeys() {
		what := s.Program + "'s: here " + cmp.Or(s.Here, "without a key")
		if s.Differs != "" {
			what += ", " + s.Differs
		}
		all = append(all, name{Kind: "elsewhere", Name: s.Name, What: what})
	}
	return all
}
