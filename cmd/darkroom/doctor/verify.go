package doctor

import (
	"errors"
	"fmt"
	"io"

	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/device"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/kerneltest"
)

// A card is a CUDA device and its verification.
type card struct {
	Kind     bool                 `json:"kind_verified"` // on a card of the same compute capability
	Verified *device.Verification `json:"verified,omitempty"`
}

// examineCards are the cards of a report, with the verifications that this machine keeps.
func examineCards(r cuda.Report) (all []card) {
	for _, d := range r.Devices {
		c := card{Kind: d.Verified()}
		if v, ok := device.Verified(d, r.Driver); ok {
			c.Verified = &v
		}
		all = append(all, c)
	}
	return all
}

// verify runs the suite on each card, and keeps the results.
func (m *report) verify(progress io.Writer) error {
	if m.CUDA.Missing != "" {
		return fmt.Errorf("there is no card to verify: %s", m.CUDA.Missing)
	}
	cases := kerneltest.Cases()
	for i, d := range m.CUDA.Devices {
		bar := console.NewProgress(progress, fmt.Sprintf("cuda:%d", d.Index))
		v, err := device.Verify(d, m.CUDA.Driver, cases, bar.Set)
		bar.End()
		if err != nil {
			return err
		}
		if _, err := v.Keep(); err != nil {
			return fmt.Errorf("the verification of cuda:%d cannot be kept: %w", d.Index, err)
		}
		m.Cards[i].Verified = &v
	}
	return nil
}

// failed is an error where a card failed.
func (m *report) failed() error {
	var all []error
	for i, c := range m.Cards {
		if !c.Verified.Passed() {
			all = append(all, fmt.Errorf("cuda:%d failed the conformance suite: --device auto does not take it", m.CUDA.Devices[i].Index))
		}
	}
	return errors.Join(all...)
}

// mostFailures is how many failures of a mode are shown; --json has all.
const mostFailures = 5

// lines are a card's verification for people.
func (c card) lines() (lines []string) {
	switch {
	case c.Verified == nil && c.Kind:
		return []string{"cards of this compute capability have been verified; darkroom doctor --verify asks this one"}
	case c.Verified == nil:
		return []string{"not verified, so --device auto does not take it; darkroom doctor --verify runs the suite (a minute or two)"}
	}
	for _, m := range c.Verified.Modes {
		if m.Missing != "" {
			lines = append(lines, m.Name+": left out: "+m.Missing)
			continue
		}
		lines = append(lines, fmt.Sprintf("%s: %d of %d cases passed in %.0f s, %s", m.Name, m.Cases-min(len(m.Failed), m.Cases), m.Cases, m.Seconds,
			c.Verified.At.Format("2006-01-02")))
		for _, f := range m.Failed[:min(len(m.Failed), mostFailures)] {
			lines = append(lines, "  "+f)
		}
		if more := len(m.Failed) - mostFailures; more > 0 {
			lines = append(lines, fmt.Sprintf("  and %d more (--json)", more))
		}
	}
	return lines
}
