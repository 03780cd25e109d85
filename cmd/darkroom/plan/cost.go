package plan

import (
	"fmt"
	"io"
	"time"

	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// A run's evaluations, and its time on a card by operations of its network. Time on this machine is measured
// (time.go): operations say nothing of rewards, of small models and of CPUs.

// cost is evaluations and operations, known without computing.
type cost struct {
	Held        int     `json:"heldout_samples"`
	Evaluations int     `json:"evaluations"`
	Passes      float64 `json:"forwards_of_an_evaluation"`

	Iteration  float64 `json:"operations_of_an_iteration,omitempty"` // of the run's mean iteration
	Evaluation float64 `json:"operations_of_an_evaluation,omitempty"`
	OnCard     float64 `json:"seconds_on_an_h100,omitempty"` // of the whole run: the network alone
}

// cardRate is operations a second as FLUX.1-dev's rollout ran on an H100 (docs/gpu.md).
const cardRate = 350e12

// leastOperations are those of an iteration below which a card waits for its host.
const leastOperations = 1e14

// costOf reckons it; held are the samples of an evaluation.
func costOf(e *experiment.Experiment, p Document, held int) *cost {
	c := &cost{Held: held}
	if held > 0 {
		c.Evaluations = evaluations(e.Run.Iterations, e.Evaluate.Every)
	}
	passes, backward := 0.0, 0.0
	for _, s := range p.Stages {
		if s.Counts != nil {
			share := float64(s.Iterations) / float64(max(1, p.Iterations))
			passes += share * (s.Counts.Rollout + s.Counts.Reference)
			backward += share * s.Counts.Backward
		}
	}
	if e.Episode != nil || passes+backward == 0 {
		return c
	}
	c.Passes = e.EvaluationPasses(held)
	if p.Memory == nil || p.Memory.Work.Train == 0 {
		return c
	}
	work := p.Memory.Work
	pass := work.Pass
	if pass == 0 { // nothing is rolled
		pass = work.Train / 3
	}
	c.Iteration, c.Evaluation = passes*pass+backward*work.Train, c.Passes*pass
	if c.Iteration >= leastOperations {
		c.OnCard = (float64(p.Iterations)*c.Iteration + float64(c.Evaluations)*c.Evaluation) / cardRate
	}
	return c
}

// write prints the evaluations and the time.
func (c *cost) write(w io.Writer, p Document) {
	if c.Held > 0 {
		fmt.Fprintf(w, "\nevaluations: %d, of %s", c.Evaluations, console.Plural(int64(c.Held), "sample"))
		if c.Passes > 0 {
			fmt.Fprintf(w, " and %.0f passes each", c.Passes)
		}
		fmt.Fprintln(w)
	}
	switch {
	case p.Time != nil:
		p.Time.write(w)
	case c.OnCard > 0:
		fmt.Fprintf(w, "\ntime: about %s on one H100, %s an iteration: the network's %.3g TFLOP at %.0f TFLOP/s, as FLUX.1-dev ran there; rewards and decoding come on top\n",
			lasting(c.OnCard), lasting(c.Iteration/cardRate), c.Iteration/1e12, cardRate/1e12)
		fmt.Fprintln(w, "      --probe measures it on this machine, in three iterations")
	default:
		fmt.Fprintln(w, "\ntime: --probe measures it, in three iterations")
	}
}

// lasting is a time with two figures.
func lasting(seconds float64) string {
	switch d := time.Duration(seconds * float64(time.Second)); {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%.1f days", d.Hours()/24)
	case d >= 100*time.Minute:
		return fmt.Sprintf("%.1f h", d.Hours())
	case d >= 100*time.Second:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.2g s", seconds)
}
