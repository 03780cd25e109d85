// Package eval is 'darkroom eval': rewards judged by labelled pairs, and models by published questions.
package eval

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/cmd/darkroom/panel"
	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/cmd/internal/version"
	"github.com/darkroom-rl/darkroom/data/preferences"
	"github.com/darkroom-rl/darkroom/rewards/eval"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/view/report"
)

// Command is 'darkroom eval'.
func Command() *cobra.Command {
	o := options{page: "eval.html", probed: 40, again: 40, seed: 1}
	var suite suiteOptions
	cmd := &cobra.Command{
		Use:   "eval --reward NAME[,NAME] [--pairs FILE] | --model DIR --suite NAME:FILE",
		Short: "Judge rewards: can they be trusted, and how can they be gamed? Or a model, by published questions",
		Long: `Judge rewards on labelled pairs: how often they agree with the labels, what a difference
of their scores means, whether they separate the samples of one prompt, whether they favour
the picture shown first, and whether they repeat themselves. Then probe them with changes that
make nothing better: JPEG, blur, noise, brightness, saturation, stamped text, still clips
and others. All intervals are of 95 %, over prompts.

A change is a weakness where, at 95 % for all changes together, its mean gain is
above a quarter of the typical difference between two samples of a prompt, and at least
half of the largest such gain; a smaller gain is a side effect. The command prints a
table and writes a page with plots and the worst cases.

--pairs names files of lines {"prompt": "...", "a": "a.png", "b": "b.png", "better":
"a|b|tie"}, optionally with "kind" and "meta". File names are relative to the list. A reply
is written {"turns": [{"text": "..."}]} in place of a file name. Lists of HPDv2 and ImageReward
(.json), Multimodal RewardBench (.json), Pick-a-Pic and GenAI-Bench (.parquet) and
VideoGen-RewardBench (.csv, or .csv#VQ for another column than Overall) are read as published,
also by the folder that they lie in, and with the name of the layout before it: hpdv2:FILE,
imagereward:, pickapic:, genai_bench:, videogen_rewardbench:, mm_rewardbench:. Accuracy is also by
source (the category, or the models compared), and with ties where labels are ties: scores that
differ by at most --tied are tied, or else by the limit that fits these pairs best. --card writes
all of it in Markdown. The defaults are ` + eval.SceneSet + `
and ` + eval.ClipSet + `, which are part of the program.

With --suite, a vision-language model answers a published collection of questions about
pictures, from your own file as it is published (.json, .jsonl, .tsv, .parquet; pictures
beside it or in it). Which replies are right is said by the collection's rule, and no model
judges. Prompts, limits, sampling, rule and hashes of all of them are written with the
accuracy and its interval, and a card in Markdown.`,
		Example: "  darkroom eval --reward layout,ocr,aesthetic\n" +
			"  darkroom eval --reward motion,flicker --page motion.html\n" +
			"  darkroom eval --reward pickscore --path PickScore_v1 --pairs pickapic:test.parquet --card pickscore.md\n" +
			"  darkroom eval --reward http --url http://localhost:8080 --pairs pairs.jsonl --json\n" +
			"  darkroom eval --run runs/zoom --suite vstar:vstar_bench/test_questions.jsonl --turns 12 --out results",
		Args: exits.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(suite.suites) > 0 {
				suite.Device, suite.Seed = o.Device, o.seed
				if err := suite.check(cmd); err != nil {
					return err
				}
				return suite.evaluate(cmd)
			}
			for _, flag := range ownFlags {
				if cmd.Flags().Changed(flag) {
					return exits.Usagef("--%s is of suites, and there is no --suite NAME:FILE\nhint: see '%s --help'", flag, cmd.CommandPath())
				}
			}
			if err := o.check(cmd); err != nil {
				return err
			}
			return o.run(cmd)
		},
	}
	o.Add(cmd)
	suite.add(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&o.pairs, "pairs", nil, "`FILES` of labelled pairs, published collections, or embedded sets, with commas between them")
	f.StringVar(&o.page, "page", o.page, "`FILE.html` that is written; empty: none")
	f.StringVar(&o.card, "card", "", "`FILE.md` that is written, a card of the accuracies; empty: none")
	f.Float64Var(&o.tied, "tied", 0, "`DIFFERENCE` of scores up to which a pair is a tie (default: the one that fits the labels best)")
	f.IntVar(&o.probed, "probes", o.probed, "samples that each probe is tried on; 0: none")
	f.IntVar(&o.again, "again", o.again, "pairs that are asked about twice more, exchanged and as they were; 0: none")
	f.Uint64Var(&o.seed, "seed", o.seed, "of what is drawn")
	return cmd
}

// options are the flags.
type options struct {
	panel.Flags
	pairs         []string
	page, card    string
	tied          float64 // with --tied
	limit         *float64
	probed, again int
	seed          uint64
}

func (o *options) check(cmd *cobra.Command) error {
	var wrong []string
	must := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	o.Flags.Check(must)
	must(o.probed >= 0 && o.probed <= 100000, "--probes %d: 0 to 100000", o.probed)
	must(o.again >= 0 && o.again <= 100000, "--again %d: 0 to 100000", o.again)
	must(o.tied >= 0 && !math.IsInf(o.tied, 1), "--tied %v: a difference of scores, 0 or more", o.tied)
	if len(wrong) > 0 {
		return exits.Usagef("%s\nhint: see '%s --help'", strings.Join(wrong, "\n"), cmd.CommandPath())
	}
	if cmd.Flags().Changed("tied") {
		o.limit = &o.tied
	}
	return nil
}

// document is the output of --json.
type document struct {
	Reports []*eval.Report `json:"reports"`
	Page    string         `json:"page,omitempty"`
	Card    string         `json:"card,omitempty"`
}

func (o *options) run(cmd *cobra.Command) error {
	sets, err := o.sets()
	if err != nil {
		return err
	}
	opened, err := o.Open(true)
	if err != nil {
		return err
	}
	defer panel.CloseAll(opened)
	fresh := opened
	if o.Cache != "" { // a repeated question must not be cached
		if fresh, err = o.Open(false); err != nil {
			return err
		}
		defer panel.CloseAll(fresh)
	}
	var out document
	for k, name := range o.Names {
		judged := false
		for _, set := range sets[name] {
			bar := console.NewProgress(cmd.ErrOrStderr(), name+" on "+set.Name)
			var one sync.Mutex
			r, err := eval.Run(cmd.Context(), name, opened[k].Judge, set, eval.Options{Probed: none(o.probed), Again: none(o.again), Seed: o.seed, Tied: o.limit, Fresh: fresh[k].Judge,
				Progress: func(done, all int) {
					one.Lock()
					defer one.Unlock()
					bar.Set(done, all)
				}})
			bar.End()
			if err != nil {
				return err
			}
			if toy := opened[k].Toy; toy != "" {
				r.Warnings = append(r.Warnings, "it is "+toy)
			}
			judged = judged || r.Judged > 0
			out.Reports = append(out.Reports, r)
		}
		if !judged {
			return fmt.Errorf("reward %s judged none of %d pairs: %s", name, len(sets[name][0].Pairs), out.Reports[len(out.Reports)-1].Why[0].Why)
		}
	}
	if o.page != "" {
		page, err := report.Judges(out.Reports)
		if err != nil {
			return err
		}
		if err := os.WriteFile(o.page, page, 0o644); err != nil {
			return fmt.Errorf("writing the page: %w", err)
		}
		out.Page = o.page
	}
	if o.card != "" {
		card := eval.CardOf(out.Reports, eval.Setup{Command: o.command(), Seed: o.seed, Program: version.Read().String()})
		if err := os.WriteFile(o.card, []byte(card), 0o644); err != nil {
			return fmt.Errorf("writing the card: %w", err)
		}
		out.Card = o.card
	}
	return console.Emit(cmd, out, func(w io.Writer) { printReports(w, out) })
}

// command is the call, by the flags that scores depend on.
func (o *options) command() string {
	text := "darkroom eval" + o.Flags.String()
	if len(o.pairs) > 0 {
		text += " --pairs " + strings.Join(o.pairs, ",")
	}
	if o.limit != nil {
		text += fmt.Sprintf(" --tied %v", *o.limit)
	}
	return fmt.Sprintf("%s --probes %d --again %d --seed %d", text, o.probed, o.again, o.seed)
}

// none is how eval.Options says that there shall be none.
func none(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// sets are the pairs that each reward is asked about: those named, or those that are part of the
// program and fit it.
func (o *options) sets() (map[string][]eval.Set, error) {
	var all []eval.Set
	names := o.pairs
	if len(names) == 0 {
		names = []string{eval.SceneSet, eval.ClipSet}
	}
	for _, name := range names {
		set, err := preferences.Read(name)
		if unopened := (preferences.Unopened{}); errors.As(err, &unopened) {
			return nil, exits.Usage(err)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, set)
	}
	of := map[string][]eval.Set{}
	for _, reward := range o.Names {
		of[reward] = all
		if len(o.pairs) > 0 {
			continue
		}
		kind, _ := (&experiment.Reward{Name: reward}).Kind()
		judges := kind.Judges.Names()
		of[reward] = slices.DeleteFunc(slices.Clone(all), func(s eval.Set) bool { return !slices.Contains(judges, s.Of) })
		if len(of[reward]) == 0 {
			return nil, exits.Usagef("reward %s judges %s, of which no pairs are part of the program: name a file with --pairs", reward, strings.Join(judges, " and "))
		}
	}
	return of, nil
}

// printReports is the table, and below it the changes that raise a reward, and warnings.
func printReports(w io.Writer, out document) {
	t := console.Table{Header: []string{"REWARD", "PAIRS", ">JUDGED", ">ACCURACY", ">TAU-B", ">ECE", ">CONTRAST", ">DEAD", ">FLIPPED", ">SAME", ">PER S", "VERDICT"}}
	for _, r := range out.Reports {
		if r.Judged == 0 {
			t.Add(r.Reward, r.Set, fmt.Sprintf("0/%d", r.Missing), "", "", "", "", "", "", "", "", r.Conclusion)
			continue
		}
		ece, flipped, same := "-", "-", "-"
		if r.Calibration != nil {
			ece = plainOf(r.Calibration.ECE)
		}
		if r.Swaps != nil {
			flipped = plainOf(r.Swaps.Flipped)
		}
		if r.Repeats != nil {
			same = plainOf(r.Repeats.Same)
		}
		t.Add(r.Reward, r.Set, fmt.Sprintf("%d/%d", r.Judged, r.Judged+r.Missing), rangeOf(r.Order.Accuracy), rangeOf(r.Order.Tau), ece, rangeOf(r.Groups.Contrast),
			fmt.Sprintf("%.2f", r.Groups.Dead), flipped, same, fmt.Sprintf("%.0f", r.Speed.PerSecond), r.Conclusion)
	}
	t.Write(w)
	printSources(w, out.Reports)
	printRaised(w, out.Reports)
	for _, r := range out.Reports {
		for _, says := range r.Warnings {
			fmt.Fprintf(w, "%s on %s: %s\n", r.Reward, r.Set, says)
		}
		for _, why := range r.Why {
			fmt.Fprintf(w, "%s on %s: %d pairs are missing: %s\n", r.Reward, r.Set, why.Pairs, why.Why)
		}
	}
	if out.Page != "" {
		fmt.Fprintf(w, "written: %s\n", out.Page)
	}
	if out.Card != "" {
		fmt.Fprintf(w, "written: %s\n", out.Card)
	}
}

// printSources is a row for each source of a published collection, below one of all.
func printSources(w io.Writer, all []*eval.Report) {
	t := console.Table{Header: []string{"REWARD", "PAIRS", "SOURCE", ">PAIRS", ">ACCURACY", ">WITH TIES"}}
	for _, r := range all {
		if r.Layout == "" || r.Judged == 0 {
			continue
		}
		ties := "-"
		if r.Order.Ties != nil {
			ties = rangeOf(r.Order.Ties.Accuracy)
		}
		t.Add(r.Reward, r.Set, "all", fmt.Sprint(r.Order.Pairs), rangeOf(r.Order.Accuracy), ties)
		for _, k := range r.Kinds {
			t.Add(r.Reward, r.Set, k.Kind, fmt.Sprint(k.Pairs), rangeOf(k.Accuracy), rangeOf(k.WithTies))
		}
	}
	if len(t.Rows) > 0 {
		fmt.Fprintln(w)
		t.Write(w)
	}
}

// printRaised is a row for each probe that raises a reward.
func printRaised(w io.Writer, all []*eval.Report) {
	t := console.Table{Header: []string{"RAISED", "PAIRS", "BY", ">GAIN", ">IN TYPICAL DIFFERENCES", ">HIGHER", "WHICH IS"}}
	for _, r := range all {
		for _, p := range r.Probes {
			if p.Outcome != eval.Fine {
				t.Add(r.Reward, r.Set, p.Name, fmt.Sprintf("%.3g", p.Gain.Value), rangeOf(p.Raise), fmt.Sprintf("%.0f %%", 100*p.Higher), p.Outcome)
			}
		}
	}
	if len(t.Rows) > 0 {
		fmt.Fprintln(w)
		t.Write(w)
		fmt.Fprintln(w)
	}
}

func plainOf(i *eval.Interval) string {
	if i == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f", i.Value)
}

func rangeOf(i *eval.Interval) string {
	if i == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f (%.2f to %.2f)", i.Value, i.Low, i.High)
}
