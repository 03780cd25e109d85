package trainer

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/trainer/optim"
)

// A Trainer improves a policy. Its fields are the parts of an algorithm.
type Trainer struct {
	Policy    Policy
	Actor     Weights                                                     // whose samples are learned from
	Prompts   func(iteration int) []Key                                   // the keys to roll
	Score     func(samples []Sample) ([]float64, error)                   // NaN: no score for this one
	Compare   func(samples []Sample, scores []float64) ([]float64, error) // the advantages
	Selection Selection                                                   // of training data
	Objective Objective
	Optim     optim.Options
	Memories  []Memory
	// Pass says why nothing is learned from these samples, "" where something is; nil: never.
	Pass func(scores, advantages []float64) string
	// Alone reports whether the objective learns, too,
	// where no sample of the iteration teaches anything; nil: it does not.
	Alone func() bool
	// Order is a drawn order of n samples, by which Optim.Split shares them out.
	Order func(iteration, n int) []int

	Iteration int // finished ones
	Updates   int // of the weights, in all
	Since     int // updates before the schedule of learning rates began
}

// An Objective turns advantages into gradients. Evaluate computes the loss of the samples, and passes its gradients
// back through the policy's outputs.
type Objective interface {
	Evaluate(p Policy, samples []Sample, advantages []float64) (LossResult, error)
}

// Stochastic is an objective that draws noise. Of the updates that see the same samples each has draws of its own:
// OfUpdate is the objective of one, counted from 0.
type Stochastic interface {
	Objective
	OfUpdate(n int) Objective
}

// objective is that of an update.
func (t *Trainer) objective(update int) Objective {
	if d, ok := t.Objective.(Stochastic); ok && !t.Optim.Split {
		return d.OfUpdate(update)
	}
	return t.Objective
}

// A LossResult is an objective's loss and numbers of one update.
type LossResult struct {
	Loss    float64
	Idle    bool                 // nothing was to be judged: the weights stay
	Metrics map[string][]float64 // by step of the sampler or by sample, as the objective says
}

// add appends values to a metric.
func (b *LossResult) add(name string, values ...float64) {
	if b.Metrics == nil {
		b.Metrics = map[string][]float64{}
	}
	b.Metrics[name] = append(b.Metrics[name], values...)
}

// A Memory is a set of weights that follows the current ones: once an iteration, as the weights that
// samples are rolled by must, or after each update.
type Memory struct {
	Weights    Weights
	Pace       optim.Pace
	EachUpdate bool
	Decay      float64 // of the last step
}

// A Report has the results of one iteration.
type Report struct {
	Samples    []Sample
	Scores     []float64
	Advantages []float64 // NaN: not compared
	Rolls      int       // how often the policy was asked
	Learned    []int     // the samples that somebody was blamed for
	Reused     int       // samples of earlier iterations beside them
	Updates    []Update
	Passed     string // why no sample is learned from
	Skipped    int    // updates that were not made: their numbers were infinite or none
	Odd        error  // the first of them
}

// An Update is one move of the weights.
type Update struct {
	LossResult
	Norm float64 // of the gradient, before it was clipped
	Rate float64
}

// Step is one iteration: roll and score, compare and choose; then blame and move for each update;
// then remember. Samples without a score are rolled and reported, but nobody is blamed for them.
//
// Numbers that are not finite end no run: an update with such a gradient is skipped, as torch's GradScaler skips it,
// and of samples that hold some none is learned from, nor reported.
func (t *Trainer) Step() (*Report, error) {
	report, err := t.gather()
	if errors.As(err, new(kernels.NotFinite)) {
		report, err = &Report{Passed: "its samples hold numbers that are infinite or none", Skipped: t.Optim.Updates, Odd: err}, nil
	} else if err == nil {
		err = t.learn(report)
	}
	if err != nil {
		return nil, err
	}
	t.remember(false)
	t.Iteration++
	return report, nil
}

// learn compares samples, and makes the updates.
func (t *Trainer) learn(report *Report) error {
	learned, worth, err := t.compare(report)
	if err != nil {
		return err
	}
	for n, share := range t.shares(len(learned)) {
		update, err := t.update(n, Pick(learned, share), Pick(worth, share))
		if err == nil && update.Idle {
			continue
		}
		if err != nil {
			err = fmt.Errorf("update %d of iteration %d: %w", n+1, t.Iteration+1, err)
		}
		switch {
		case errors.As(err, new(kernels.NotFinite)):
			t.Policy.Params().Skip()
			report.Skipped, report.Odd = report.Skipped+1, cmp.Or(report.Odd, err)
		case err != nil:
			return err
		default:
			report.Updates = append(report.Updates, update)
		}
	}
	if report.Skipped > 0 && len(report.Updates) == 0 {
		report.Passed = "every gradient holds numbers that are infinite or none"
	}
	return nil
}

// update makes an update, again where answers were withdrawn.
func (t *Trainer) update(n int, learned []Sample, worth []float64) (u Update, err error) {
	for {
		if u.LossResult, err = t.evaluate(n, learned, worth); err != nil || u.Idle {
			return u, err
		}
		if u, err = t.move(u.LossResult); !errors.Is(err, ErrRetracted) {
			return u, err
		}
		t.Policy.Params().Skip()
	}
}

// evaluate is the loss of an update, whose gradient is gathered. Where memory runs out on the way, the gradient is
// gathered anew.
func (t *Trainer) evaluate(n int, learned []Sample, worth []float64) (blame LossResult, err error) {
	begun := false
	try := func() (err error) {
		if begun {
			t.Policy.Params().Skip()
		}
		begun = true
		blame, err = t.objective(n).Evaluate(t.Policy, learned, worth)
		return err
	}
	if thrifty, ok := t.Policy.(Thrifty); ok {
		err = thrifty.Attempt(try)
	} else {
		err = try()
	}
	return blame, err
}

// pass is why an iteration moves nothing.
func (t *Trainer) pass(r *Report) string {
	if t.Pass == nil {
		return ""
	}
	return t.Pass(r.Scores, r.Advantages)
}

// shares are the samples of each update, in order.
func (t *Trainer) shares(n int) [][]int {
	var all [][]int
	switch {
	case n == 0 && t.Alone != nil && t.Alone():
		return make([][]int, t.Optim.Updates)
	case n == 0:
		return nil
	}
	if !t.Optim.Split || t.Optim.Updates == 1 {
		every := make([]int, n)
		for i := range every {
			every[i] = i
		}
		for range t.Optim.Updates {
			all = append(all, every)
		}
		return all
	}
	order := t.Order(t.Iteration, n)
	for u := range t.Optim.Updates {
		share := slices.Clone(order[u*n/t.Optim.Updates : (u+1)*n/t.Optim.Updates])
		slices.Sort(share)
		if len(share) > 0 {
			all = append(all, share)
		}
	}
	return all
}

// move takes one step of the optimiser.
func (t *Trainer) move(b LossResult) (Update, error) {
	params := t.Policy.Params()
	norm, err := params.Norm()
	u := Update{LossResult: b, Norm: norm, Rate: t.Optim.Rate(t.Updates - t.Since)}
	if err != nil {
		return u, err
	}
	if math.IsNaN(u.Norm) || math.IsInf(u.Norm, 0) {
		return u, kernels.NotFiniteError("the gradient's norm is %v", u.Norm)
	}
	if math.IsNaN(u.Loss) || math.IsInf(u.Loss, 0) {
		return u, kernels.NotFiniteError("the loss is %v", u.Loss)
	}
	params.Move(optim.ClipScale(u.Norm, t.Optim.GradClip), u.Rate)
	t.Updates++
	t.remember(true)
	return u, nil
}

// remember lets the memories follow that do so after each update, or the others, after an iteration.
func (t *Trainer) remember(updated bool) {
	for i := range t.Memories {
		m := &t.Memories[i]
		if m.EachUpdate != updated {
			continue
		}
		var due bool
		if m.Decay, due = m.Pace.Next(); due {
			t.Policy.Params().Follow(m.Weights, m.Decay)
		}
	}
}
