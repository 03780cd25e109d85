package console

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/darkroom-rl/darkroom/outside/plain"
)

// A Progress says how far a long work is: a bar with the time that is left on a terminal,
// elsewhere a plain line now and then. Its total may change on the way.
type Progress struct {
	w     io.Writer
	what  string
	bar   *progressbar.ProgressBar
	begun time.Time
	told  time.Time
	now   func() time.Time
}

// quietFor is how often plain lines are written.
const quietFor = 10 * time.Second

// NewProgress begins one.
func NewProgress(w io.Writer, what string) *Progress {
	p := &Progress{w: w, what: what, now: time.Now}
	p.begun = p.now()
	p.told = p.begun
	if terminal(w) {
		p.bar = progressbar.NewOptions(1, progressbar.OptionSetWriter(behind(w)), progressbar.OptionSetDescription(plain.Text(what)),
			progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionFullWidth())
	}
	return p
}

// Set says that done of all parts are done.
func (p *Progress) Set(done, all int) {
	if p.bar != nil {
		p.Within(done, all, 0)
		return
	}
	if now := p.now(); now.Sub(p.told) >= quietFor && done > 0 {
		p.told = now
		left := time.Duration(float64(now.Sub(p.begun)) / float64(done) * float64(all-done))
		fmt.Fprintf(p.w, "%s: %d of %d, %s left\n", p.what, done, all, left.Round(time.Second))
	}
}

// fine is how many steps of a bar a part is.
const fine = 1000

// Within says that done of all parts are done, and a share of the next: a bar moves on. Plain
// lines tell of whole parts alone.
func (p *Progress) Within(done, all int, share float64) {
	if p.bar == nil {
		return
	}
	p.bar.Describe(plain.Text(fmt.Sprintf("%s %d/%d", p.what, done, all)))
	p.bar.ChangeMax(all * fine)
	_ = p.bar.Set(done*fine + int(share*fine)) // a failure of the bar does not stop anything
}

// End takes the bar away.
func (p *Progress) End() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
