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
	from  int // parts that were done when it began
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
			progressbar.OptionSetPredictTime(false), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionFullWidth())
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
		fmt.Fprintf(p.w, "%s: %d of %d%s\n", p.what, done, all, p.left(done, all, 0))
	}
}

// From sets the parts that were done before, and the age of the next one: the time left is reckoned from there.
func (p *Progress) From(done int, ago time.Duration) { p.from, p.begun = done, p.now().Add(-ago) }

// left is the time that the rest takes at the rate since the beginning.
func (p *Progress) left(done, all int, share float64) string {
	did := float64(done-p.from) + share
	if did <= 0 || done >= all {
		return ""
	}
	d := time.Duration(float64(p.now().Sub(p.begun)) / did * (float64(all-done) - share))
	switch {
	case d >= 10*time.Hour:
		return fmt.Sprintf(", %.0f h left", d.Hours())
	case d >= time.Hour:
		return fmt.Sprintf(", %d h %d min left", int(d.Hours()), int(d.Minutes())%60)
	case d >= 10*time.Minute:
		return fmt.Sprintf(", %.0f min left", d.Minutes())
	}
	return fmt.Sprintf(", %s left", d.Round(time.Second))
}

// fine is how many steps of a bar a part is.
const fine = 1000

// Within says that done of all parts are done, and a share of the next: a bar moves on. Plain
// lines tell of whole parts alone.
func (p *Progress) Within(done, all int, share float64) {
	if p.bar == nil {
		return
	}
	p.bar.Describe(plain.Text(fmt.Sprintf("%s %d/%d%s", p.what, done, all, p.left(done, all, share))))
	p.bar.ChangeMax(all * fine)
	_ = p.bar.Set(done*fine + int(share*fine)) // a failure of the bar does not stop anything
}

// End takes the bar away.
func (p *Progress) End() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
