package plan

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/cmd/darkroom/devices"
	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/version"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/diagnosis"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/run"
)

// How long a run takes is measured, not computed: --probe trains for three iterations of each stage in a folder that
// is deleted, and takes the mean of the last two, since the first also checks the policy and grows the memory. A
// stage weighs by its iterations. An evaluation's pictures take as long as the probe's, by passes of the network, by
// their size and by judged sample. Prompts that are sifted beforehand are not in it.

// probed are the iterations of a probe, of each stage.
const probed = 3

// timePlan is seconds.
type timePlan struct {
	Probed        int                `json:"iterations_probed"`
	PerIteration  float64            `json:"seconds_per_iteration"` // of the run's mean iteration
	Parts         map[string]float64 `json:"parts"`                 // roll, score, train
	PerEvaluation float64            `json:"seconds_per_evaluation"`
	Guided        float64            `json:"seconds_with_other_guidance,omitempty"` // evaluate.guided, at the start and at the end
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
	weights := shorten(&short)
	short.Monitors = nil
	short.Evaluate.Every, short.Evaluate.Prompts, short.Evaluate.Guided = 0, "", 0
	short.Rollout.Filter = nil
	on, err := devices.OpenRanks(e.Run.Devices(), e.Run.Patience())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, on.Close(err)) }()
	dir, err := os.MkdirTemp("", "darkroom-probe")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	t = &timePlan{Probed: len(weights), Parts: map[string]float64{}}
	samples := 0.0
	bar := console.NewProgress(cmd.ErrOrStderr(), "probe")
	defer bar.End()
	_, err = run.Run(cmd.Context(), &short, on.Into(run.Options{Dir: filepath.Join(dir, "run"), Version: version.Read().String(), Twice: true, Logf: func(string, ...any) {},
		Report: func(l *ledger.Line, timing *ledger.TimingLine) {
			bar.Set(l.Iteration, len(weights))
			weight := weights[l.Iteration-1]
			t.PerIteration += float64(weight * ledger.Work(timing.Seconds))
			for _, part := range []string{"roll", "score", "train"} {
				t.Parts[part] += float64(weight * timing.Seconds[part])
			}
			samples += float64(weight * float64(l.Samples))
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
		passes := 0.0                    // of an iteration's rollout, on the mean
		for _, s := range p.Stages {
			if s.Counts != nil {
				passes += float64(s.Counts.Rollout*float64(s.Iterations)) / float64(e.Run.Iterations)
			}
		}
		if passes > 0 {
			rolls = e.EvaluationPasses(held) / passes
		}
		size, judged := evaluatedSize(e), float64(held)/samples*t.Parts["score"]
		t.PerEvaluation = rolls*size*t.Parts["roll"] + judged
		if guided := e.GuidedPasses(held); passes > 0 && guided > 0 {
			t.Guided = guided/passes*size*t.Parts["roll"] + judged
		}
	}
	if t.Diagnosis, err = diagnosis.Read(filepath.Join(dir, "run", diagnosis.File)); err != nil {
		return nil, err
	}
	if !e.AllOffline() && !e.AllSupervised() {
		t.Workers = workersOf(t.Parts, e.Rollout.PromptsPerIteration, e.Run.Lag, e.Run.Shards)
	}
	t.All = float64(e.Run.Iterations)*t.PerIteration + float64(t.Evaluations)*t.PerEvaluation + 2*t.Guided
	return t, nil
}

// shorten leaves an experiment a probe's iterations of each stage, and returns the weight of each in the run's mean
// iteration.
func shorten(e *experiment.Experiment) (weights []float64) {
	stages := slices.Clone(e.Stages)
	for i := range max(1, len(stages)) {
		share := 1.0 // of the run's iterations
		if len(stages) > 0 {
			share = float64(stages[i].Iterations) / float64(e.Run.Iterations)
			stages[i].Iterations = probed
		}
		for n := range probed {
			weights = append(weights, share*float64(min(n, 1))/(probed-1))
		}
	}
	e.Stages, e.Run.Iterations = stages, len(weights)
	return weights
}

// evaluatedSize is the size of an evaluation's samples, in pixels of a rollout's; 1 where the model's folder has the
// rollout's. Attention grows faster.
func evaluatedSize(e *experiment.Experiment) float64 {
	v, s := e.Evaluate, e.Sampler
	rolled := s.Width * s.Height * max(1, s.Frames)
	if rolled == 0 {
		return 1
	}
	return float64(cmp.Or(v.Width, s.Width)*cmp.Or(v.Height, s.Height)*cmp.Or(v.Frames, s.Frames, 1)) / float64(rolled)
}

// evaluations are those before the first iteration, every `every` iterations, and after the last.
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
	fmt.Fprintf(w, "\ntime, by a probe of %d iterations: about %s\n", t.Probed, spoken(t.All))
	rows := console.Table{Header: []string{">AN ITERATION", ">ROLL", ">SCORE", ">TRAIN", ">AN EVALUATION", ">EVALUATIONS"}}
	s := func(x float64) string { return fmt.Sprintf("%.3g s", x) }
	cells := []string{s(t.PerIteration), s(t.Parts["roll"]), s(t.Parts["score"]), s(t.Parts["train"]), s(t.PerEvaluation), fmt.Sprint(t.Evaluations)}
	if t.Guided > 0 {
		rows.Header = append(rows.Header, ">TWICE WITH EVALUATE.GUIDED")
		cells = append(cells, s(t.Guided))
	}
	rows.Add(cells...)
	rows.Write(w)
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
		console.Message(w, fmt.Sprintf("found: %s\n  hint: %s", f.Text, f.Remedy))
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

// The effect of workers (train --listen), by a probe: workers are of use as long as each has a job before the others
// wait for the trainer. Workers are taken to be as fast as this machine, and the network to take no time.
//
//	lag 0   an iteration is its rolls, shared out by whole groups to the workers and the trainer, and then scores and
//	        training:                    S + T + R ceil(P/(n+1))/P
//	lag k   rolls go on beside training, up to P (k+1) groups at once:   max(S + T, R/min(n, P (k+1)))
//
// With workers that compute gradients, too, of a run with K shards, T is T ceil(K/(n+1))/K.

// workersPlan says so.
type workersPlan struct {
	Groups  int             `json:"groups"` // that can be rolled at once
	Most    int             `json:"most"`   // workers that are of use
	Seconds []workersTiming `json:"seconds"`
}

// workersTiming is an iteration with this number of workers.
type workersTiming struct {
	Workers   int     `json:"workers"`
	Seconds   float64 `json:"seconds_per_iteration"`
	Gradients float64 `json:"seconds_with_gradients,omitempty"` // where they compute gradients, too
}

// workersOf predicts, from the parts of an iteration of this number of groups.
func workersOf(parts map[string]float64, groups, lag, shards int) *workersPlan {
	roll, rest := parts["roll"], parts["score"]+parts["train"]
	if roll <= 0 || rest <= 0 || groups < 1 {
		return nil
	}
	p := &workersPlan{Groups: groups * (lag + 1)}
	of := func(n int, rest float64) float64 {
		if lag == 0 {
			return rest + roll*math.Ceil(float64(groups)/float64(n+1))/float64(groups)
		}
		return max(rest, roll/float64(min(n, p.Groups)))
	}
	timing := func(n int) workersTiming {
		t := workersTiming{Workers: n, Seconds: of(n, rest)}
		if shards > 1 {
			t.Gradients = of(n, parts["score"]+parts["train"]*math.Ceil(float64(shards)/float64(n+1))/float64(shards))
		}
		return t
	}
	if p.Most = groups - 1; lag > 0 {
		p.Most = min(p.Groups, int(math.Ceil(roll/rest)))
	}
	for n := 1; n < p.Most; n *= 2 {
		p.Seconds = append(p.Seconds, timing(n))
	}
	if p.Most > 0 {
		p.Seconds = append(p.Seconds, timing(p.Most))
	}
	return p
}

func (p *workersPlan) write(w io.Writer) {
	if p == nil || len(p.Seconds) == 0 {
		return
	}
	fmt.Fprintf(w, "\nworkers ('train --listen'), where each is as fast as this machine: up to %s are of use, for %s can be rolled at once\n", console.Plural(int64(p.Most), "worker"), console.Plural(int64(p.Groups), "group"))
	t := console.Table{Header: []string{">WORKERS", ">AN ITERATION"}}
	shares := p.Seconds[0].Gradients > 0
	if shares {
		t.Header = append(t.Header, ">WITH GRADIENTS")
	}
	for _, s := range p.Seconds {
		cells := []string{fmt.Sprint(s.Workers), fmt.Sprintf("about %.3g s", s.Seconds)}
		if shares {
			cells = append(cells, fmt.Sprintf("about %.3g s", s.Gradients))
		}
		t.Add(cells...)
	}
	t.Write(w)
}
