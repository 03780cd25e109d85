package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/trainer/diagnosis"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/ledger"
	"github.com/darkroom-rl/darkroom/trainer/run"
)

// How long a run takes is measured, not computed: --probe trains for three iterations in a folder that
// is deleted, and takes the mean of the last two, since the first also checks the policy and grows the
// memory. An evaluation's pictures take what the probe's pictures took, by passes of the network and by
// judged sample. Stages after the first, and prompts that are sifted beforehand, are not in it.

// probed are the iterations of a probe.
const probed = 3

// timePlan is seconds.
type timePlan struct {
	PerIteration  float64            `json:"seconds_per_iteration"`
	Parts         map[string]float64 `json:"parts"` // roll, score, train
	PerEvaluation float64            `json:"seconds_per_evaluation"`
	Evaluations   int                `json:"evaluations"`
	All           float64            `json:"seconds"`
	Workers       *workersPlan       `json:"workers,omitempty"`   // nil: there is nothing for them to do
	Diagnosis     *diagnosis.Report  `json:"diagnosis,omitempty"` // why the reward may stay flat
}

// probe measures.
func probe(cmd *cobra.Command, e *experiment.Experiment, p *experiment.Plan) (t *timePlan, err error) {
	held := 0
	if e.Evaluate.Prompts != "" {
		list, err := e.Open(e.Evaluate.Prompts)
		if err != nil {
			return nil, err
		}
		held = len(list) * e.Evaluate.Samples
	}
	short := *e
	short.Run.Iterations, short.Monitors = probed, nil
	short.Evaluate.Every, short.Evaluate.Prompts, short.Evaluate.Guided = 0, "", 0
	short.Rollout.Filter = nil
	if len(e.Stages) > 0 && e.Stages[0].Iterations < probed {
		return nil, fmt.Errorf("the first stage has %d iterations, and a probe takes %d", e.Stages[0].Iterations, probed)
	}
	on, err := openRanks(e.Run.Devices(), e.Run.Patience())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, on.Close(err)) }()
	dir, err := os.MkdirTemp("", "darkroom-probe")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	t = &timePlan{Parts: map[string]float64{}}
	samples := 0.0
	bar := newProgress(cmd.ErrOrStderr(), "probe")
	defer bar.end()
	_, err = run.Run(cmd.Context(), &short, on.Into(run.Options{Dir: filepath.Join(dir, "run"), Version: readBuild().String(), Twice: true, Say: func(string, ...any) {},
		Report: func(l *ledger.Line, timing *ledger.TimingLine) {
			bar.set(l.Iteration, probed)
			if l.Iteration == 1 {
				return
			}
			t.PerIteration += ledger.Work(timing.Seconds) / (probed - 1)
			for _, part := range []string{"roll", "score", "train"} {
				t.Parts[part] += timing.Seconds[part] / (probed - 1)
			}
			samples += float64(l.Samples) / (probed - 1)
		}}))
	if err != nil {
		return nil, err
	}
	if cmd.Context().Err() != nil {
		return nil, cmd.Context().Err()
	}
	if held > 0 && samples > 0 {
		t.Evaluations = evaluations(e.Run.Iterations, e.Evaluate.Every)
		rolls := float64(held) / samples // of a probe's, where all samples cost the same
		if c := p.Stages[0].Counts; c != nil && c.Rollout > 0 {
			rolls = e.EvaluationPasses(held) / c.Rollout
		}
		t.PerEvaluation = rolls*t.Parts["roll"] + float64(held)/samples*t.Parts["score"]
	}
	if t.Diagnosis, err = diagnosis.Read(filepath.Join(dir, "run", diagnosis.File)); err != nil {
		return nil, err
	}
	if !e.AllOffline() && !e.AllTaught() {
		t.Workers = workersOf(t.Parts, e.Rollout.PromptsPerIteration, e.Run.Lag)
	}
	t.All = float64(e.Run.Iterations)*t.PerIteration + float64(t.Evaluations)*t.PerEvaluation
	return t, nil
}

// evaluations are those before the first iteration, every so many, and after the last.
func evaluations(iterations, every int) int {
	if every == 0 {
		return 2
	}
	n := 1 + iterations/every
	if iterations%every != 0 {
		n++
	}
	return n
}

func (t *timePlan) write(w io.Writer) {
	fmt.Fprintf(w, "\ntime, by a probe of %d iterations: about %s\n", probed, spoken(t.All))
	rows := table{header: []string{">AN ITERATION", ">ROLL", ">SCORE", ">TRAIN", ">AN EVALUATION", ">EVALUATIONS"}}
	s := func(x float64) string { return fmt.Sprintf("%.3g s", x) }
	rows.add(s(t.PerIteration), s(t.Parts["roll"]), s(t.Parts["score"]), s(t.Parts["train"]), s(t.PerEvaluation), fmt.Sprint(t.Evaluations))
	rows.write(w)
	t.Workers.write(w)
	if t.Diagnosis == nil {
		return
	}
	fmt.Fprintln(w, "\nwhy the reward may stay flat, by the probe's first iteration")
	for _, line := range t.Diagnosis.Lines() {
		fmt.Fprintln(w, "  "+line)
	}
	if len(t.Diagnosis.Findings) == 0 {
		fmt.Fprintln(w, "  nothing was found")
	}
	for _, f := range t.Diagnosis.Findings {
		fmt.Fprintf(w, "found: %s\n  hint: %s\n", f.Says, f.Remedy)
	}
}

// spoken is a time to the second, and of hours to the minute.
func spoken(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d >= time.Hour {
		return d.Round(time.Minute).String()
	}
	return d.Round(time.Second).String()
}
