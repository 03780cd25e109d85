package ablate

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/preflight"
	"github.com/darkroom-rl/darkroom/trainer/run"
)

// Most runs of a grid: more is a slip of the keyboard.
const mostRuns = 10000

// Options say how a grid is run.
type Options struct {
	Dir    string
	Sets   []string // set over the base for all
	Seeds  int      // of each combination: the base's seed and those after it
	Budget Budget
}

// A Grid is every combination of values.
type Grid struct {
	Options
	Base  string // the file's name
	Vary  []Vary
	Cells []*Cell
}

// Plan makes the grid, and reads every experiment of it. The error has all mistakes.
func Plan(name string, base []byte, vary []Vary, o Options) (*Grid, error) {
	g := &Grid{Options: o, Base: name, Vary: vary}
	if len(vary) == 0 {
		return nil, errors.New("nothing varies\nhint: --vary KEY=v1,v2,... says what does")
	}
	n := max(1, o.Seeds)
	for i, v := range vary {
		if slices.ContainsFunc(vary[:i], func(w Vary) bool { return w.Key == v.Key }) {
			return nil, fmt.Errorf("--vary %s is there twice\nhint: write all its values once", v.Key)
		}
		if n *= len(v.Values); n > mostRuns {
			return nil, fmt.Errorf("more than %d runs: too many combinations", mostRuns)
		}
	}
	if _, err := experiment.Parse(name, base, o.Sets); err != nil { // its own mistakes, once
		return nil, err
	}
	var problems []string
	names := map[string]bool{}
	for _, values := range product(vary) {
		c := &Cell{Values: values}
		c.Name = folderName(vary, values)
		for stem, k := c.Name, 2; names[c.Name]; k++ {
			c.Name = fmt.Sprintf("%s-%d", stem, k)
		}
		names[c.Name] = true
		if err := g.read(c, base); err != nil {
			problems = append(problems, err.Error())
		}
		g.Cells = append(g.Cells, c)
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("nothing was run:\n%s", strings.Join(slices.Compact(problems), "\n"))
	}
	return g, nil
}

// read reads the experiments of a cell.
func (g *Grid) read(c *Cell, base []byte) error {
	var first int
	for k := range max(1, g.Seeds) {
		sets := slices.Clone(g.Sets)
		for i, v := range g.Vary {
			sets = append(sets, v.Key+"="+c.Values[i])
		}
		sets = append(sets, g.Budget.sets()...)
		if k > 0 {
			sets = append(sets, fmt.Sprintf("run.seed=%d", first+k))
		}
		e, err := experiment.Parse(g.Base, base, sets)
		if err != nil {
			return err
		}
		if _, err := preflight.Check(e, cpu.NewDry(cpu.Options{})); err != nil {
			return err
		}
		if err := run.Possible(e); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		if e.Evaluate.Prompts == "" {
			return fmt.Errorf("%s has no held-out prompts, and combinations are compared on them\nhint: write [evaluate] prompts", g.Base)
		}
		first = e.Run.Seed - k
		run := &Trial{Seed: e.Run.Seed, Dir: filepath.Join(g.Dir, c.Name, fmt.Sprintf("seed-%d", e.Run.Seed)), experiment: e}
		if err := run.look(g.Budget); err != nil {
			return err
		}
		c.Trials = append(c.Trials, run)
	}
	return nil
}

// product is every choice of one value a key, the last key fastest.
func product(vary []Vary) [][]string {
	all := [][]string{nil}
	for _, v := range vary {
		var next [][]string
		for _, chosen := range all {
			for _, value := range v.Values {
				next = append(next, append(slices.Clone(chosen), value))
			}
		}
		all = next
	}
	return all
}

// folderName has the varied keys, in letters that any file system has.
func folderName(vary []Vary, values []string) string {
	var parts []string
	for i, v := range vary {
		key := v.Key[strings.LastIndex(v.Key, ".")+1:]
		if slices.ContainsFunc(vary, func(w Vary) bool { return w.Key != v.Key && strings.HasSuffix(w.Key, "."+key) }) {
			key = v.Key
		}
		parts = append(parts, key+"="+values[i])
	}
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("._=+-", r):
			return r
		case r == '"' || r == '\'' || r == ' ':
			return -1
		}
		return '_'
	}, strings.Join(parts, ","))
	return name[:min(len(name), 100)]
}
