package diagnosis

import (
	"math"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/sde"
)

// TestWrongSign: the formula agrees with drawn groups.
func TestWrongSign(t *testing.T) {
	for _, c := range []struct {
		group int
		noise float64
	}{{2, 0}, {4, 0}, {12, 0}, {12, 0.8}, {4, 0.5}} {
		const groups = 60000
		z := make([]float32, 2*groups*c.group)
		rng.New(7).With("groups").Normal(z, 0)
		wrong, signal := 0.0, math.Sqrt(1-c.noise*c.noise)
		for g := range groups {
			mean := 0.0
			seen := make([]float64, c.group)
			for i := range seen {
				at := 2 * (g*c.group + i)
				seen[i] = signal*float64(z[at]) + c.noise*float64(z[at+1])
				mean += seen[i] / float64(c.group)
			}
			for i, s := range seen {
				if (s > mean) != (z[2*(g*c.group+i)] > 0) {
					wrong++
				}
			}
		}
		got, want := WrongSign(c.group, 1, c.noise), wrong/float64(groups*c.group)
		if math.Abs(got-want) > 0.004 {
			t.Errorf("%+v: %.4f, drawn %.4f", c, got, want)
		}
	}
	if g := GroupFor(0.1, 1, 0); WrongSign(g, 1, 0) > 0.1 || WrongSign(g-1, 1, 0) <= 0.1 {
		t.Errorf("a group of %d", g)
	}
	if g := GroupFor(0.1, 1, 0.9); g != 0 {
		t.Errorf("a group of %d outvotes noise that is not of groups", g)
	}
}

// TestKeeps: Flow-SDE keeps the formula's share, and a large shift leaves early steps next to nothing.
func TestKeeps(t *testing.T) {
	const eta = 0.7
	for _, shift := range []float64{1, 12} {
		s := sde.Static(shift, 10)
		var rows []sde.Row
		for i := range s.Steps() {
			rows = append(rows, sde.FlowSDE(s, i, eta, 0))
		}
		for i, got := range Keeps(rows) {
			from, to := s.Sigmas[i], s.Sigmas[i+1]
			if i == 0 {
				continue // s = 1 is read as the next one
			}
			if want := math.Sqrt((from-to)*(1-from)/from) * (1/eta + eta/2); math.Abs(got-want) > 1e-9*want {
				t.Errorf("shift %v, step %d keeps %v, not %v", shift, i, got, want)
			}
		}
	}
}

// TestFindings: each cause is found by its numbers, and by them alone.
func TestFindings(t *testing.T) {
	number := func(x float64) *float64 { return &x }
	sound := func() Measured {
		return Measured{Group: 12, Groups: 6, Spread: 0.2, Noise: number(0.01), Floor: number(1e-5), Clip: 1e-3, Eps: 1e-8, Rate: 1e-4,
			Ratios: &Ratios{Moved: 2e-4, Outside: 0.05}, Element: number(1e-4), Keeps: []Keep{{0, 0.2, true}, {1, 1, true}}}
	}
	for want, plant := range map[string]func(*Measured){
		"":          func(*Measured) {},
		"dead":      func(m *Measured) { m.Dead = 4 },
		"noise":     func(m *Measured) { m.Noise = number(0.19) },
		"group":     func(m *Measured) { m.Group = 3 },
		"vanishing": func(m *Measured) { m.Keeps = []Keep{{0, 0.02, true}, {1, 0.04, true}, {2, 1, false}} },
		"clip":      func(m *Measured) { m.Floor = number(5e-3); m.Ratios = nil },
		"swallowed": func(m *Measured) { m.Ratios.Moved = 1e-6 },
	} {
		m := sound()
		plant(&m)
		found := m.Findings()
		if want == "" && len(found) > 0 || want != "" && (len(found) != 1 || found[0].Cause != want || found[0].Remedy == "") {
			t.Errorf("%q: %v", want, found)
		}
		if len(m.Lines()) < 3 {
			t.Errorf("%q: %q", want, m.Lines())
		}
	}
	m := sound()
	m.Element = number(2e-9)
	if found := m.Findings(); len(found) != 1 || found[0].Cause != "vanishing" {
		t.Errorf("a gradient below eps: %v", found)
	}
	m = sound()
	m.Ratios.Outside = 0.9
	if found := m.Findings(); len(found) != 1 || found[0].Cause != "clip" {
		t.Errorf("everything clipped: %v", found)
	}
}

// TestAdvice: the advice can be followed: groups of pairs have no mean, a loss without advantages no dead group, and
// conversations no sampler.
func TestAdvice(t *testing.T) {
	number := func(x float64) *float64 { return &x }
	for _, c := range []struct {
		name string
		m    Measured
		want string // in the one finding's remedy; "": no finding
	}{
		{"a group of three", Measured{Group: 3, Groups: 6, Spread: 0.2}, "rollout.group = "},
		{"a group of four", Measured{Group: 4, Groups: 6, Spread: 0.2}, ""},
		{"pairs", Measured{Group: 2, Groups: 6, Spread: 0.2, Apart: true}, ""},
		{"pairs of a noisy judge", Measured{Group: 2, Groups: 6, Spread: 0.2, Apart: true, Noise: number(0.19)}, ""},
		{"a teacher", Measured{Group: 2, Groups: 6, Dead: 6, Free: true}, ""},
		{"dead pictures", Measured{Group: 8, Groups: 6, Dead: 6}, "sampler.noise"},
		{"dead conversations", Measured{Group: 8, Groups: 6, Dead: 6, Conversations: true}, "episode.sampling.temperature"},
		{"conversations of a noisy judge", Measured{Group: 8, Groups: 6, Spread: 0.2, Noise: number(0.19), Conversations: true}, "episode.sampling.temperature"},
	} {
		found := c.m.Findings()
		if c.want == "" && len(found) > 0 || c.want != "" && (len(found) != 1 || !strings.Contains(found[0].Remedy, c.want)) {
			t.Errorf("%s: %v", c.name, found)
		}
		for _, f := range found {
			if c.m.Conversations && strings.Contains(f.String(), "sampler.") {
				t.Errorf("%s: an episode has no sampler: %s", c.name, f)
			}
		}
	}
}

// TestLopsided: one reward of several that decides alone is named with the others; of balanced ones nothing is said.
func TestLopsided(t *testing.T) {
	parts := func(jpeg, ocr float64) Measured {
		return Measured{Group: 12, Groups: 4, Spread: 1, Parts: []Part{{"jpeg", jpeg}, {"ocr", ocr}}}
	}
	causes := func(m Measured) (all []string) {
		for _, f := range m.Findings() {
			all = append(all, f.Cause)
		}
		return all
	}
	m := parts(2.7, 0.072)
	if got := m.lopsided(); got == nil || !strings.HasPrefix(got.Text, "99.9 % of the total's variance inside groups is reward jpeg") || !strings.HasSuffix(got.Text, "differ by 2.7 of it, and by 0.072 of ocr") {
		t.Errorf("%+v", got)
	}
	if got := causes(m); len(got) != 1 || got[0] != "lopsided" {
		t.Errorf("found %v", got)
	}
	one, apart, silent := parts(1, 0), parts(1, 0.001), parts(0, 0)
	one.Parts, apart.Apart = one.Parts[:1], true
	for _, m := range []Measured{parts(1, 0.5), parts(0.3, 0.9), one, apart, silent} {
		if got := causes(m); len(got) > 0 {
			t.Errorf("%+v: found %v", m, got)
		}
	}
}
