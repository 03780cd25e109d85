package run

import (
	"time"

	"github.com/darkroom-rl/darkroom/record/ledger"
)

// A run may be given seconds in place of iterations: so methods are compared after equal times.
// Evaluations do not count. It ends after the iteration in which its time is up, as after the last
// one of its file: with an evaluation, and a checkpoint.

// A Part is a part of an iteration: roll, score, train or evaluate. Some come several times.
type Part struct {
	Name         string
	Began, Ended time.Time
}

// clock measures the parts of iterations, and the time that a run has used.
type clock struct {
	limit   float64            // seconds; 0: none
	report  func(Part)         // nil: nothing is called
	began   time.Time          // the iteration
	ended   time.Time          // its last part
	seconds map[string]float64 // of its parts; nil: before the first iteration
	spent   float64            // seconds of all iterations, without evaluations
	over    bool               // the time is up
}

// outOfTime is a result's reason.
const outOfTime = "its time was up"

// start begins an iteration.
func (c *clock) start() {
	c.began, c.seconds = time.Now(), map[string]float64{}
	c.ended = c.began
}

// part measures a part until the function that it returns is called.
func (c *clock) part(name string) (done func()) {
	began := time.Now()
	return func() { c.took(name, began) }
}

// took ends a part.
func (c *clock) took(name string, began time.Time) {
	if c.seconds == nil {
		return
	}
	p := Part{name, began, time.Now()}
	c.seconds[name] += p.Ended.Sub(began).Seconds()
	c.ended = p.Ended
	if c.report != nil {
		c.report(p)
	}
}

// trained ends the part that is neither roll nor score.
func (c *clock) trained() {
	c.seconds["train"] = time.Since(c.began).Seconds() - c.seconds["roll"] - c.seconds["score"]
	if c.report != nil {
		c.report(Part{"train", c.ended, time.Now()})
	}
}

// spend adds seconds of an iteration.
func (c *clock) spend(seconds float64) {
	c.spent += seconds
	c.over = c.limit > 0 && c.spent >= c.limit
}

// resume adds the seconds of the iterations that a checkpoint has, and of those that rollbacks abandoned before it.
func (c *clock) resume(timing string, iteration, attempt int) (err error) {
	c.spent, err = ledger.Spent(timing, iteration, attempt)
	c.spend(0)
	return err
}
