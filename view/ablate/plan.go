package ablate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/preflight"
	"github.com/darkroom-rl/darkroom/trainer/run"
	"github.com/darkroom-rl/darkroom/view/report"
)

// A Budget limits every run: iterations, or seconds of training without evaluations.
type Budget struct {
	Iterations int     `json:"iterations,omitempty"`
	Seconds    float64 `json:"seconds,omitempty"`
}

// ParseBudget reads 40, or 90s, 10m, 1h30m; an empty text means the base's value.
func ParseBudget(s string) (Budget, error) {
	if s == "" {
		return Budget{}, nil
	}
	if n, err := strconv.Atoi(strings.TrimSpace(s)); err == nil && n > 0 {
		return Budget{Iterations: n}, nil
	}
	if d, err := time.ParseDuration(strings.TrimSpace(s)); err == nil && d > 0 {
		return Budget{Seconds: d.Seconds()}, nil
	}
	return Budget{}, fmt.Errorf("--budget %q is neither iterations nor a time\nhint: for example --budget 40, --budget 90s, --budget 10m", s)
}

func (b Budget) sets() []string {
	if b.Iterations == 0 {
		return nil
	}
	return []string{fmt.Sprintf("run.iterations=%d", b.Iterations)}
}

// A Cell is a combination of values.
type Cell struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
	Trials []*Trial `json:"-"`
}

// A Trial is a cell's run with one seed.
type Trial struct {
	Seed       int
	Dir        string
	Device     string // that it runs on, where the grid was given devices
	Err        error  // why it has no result
	experiment *experiment.Experiment
	resume     bool
	done       bool
}

// look reads the state of the folder. A run with other settings is a mistake.
func (r *Trial) look(b Budget) error {
	path := filepath.Join(r.Dir, folder.Config)
	old, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	r.resume = true
	before, err := experiment.Parse(path, old, nil)
	if err != nil {
		return err
	}
	if list := experiment.Changes(before, r.experiment); len(list) > 0 {
		return fmt.Errorf("%s: %w:\n  %s\nhint: --out names another folder", r.Dir, run.ErrChanged, strings.Join(list, "\n  "))
	}
	run, err := report.Read(r.Dir)
	if err != nil {
		return err
	}
	if n := len(run.Lines); n > r.experiment.Run.Iterations {
		return fmt.Errorf("%s has %d iterations already, and the budget is %d\nhint: --out names another folder", r.Dir, n, r.experiment.Run.Iterations)
	}
	if run.Result == nil {
		return nil
	}
	spent := 0.0
	for _, l := range run.Lines {
		spent += ledger.Work(run.Seconds[l.Iteration])
	}
	switch run.Result.Status {
	case ledger.Stopped:
		r.done = true
	case ledger.Finished:
		r.done = run.Result.Iterations == r.experiment.Run.Iterations || b.Seconds > 0 && spent >= b.Seconds
	}
	return nil
}

// Iterations are those that the run has when it is finished, unless its time is up before.
func (r *Trial) Iterations() int { return r.experiment.Run.Iterations }

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

// A Vary is a key and the values that it takes, as they are written on a command line.
type Vary struct {
	Key    string   `json:"key"`
	Values []string `json:"values"`
}

// ParseVary reads KEY=v1,v2,... A comma within brackets, braces or quotation marks belongs to its
// value, so lists and tables can be varied: targets=["a","b"],["c"].
func ParseVary(s string) (Vary, error) {
	key, rest, ok := strings.Cut(s, "=")
	v := Vary{Key: strings.TrimSpace(key)}
	if !ok || v.Key == "" {
		return v, fmt.Errorf("--vary %q: what varies is KEY=VALUE,VALUE,...\nhint: for example --vary sampler.window.size=1,2,4", s)
	}
	switch v.Key {
	case "run.seed":
		return v, fmt.Errorf("--vary run.seed: every combination has the same seeds\nhint: --seeds says how many")
	case "run.iterations":
		return v, fmt.Errorf("--vary run.iterations: every combination has the same budget\nhint: --budget says which")
	case "run.name":
		return v, fmt.Errorf("--vary run.name: a name changes nothing\nhint: folders are named after what varies")
	}
	values, err := split(rest)
	if err != nil {
		return v, fmt.Errorf("--vary %s: %w", v.Key, err)
	}
	for _, value := range values {
		if value = strings.TrimSpace(value); value == "" {
			return v, fmt.Errorf("--vary %s: a value is empty in %q\nhint: an empty string is \"\"", v.Key, rest)
		}
		if slices.Contains(v.Values, value) {
			return v, fmt.Errorf("--vary %s: the value %s is there twice", v.Key, value)
		}
		v.Values = append(v.Values, value)
	}
	return v, nil
}

// split cuts at commas outside of brackets and quotation marks.
func split(s string) ([]string, error) {
	var parts []string
	var open []byte // brackets that wait for their other half
	closes := map[byte]byte{']': '[', '}': '{', ')': '('}
	start, quote := 0, byte(0)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0:
			if c == '\\' && quote == '"' {
				i++
			} else if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '[' || c == '{' || c == '(':
			open = append(open, c)
		case closes[c] != 0:
			if len(open) == 0 || open[len(open)-1] != closes[c] {
				return nil, fmt.Errorf("%q closes nothing in %q", c, s)
			}
			open = open[:len(open)-1]
		case c == ',' && len(open) == 0:
			parts, start = append(parts, s[start:i]), i+1
		}
	}
	if quote != 0 || len(open) > 0 {
		return nil, fmt.Errorf("something is not closed in %q", s)
	}
	return append(parts, s[start:]), nil
}
