// Package plan is 'darkroom plan': the meaning of an experiment's file, its memory and its time.
package plan

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/cmd/darkroom/devices"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/inputs"
	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// Command is 'darkroom plan'.
func Command() *cobra.Command {
	var sets []string
	var resolved, probing, steps bool
	var device, asked string
	cmd := &cobra.Command{
		Use:   "plan [FILE.toml]",
		Short: "Check an experiment's file, and say what it amounts to",
		Long: `Check an experiment's file, and say what it amounts to: how often the network runs,
memory, time, and what seems unwise. All mistakes are reported at once, those in
prompts' files and in the model's settings too. --steps adds the steps of the
sampler as numbers, which of them each iteration trains, and what random numbers
depend on.

No weights are loaded. The settings of a generator's folder (model_index.json and each
part's config.json) are enough, so memory is known before anything is downloaded.

--probe trains for three iterations in a temporary folder and scores the first samples twice.
It tells how long the run will take, and why its reward may stay flat.`,
		Example: "  darkroom plan experiment.toml\n  darkroom plan experiment.toml --set sampler.steps=20 --set loss.clip_range=1e-4\n  darkroom plan experiment.toml --resolved\n  darkroom plan --example mixgrpo\n  darkroom plan experiment.toml --probe --device cuda:0",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 0 && asked == "" {
				return fmt.Errorf("'%s' needs one file, or --example NAME\nhint: see '%s --help'", cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("device") {
				sets = append(sets, "run.device="+device)
			}
			e, err := inputs.FileOrExample(args, asked, sets)
			if err != nil {
				return inputs.WithFiles(e, err)
			}
			if asJSON, _ := cmd.Flags().GetBool("json"); resolved && asJSON {
				return exits.Usagef("--resolved prints TOML, and --json JSON\nhint: leave one of them out")
			}
			all, err := documented(cmd, e, resolved)
			if err != nil || resolved {
				return err
			}
			if probing {
				if len(all.Absent) > 0 {
					return exits.Usagef("--probe trains, and %s is not here yet\nhint: 'darkroom plan' without --probe prints the commands that fetch it", all.Absent[0].Path)
				}
				if all.Time, err = probe(cmd, e, all.Plan); err != nil {
					return err
				}
			}
			return console.Emit(cmd, all, func(w io.Writer) { writePlan(w, all, steps) })
		},
	}
	inputs.ExampleFlag(cmd, &asked)
	cmd.Flags().StringArrayVar(&sets, "set", nil, "set `KEY=VALUE` over the file, as often as needed")
	cmd.Flags().BoolVar(&steps, "steps", false, "print every step's coefficients, which iterations train it, and what random numbers depend on")
	cmd.Flags().BoolVar(&resolved, "resolved", false, "print the whole file with every default, and who set what")
	devices.RanksFlag(cmd, &device)
	cmd.Flags().BoolVar(&probing, "probe", false, "measure how long an iteration takes, and say how long all will")
	return cmd
}

// documented is the plan of an experiment; resolved prints the file in its place. Parts that are not here yet have
// stand-ins meanwhile.
func documented(cmd *cobra.Command, e *experiment.Experiment, resolved bool) (all Document, err error) {
	on, err := standInFor(e)
	if err != nil {
		return all, err
	}
	defer func() { err = errors.Join(on.mistake(err), on.close()) }()
	var notes []string
	var dry func() model.Dry
	if on.uncounted == "" {
		var bare string
		if dry, bare, err = devices.Counting(cmd.Context(), on.Experiment); err != nil {
			return all, err
		}
		notes, err = inputs.CheckOn(on.Experiment, dry())
		notes = slices.DeleteFunc(notes, func(n string) bool { return on.folder != "" && strings.Contains(n, on.folder) }) // of stand-ins
		if bare != "" && on.Model.Path == e.Model.Path {
			notes = append(notes, bare)
		}
		e.Model.LoRA = on.Model.LoRA // which the model's folder fills in
	}
	if resolved {
		return all, e.Write(cmd.OutOrStdout())
	}
	if err != nil {
		return all, err
	}
	p, err := e.Plan()
	if err != nil {
		return all, exits.Usage(err)
	}
	p.Warnings = append(p.Warnings, notes...)
	if len(on.unread) > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("the memory is without the networks of %s, whose prompts are not here yet", strings.Join(on.unread, ", ")))
	}
	if on.uncounted != "" {
		all = Document{Plan: p, Why: on.uncounted + " is not here yet, and a conversation is counted by its prompts and its tokenizer"}
	} else {
		all = WithMemory(on.Experiment, p, dry())
	}
	if err := cmd.Context().Err(); err != nil {
		return all, err
	}
	all.Absent, all.RewardsLater = on.absent, on.rewards
	held, err := heldOut(e, on.absent)
	all.Cost = costOf(e, all, held)
	return all, err
}

// heldOut is the number of an evaluation's samples; 0 where its prompts are not here yet.
func heldOut(e *experiment.Experiment, absent []Absent) (int, error) {
	if e.Evaluate.Prompts == "" || slices.ContainsFunc(absent, func(a Absent) bool { return a.Path == e.Evaluate.Prompts }) {
		return 0, nil
	}
	list, err := e.Open(e.Evaluate.Prompts)
	return len(list) * e.Evaluate.Samples, err
}

func writePlan(w io.Writer, p Document, steps bool) {
	fmt.Fprintln(w, console.Bold(w, fmt.Sprintf("%s: %s, seed %d", console.Printable(p.Name), console.Plural(int64(p.Iterations), "iteration"), p.Seed)))
	writeFacts(w, p.Facts)
	for i, s := range p.Stages {
		if len(p.Stages) > 1 {
			name := strings.TrimSpace(fmt.Sprintf("stage %d %s", i, console.Printable(s.Name)))
			fmt.Fprintf(w, "\n%s\n", console.Bold(w, fmt.Sprintf("%s: iterations %d to %d", name, s.First, s.First+s.Iterations-1)))
		}
		writeFacts(w, s.Facts)
		if len(s.Rows) == 0 {
			continue
		}
		fmt.Fprintf(w, "%-11s %s\n", "sampler", sampled(s, steps))
		if steps {
			writeRows(w, s)
			writeWindows(w, s)
		}
		writeCounts(w, s.Counts, steps)
	}
	if steps {
		writeSeeds(w, p.Plan)
	}
	p.writeMemory(w)
	p.Gradients.write(w)
	p.Cost.write(w, p)
	writePublished(w, p.Published)
	for i, warning := range p.Warnings {
		if i == 0 {
			fmt.Fprintln(w)
		}
		console.Message(w, "warning: "+warning)
	}
	p.writeAbsent(w)
}

// writePublished prints the sources of the numbers of presets and recipes, and departures.
func writePublished(w io.Writer, all []experiment.Provenance) {
	for _, p := range all {
		fmt.Fprintf(w, "\n%s: %s\n", console.Bold(w, p.Of), strings.Join(p.Where, "; "))
		for _, why := range p.Unread {
			fmt.Fprintln(w, "  not read: "+why)
		}
		own := 0
		for _, d := range p.Differs {
			if d.Value != "" {
				own++
			}
		}
		fmt.Fprintf(w, "  %d of %s as published\n", p.Numbers-own, console.Plural(int64(p.Numbers), "setting"))
		for _, d := range p.Differs {
			fmt.Fprintln(w, "  "+d.String())
		}
	}
}

// writeFacts prints the facts, a line each.
func writeFacts(w io.Writer, facts []experiment.Fact) {
	for _, f := range facts {
		fmt.Fprintf(w, "%-11s %s\n", f.What, console.PrintableTo(f.How, 500))
	}
}

// sampled is a line about the sampler and its trained steps.
func sampled(s experiment.StagePlan, steps bool) string {
	where := "in every step"
	if s.Coverage != nil {
		where = "in the window, " + s.Outside + " outside"
	}
	says := fmt.Sprintf("%s, %s %s, schedule %s", console.Plural(int64(len(s.Rows)), "step"), s.Solver, where, s.Schedule)
	if len(s.Windows) > 0 {
		var ever []int
		for step, n := range s.Coverage {
			if n > 0 {
				ever = append(ever, step)
			}
		}
		says += "; trains steps " + numbers(s.Windows[0].Steps)
		if len(s.Windows) > 1 {
			says += fmt.Sprintf(" first, and %s by iteration %d", numbers(ever), s.First+s.Planned-1)
		}
	}
	if !steps {
		says += " (--steps)"
	}
	return says
}

// writeRows prints the steps of the sampler.
func writeRows(w io.Writer, s experiment.StagePlan) {
	header := []string{">STEP", ">FROM", ">TO", ">LATENTS", ">OUTPUT", ">DEVIATION", "TRAINED", ">ITERATIONS"}
	where := "in every step"
	if s.Coverage != nil {
		where = "in the window, " + s.Outside + " outside"
	} else {
		header = header[:6]
	}
	from := "from and to are sigmas"
	if s.Signal {
		from = "from and to are shares of signal"
	}
	fmt.Fprintf(w, "\nsampler of iteration %d: %s %s, schedule %s\n", s.First, s.Solver, where, s.Schedule)
	fmt.Fprintf(w, "next = latents·x + output·network + deviation·noise; %s; a second coefficient is of the step before\n", from)
	t := console.Table{Header: header}
	for _, r := range s.Rows {
		deviation, trained, times := "-", "", "0"
		if r.Noise != 0 {
			deviation = figures(r.Noise)
		}
		if r.Trained {
			trained = "yes"
		}
		if tail := len(s.Rows) < len(s.Coverage) && !r.Trained; tail { // a compressed tail has other steps
			times = "-"
		} else if r.Step < len(s.Coverage) {
			times = fmt.Sprint(s.Coverage[r.Step])
		}
		cells := []string{fmt.Sprint(r.Step), figures(r.From), figures(r.To), byLag(r.Latents), byLag(r.Outputs), deviation, trained, times}
		t.Add(cells[:len(header)]...)
	}
	t.Write(w)
}

// byLag prints coefficients of this step and of those before it.
func byLag(c []float64) string {
	var all []string
	for _, x := range c {
		all = append(all, figures(x))
	}
	if len(all) == 0 {
		return "0"
	}
	return strings.Join(all, " ")
}

// figures is a number with five of them.
func figures(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1e5 {
		return fmt.Sprint(int(x))
	}
	return strconv.FormatFloat(x, 'g', 5, 64)
}

// writeWindows prints which steps are trained when; a window that never moves is
// one line.
func writeWindows(w io.Writer, s experiment.StagePlan) {
	const most = 12
	if len(s.Windows) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := console.Table{Header: []string{"ITERATIONS", "WINDOW"}}
	for i, p := range s.Windows {
		if i == most {
			break
		}
		t.Add(span(p.First, p.Last), numbers(p.Steps))
	}
	t.Write(w)
	if len(s.Windows) > most {
		fmt.Fprintf(w, "... and so on; ITERATIONS above counts the %d planned ones\n", s.Planned)
	}
}

// span is a range of numbers for people.
func span(first, last int) string {
	if first == last {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d-%d", first, last)
}

// numbers writes ascending ones as ranges.
func numbers(all []int) string {
	var s []string
	for i := 0; i < len(all); i++ {
		first := all[i]
		for i+1 < len(all) && all[i+1] == all[i]+1 {
			i++
		}
		s = append(s, span(first, all[i]))
	}
	if s == nil {
		return "none"
	}
	return strings.Join(s, ", ")
}

func writeCounts(w io.Writer, c *experiment.Counts, whole bool) {
	fmt.Fprintf(w, "\npasses of the network an iteration (%s)\n", console.Plural(int64(c.Samples), "sample"))
	t := console.Table{Header: []string{"", ">FORWARD", ">BACKWARD"}}
	n := func(x float64) string { return strconv.FormatFloat(math.Round(x*10)/10, 'f', -1, 64) }
	t.Add("rollout", n(c.Rollout), "")
	if c.Shared > 0 {
		t.Add("(shared in a group, computed once)", "-"+n(c.Shared), "")
	}
	if c.Reference > 0 {
		t.Add("reference", n(c.Reference), "")
	}
	t.Add("training", n(c.Train), n(c.Backward))
	t.Add("all", n(c.Rollout+c.Reference+c.Train), n(c.Backward))
	if whole {
		t.Add("for comparison: if all steps were trained", n(c.FullForward), n(c.FullBack))
	}
	t.Write(w)
}

func writeSeeds(w io.Writer, p *experiment.Plan) {
	fmt.Fprintf(w, "\nrandom numbers: functions of the seed %d and of\n", p.Seed)
	t := console.Table{Header: []string{"PURPOSE", "COORDINATES", "DRAWS"}}
	for _, s := range p.Seeds {
		t.Add(string(s.Purpose), s.Coordinates, s.Draws)
	}
	t.Write(w)
}
