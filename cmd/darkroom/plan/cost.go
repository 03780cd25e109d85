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
	Guided      float64 `json:"forwards_with_other_guidance,omitempty"` // evaluate.guided, at the start and at the end
	OwnSize     bool    `json:"evaluations_have_their_own_size,omitempty"`

	Iteration  float64 `json:"operations_of_an_iteration,omitempty"`  // of the run's mean iteration
	Evaluation float64 `json:"operations_of_an_evaluation,omitempty"` // not known where they have their own size
	OnCard     float64 `json:"seconds_on_an_h100,omitempty"`          // of the whole run: the network alone
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
	c.Passes, c.Guided = e.EvaluationPasses(held), 2*e.GuidedPasses(held)
	if p.Memory == nil || p.Memory.Work.Train == 0 {
		return c
	}
	work := p.Memory.Work
	pass := work.Pass
	if pass == 0 { // nothing is rolled
		pass = work.Train / 3
	}
	c.Iteration = passes*pass + backward*work.Train
	all := float64(p.Iterations) * c.Iteration
	if v := e.Evaluate; v.Width > 0 || v.Height > 0 || v.Frames > 0 {
		c.OwnSize = held > 0
	} else {
		c.Evaluation = c.Passes * pass
		all += float64(c.Evaluations)*c.Evaluation + c.Guided*pass
	}
	if c.Iteration >= leastOperations {
		c.OnCard = all / cardRate
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
		if c.Guided > 0 {
			fmt.Fprintf(w, ", and %.0f passes with evaluate.guided", c.Guided)
		}
		fmt.Fprintln(w)
	}
	switch {
	case p.Time != nil:
		p.Time.write(w)
	case c.OnCard > 0:
		beside := "rewards and decoding"
		if c.OwnSize {
			beside = "rewards, decoding and evaluations, which have a size of their own,"
		}
		fmt.Fprintf(w, "\ntime: about %s on one H100, %s an iteration: the network's %s at %.0f TFLOP/s, as FLUX.1-dev ran there; %s come on top\n",
			lasting(c.OnCard), lasting(c.Iteration/cardRate), operations(c.Iteration), cardRate/1e12, beside)
		fmt.Fprintln(w, "      --probe measures it on this machine, in three iterations")
	default:
		fmt.Fprintln(w, "\ntime: --probe measures it, in three iterations")
	}
}

// operations are a number of operations in units that need no exponent.
func operations(n float64) string {
	switch {
	case n >= 1e17:
		return fmt.Sprintf("%.0f PFLOP", n/1e15)
	case n >= 1e15:
		return fmt.Sprintf("%.1f PFLOP", n/1e15)
	}
	return fmt.Sprintf("%.0f TFLOP", n/1e12)
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
	case d >= 10*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%.2g s", seconds)
}
