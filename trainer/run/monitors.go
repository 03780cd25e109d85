package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/darkroom-rl/darkroom/outside/child"
	"github.com/darkroom-rl/darkroom/outside/plain"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// A monitor watches a number of the ledger. The reference of falls_below is the number's first value.
//
// Where a monitor goes back to the best checkpoint, every evaluation that beats those before it by
// the monitor's held-out number leaves a regular checkpoint, which is not deleted while it is the best.
// An iteration in which a monitor takes the run back, or stops it, is never the best.

// monitors are the rules of [[monitor]], and their references.
type monitors struct {
	rules []experiment.Monitor
	watched
	best   map[string]best // the highest values so far, by the held-out number
	alerts alerts
}

// watched is the checkpoint's state of monitors, beside the best evaluations.
type watched struct {
	Stopped string             `json:"stopped,omitempty"` // why a monitor stopped the run
	First   map[string]float64 `json:"first,omitempty"`   // the first values, by the number that is watched
	Streaks map[string]int     `json:"streaks,omitempty"` // how often in a row rules were broken
	Alerted map[string]bool    `json:"told,omitempty"`    // rules that are broken, and were reported
}

func newMonitors(e *experiment.Experiment, folder string) monitors {
	return monitors{rules: e.Monitors, watched: watched{First: map[string]float64{}, Streaks: map[string]int{}}, best: map[string]best{}, alerts: alerts{run: e.Run.Name, folder: folder}}
}

// best is the highest value so far of a held-out number.
type best struct {
	Iteration int     `json:"iteration"`
	Value     float64 `json:"value"`
}

// due reports whether a monitor sends a message: of a warning once, until a value has kept its rule.
func (m *monitors) due(f fired) bool {
	if len(f.Run) == 0 && f.Webhook == "" && f.WebhookEnv == "" || f.Then == "warn" && m.Alerted[f.Rule()] {
		return false
	}
	m.Alerted = orEmpty(m.Alerted)
	m.Alerted[f.Rule()] = true
	return true
}

// check compares an iteration's line with every rule, and writes the broken ones into it.
func (m *monitors) check(line *ledger.Line) []fired {
	var all []fired
	for _, rule := range m.rules {
		v, ok := line.Value(rule.Watch)
		if !ok || math.IsNaN(v) {
			continue // not measured in this iteration
		}
		first, seen := m.First[rule.Watch]
		if !seen {
			m.First[rule.Watch], first = v, v
		}
		says := broken(rule, v, first)
		if says == "" {
			delete(m.Streaks, rule.Rule())
			delete(m.Alerted, rule.Rule())
			continue
		}
		if m.Streaks[rule.Rule()]++; m.Streaks[rule.Rule()] < rule.For {
			continue
		}
		delete(m.Streaks, rule.Rule())
		if rule.For > 1 {
			says += fmt.Sprintf(", %d times in a row", rule.For)
		}
		all = append(all, fired{rule, says})
	}
	for _, f := range all {
		line.Fired = append(line.Fired, f.says)
	}
	return all
}

// compareStart makes the measures of the start the first values of held-out numbers.
func (m *monitors) compareStart(start map[string]ledger.Measure) {
	for name, measure := range start {
		m.First["heldout."+name] = measure.Mean
	}
}

// better keeps the measures of an iteration's evaluation that beat all before it, and reports whether a monitor may
// go back to it.
func (m *monitors) better(iteration int, measures map[string]ledger.Measure) (any bool) {
	for _, rule := range m.rules {
		if rule.Then != "rollback" || rule.Rollback.To != "best" {
			continue
		}
		v, ok := (&ledger.Line{HeldOut: measures}).Value(rule.Rollback.By)
		if b, known := m.best[rule.Rollback.By]; !ok || math.IsNaN(v) || known && (v <= b.Value || b.Iteration == iteration) {
			continue
		}
		m.best[rule.Rollback.By] = best{iteration, v}
		any = true
	}
	return any
}

// target is the iteration that a rule goes back to: where nothing was measured yet, the last regular checkpoint.
func (m *monitors) target(rule experiment.Monitor, regular int) int {
	if b, ok := m.best[rule.Rollback.By]; ok && rule.Rollback.To == "best" {
		return b.Iteration
	}
	return regular
}

// targets are the checkpoints that rules go back to, which are not deleted.
func (m *monitors) targets(regular int) []int {
	var all []int
	for _, rule := range m.rules {
		if rule.Then == "rollback" {
			all = append(all, m.target(rule, regular))
		}
	}
	return all
}

// forgetHeldOut drops the values that later evaluations would be compared with.
func (m *monitors) forgetHeldOut() {
	clear(m.best)
	heldOut := func(name string, _ float64) bool { return strings.HasPrefix(name, "heldout.") }
	maps.DeleteFunc(m.First, heldOut)
	for _, rule := range m.rules {
		if heldOut(rule.Watch, 0) {
			delete(m.Streaks, rule.Rule())
		}
	}
}

// broken says how a value breaks a monitor's rule; "" if it does not.
func broken(m experiment.Monitor, v, first float64) string {
	switch {
	case m.FallsBelow != nil && v < bound(*m.FallsBelow, first):
		return fell(m.Watch, v, *m.FallsBelow, first)
	case m.IsBelow != nil && v < *m.IsBelow:
		return fmt.Sprintf("%s is %.4g, below %g", m.Watch, v, *m.IsBelow)
	case m.RisesAbove != nil && v > *m.RisesAbove:
		return fmt.Sprintf("%s rose to %.4g, above %g", m.Watch, v, *m.RisesAbove)
	}
	return ""
}

// bound is the value that falls_below = share allows: first - (1-share)|first|. For a first value of 10
// and a share of 0.9 it is 9, and for -10 it is -11.
func bound(share, first float64) float64 {
	if first >= 0 {
		return share * first
	}
	return (2 - share) * first
}

// fell says how a value broke falls_below.
func fell(watch string, v, share, first float64) string {
	if first >= 0 {
		return fmt.Sprintf("%s fell to %.4g, below %g of the %.4g that it began with", watch, v, share, first)
	}
	return fmt.Sprintf("%s fell to %.4g, below %.4g: it began with %.4g, and falls_below = %g allows a loss of %.4g", watch, v, bound(share, first), first, share,
		(share-1)*first)
}

// A monitor that fires calls a program or an address where [[monitor]] names one; one that stays broken calls once,
// until a value has kept its rule. Calls are made beside training, each with a time limit; one that fails is a warning,
// and never the run's end.

const (
	alertLimit = 20 * time.Second
	alertsMost = 4 // at once; further ones are dropped with a warning
)

// alerts are the messages of monitors that are being delivered, and the failures so far.
type alerts struct {
	run, folder string // of the messages
	deliveries  sync.WaitGroup
	lock        sync.Mutex
	active      int
	failed      []string
	limit       time.Duration // 0: alertLimit; tests wait less
}

// fired is a monitor whose rule was broken.
type fired struct {
	experiment.Monitor
	says string
}

// alert is a message in JSON. Slack's addresses read Text, and Discord's Content.
type alert struct {
	Run       string `json:"run"`
	Folder    string `json:"folder"`
	Iteration int    `json:"iteration"`
	Watch     string `json:"watch"`
	Sentence  string `json:"says"`
	Then      string `json:"then"`
	Text      string `json:"text"`
	Content   string `json:"content"`
}

// send delivers the message of a monitor that fired, beside training.
func (a *alerts) send(f fired, iteration int) {
	address := f.Webhook
	if f.WebhookEnv != "" {
		address = os.Getenv(f.WebhookEnv)
		if address == "" {
			a.fail(fmt.Sprintf("monitor %s: the environment has no %s, so no message was sent", f.Watch, f.WebhookEnv))
		}
	}
	if len(f.Run) == 0 && address == "" {
		return
	}
	text := fmt.Sprintf("%s, iteration %d: %s (then: %s)", a.run, iteration, f.says, f.Then)
	message, err := json.Marshal(alert{a.run, a.folder, iteration, f.Watch, f.says, f.Then, text, text})
	if err != nil {
		a.fail(err.Error())
		return
	}
	if len(f.Run) > 0 {
		a.deliver("program "+f.Run[0], func(ctx context.Context) error { return runProgram(ctx, f.Run, message) })
	}
	if address != "" {
		a.deliver("the address of monitor "+f.Watch, func(ctx context.Context) error { return post(ctx, address, message) })
	}
}

// deliver makes a call beside training.
func (a *alerts) deliver(to string, call func(ctx context.Context) error) {
	limit := a.limit
	if limit == 0 {
		limit = alertLimit
	}
	a.lock.Lock()
	full := a.active == alertsMost
	if !full {
		a.active++
	}
	a.lock.Unlock()
	if full {
		a.fail(fmt.Sprintf("%s was not told: %d calls are still under way", to, alertsMost))
		return
	}
	a.deliveries.Go(func() {
		ctx, stop := context.WithTimeout(context.Background(), limit)
		defer stop()
		err := call(ctx)
		if ctx.Err() != nil {
			err = fmt.Errorf("it took longer than %v", limit)
		}
		a.lock.Lock()
		a.active--
		a.lock.Unlock()
		if err != nil {
			a.fail(fmt.Sprintf("%s was not told that a monitor fired: %v", to, err))
		}
	})
}

func (a *alerts) fail(why string) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.failed = append(a.failed, why)
}

// warn reports the messages that have failed since it was called last.
func (a *alerts) warn(say say) {
	a.lock.Lock()
	failed := a.failed
	a.failed = nil
	a.lock.Unlock()
	for _, why := range failed {
		say("warning: %s", plain.Text(why))
	}
}

// wait waits for all messages.
func (a *alerts) wait(say say) {
	a.deliveries.Wait()
	a.warn(say)
}

// runProgram starts a program with a message on its standard input.
func runProgram(ctx context.Context, argv []string, message []byte) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(message), &firstBytes{to: &said, left: 300}
	cmd.Cancel, cmd.WaitDelay = func() error { return child.Kill(cmd) }, time.Second
	child.Apart(cmd)
	err := cmd.Run()
	if text := strings.TrimSpace(said.String()); err != nil && text != "" {
		return fmt.Errorf("%w: %s", err, text)
	}
	return err
}

// firstBytes keeps the beginning of its input.
type firstBytes struct {
	to   *bytes.Buffer
	left int
}

func (f *firstBytes) Write(p []byte) (int, error) {
	n := min(len(p), f.left)
	f.left -= n
	f.to.Write(p[:n])
	return len(p), nil
}

// post sends a message to an address. The address may be a secret: errors do not have it.
func post(ctx context.Context, address string, message []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(message))
	if err != nil {
		return errors.New("it is no address that can be posted to")
	}
	r.Header.Set("Content-Type", "application/json")
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	reply, err := client.Do(r)
	if err != nil {
		var where *url.Error
		if errors.As(err, &where) {
			err = where.Err
		}
		return err
	}
	defer reply.Body.Close()
	if reply.StatusCode < 200 || reply.StatusCode > 299 {
		text, _ := io.ReadAll(io.LimitReader(reply.Body, 200)) // it is only shown
		return fmt.Errorf("%s %s", reply.Status, strings.TrimSpace(string(text)))
	}
	return nil
}

// A monitor with then = "rollback" takes the run back to its last regular checkpoint, one that
// checkpoint.every or the start made, or with to = "best" to that of the best evaluation, which is
// regular then, too: weights, averages, histories, counters. From there
//
//	draws          are others: the keys of everything that is drawn get the attempt as a coordinate
//	learning rate  is multiplied with rollback.lr_scale, once more each time
//	most           rollbacks of one rule are made; the next one stops the run
//
// so that it neither repeats itself nor goes on for ever. Lines that were written since stay where
// they are: a line "rollback" after them, in the ledger and among the samples, says that they were
// abandoned. Then the checkpoint is written anew with the attempt, and those after it are deleted.
//
// Invariant (test): a run that is stopped at any moment around a rollback goes on with the same bytes: until the
// checkpoint is written anew, the older one leads to the same rollback.

// rollbackLine is a line of the ledger and of the samples.
type rollbackLine struct {
	Iteration int              `json:"iteration"` // that is gone back to
	Rollback  *ledger.Rollback `json:"rollback"`
}

// rollBack goes back. A monitor that has done so too often is returned: it stops the run.
func (l *loop) rollBack(f fired) (*fired, error) {
	next, rule := l.attempt, f.Rule()
	counts := map[string]int{rule: 1}
	for r, n := range next.Rollbacks {
		counts[r] += n
	}
	if counts[rule] > f.Rollback.Most {
		f.says = fmt.Sprintf("%s, after %d rollbacks", f.says, f.Rollback.Most)
		return l.stop(&f)
	}
	next.Attempt, next.LRScale, next.Rollbacks = next.Attempt+1, next.scale()*f.Rollback.LRScale, counts
	to, from := l.monitors.target(f.Monitor, l.checkpoints.regular), l.trainer.Iteration
	if err := l.folder.Forget(to); err != nil {
		return nil, err
	}
	c, err := l.folder.At(to)
	before := l.evaluation.measures
	if err == nil {
		_, err = l.load(c)
	}
	if err != nil {
		return nil, fmt.Errorf("going back to iteration %d: %w", to, err)
	}
	if l.evaluation.carry(before) {
		l.monitors.forgetHeldOut()
		l.monitors.compareStart(l.evaluation.Before)
	}
	l.attempt, l.checkpoints.regular = next, to
	line := rollbackLine{to, &ledger.Rollback{From: from, To: to, Attempt: next.Attempt, LRScale: next.LRScale, Why: f.says}}
	l.Logf("rollback: to iteration %d, attempt %d, learning rate times %.3g", to, next.Attempt+1, next.LRScale)
	return nil, errors.Join(l.record.ledger.Append(line), l.record.samples.Append(line), l.save())
}

// better reports whether the iteration's evaluation is the best so far of a monitor that may go back to it.
func (l *loop) better() bool {
	return l.evaluation.Measured == l.trainer.Iteration && l.monitors.better(l.trainer.Iteration, l.evaluation.Latest)
}
