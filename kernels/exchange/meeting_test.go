package exchange

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// gathering is a wire without Trade.
type gathering struct{ Wire }

// TestTrade: piece s of rank r becomes piece r of rank s, over a wire that trades and over one that gathers; and a
// piece of each rank comes to each.
func TestTrade(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 2))
	for _, ranks := range []int{2, 3, 4} {
		for _, trades := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d ranks, %v", ranks, trades), func(t *testing.T) {
				const each = 5
				var backends []kernels.Backend
				var given [][]float32
				for range ranks {
					backends, given = append(backends, ref.Backend{}), append(given, numbers(r, ranks*each))
				}
				m := &Meeting{Ranks: backends, Wire: &Host{Ranks: backends}}
				if !trades {
					m.Wire = gathering{m.Wire}
				}
				traded, spread := make([]kernels.Span, ranks), make([]kernels.Span, ranks)
				for s := range ranks {
					traded[s], spread[s] = span(make([]float32, ranks*each)), span(make([]float32, ranks*ranks*each))
				}
				m.Team = TeamOf(0, backends...)
				err := m.Team.Each(ranks, func(s int) error {
					return errors.Join(m.Trade(s, span(given[s]), traded[s]), m.Spread(s, span(given[s]), spread[s]))
				})
				if err != nil {
					t.Fatal(err)
				}
				for s := range ranks {
					for from := range ranks {
						if got := traded[s].Slice(from*each, (from+1)*each).F32(); !equal(got, given[from][s*each:(s+1)*each]) {
							t.Errorf("rank %d has %v of rank %d", s, got, from)
						}
						if got := spread[s].Slice(from*ranks*each, (from+1)*ranks*each).F32(); !equal(got, given[from]) {
							t.Errorf("rank %d has %v of rank %d, spread", s, got, from)
						}
					}
				}
			})
		}
	}
}

// busy is a backend that counts the goroutines that use it.
type busy struct {
	ref.Backend
	users, most atomic.Int32
}

func (b *busy) use() {
	n := b.users.Add(1)
	b.most.Store(max(b.most.Load(), n))
	time.Sleep(time.Millisecond)
	b.users.Add(-1)
}

func (b *busy) Upload(dst kernels.Span, src []byte) {
	b.use()
	b.Backend.Upload(dst, src)
}

// TestSharedBackend: of ranks on one backend one at a time is at work, and the others wait for it, or work
// while it waits for all.
func TestSharedBackend(t *testing.T) {
	on := []*busy{{}, {}}
	backends := []kernels.Backend{on[0], on[0], on[1], on[1]}
	m := &Meeting{Ranks: backends, Wire: &Host{Ranks: backends}, Team: TeamOf(0, backends...)}
	err := soon(t, func() error {
		return m.Team.Each(len(backends), func(r int) error {
			for range 3 {
				backends[r].(*busy).use()
				if err := m.Trade(r, span(make([]float32, 4)), span(make([]float32, 4))); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range on {
		if b.most.Load() != 1 {
			t.Errorf("%d goroutines used backend %d at a time", b.most.Load(), i)
		}
	}
}

// TestSharedBackendHangs: a rank that hangs while it has the turn of its backend is named after the limit, though no
// other has that turn again.
func TestSharedBackendHangs(t *testing.T) {
	on := ref.Backend{}
	backends := []kernels.Backend{on, on}
	m := &Meeting{Ranks: backends, Wire: &Host{Ranks: backends}, Limit: 50 * time.Millisecond, Team: TeamOf(50*time.Millisecond, backends...)}
	team, stopped := m.Team, atomic.Bool{}
	team.Stop = func() { stopped.Store(true) }
	forever, waits := make(chan struct{}), make(chan struct{})
	defer close(forever)
	err := soon(t, func() error {
		return team.Each(2, func(r int) error {
			if r == 0 {
				close(waits)
				return m.Trade(r, span(make([]float32, 4)), span(make([]float32, 4)))
			}
			m.Team.rests(r, func() error { <-waits; return nil })
			<-forever
			return nil
		})
	})
	f := new(Failure)
	if !errors.As(err, &f) || f.Rank != 1 || !slices.Equal(f.Left, []int{0, 1}) || !strings.Contains(err.Error(), "it has not come within 50ms") || !stopped.Load() {
		t.Errorf("stopped: %v, %v", stopped.Load(), err)
	}
}

// TestMeetingFails: a rank that does not come is named; where one fails, the others are let go at once, until the next
// beginning; different passes of ranks are an error.
func TestMeetingFails(t *testing.T) {
	backends := []kernels.Backend{ref.Backend{}, ref.Backend{}}
	piece := func() kernels.Span { return span(make([]float32, 4)) }
	m := &Meeting{Ranks: backends, Wire: &Host{Ranks: backends}, Limit: 50 * time.Millisecond}
	f := new(Failure)
	if err := m.Trade(0, piece(), piece()); !errors.As(err, &f) || f.Rank != 1 || !strings.Contains(err.Error(), "it has not come within 50ms") {
		t.Errorf("a rank that does not come: %v", err)
	}
	m.Limit = 0
	m.Begin()
	lost := errors.New("no memory left")
	ended := make(chan error, 1)
	go func() { ended <- m.Trade(0, piece(), piece()) }()
	m.Abort(lost)
	if err := soon(t, func() error { return <-ended }); !errors.Is(err, lost) {
		t.Errorf("another rank failed: %v", err)
	}
	if err := m.Spread(1, piece(), piece()); !errors.Is(err, lost) {
		t.Errorf("a rank that comes later: %v", err)
	}
	m.Begin()
	both := func(s int) error { return m.Trade(s, piece(), piece()) }
	m.Team = TeamOf(0, backends...)
	if err := soon(t, func() error { return m.Team.Each(2, both) }); err != nil {
		t.Errorf("begun anew: %v", err)
	}
	err := soon(t, func() error {
		team := m.Team
		team.Stop = func() { m.Abort(errors.New("another rank has failed")) }
		return team.Each(2, func(s int) error {
			if s == 0 {
				return m.Trade(s, piece(), piece())
			}
			return m.Spread(s, piece(), piece())
		})
	})
	if err == nil || !strings.Contains(err.Error(), "ranks compute different passes") {
		t.Errorf("different passes: %v", err)
	}
	for name, x := range map[string]struct {
		from, into []kernels.Span
		says       string
	}{
		"ranks":   {[]kernels.Span{piece()}, []kernels.Span{piece()}, "among 2 ranks"},
		"lengths": {[]kernels.Span{piece(), piece()}, []kernels.Span{piece(), piece().Slice(0, 2)}, "rank 1 gives 4 numbers and takes 2"},
		"pieces":  {[]kernels.Span{piece().Slice(0, 3), piece().Slice(0, 3)}, []kernels.Span{piece().Slice(0, 3), piece().Slice(0, 3)}, "gives 3 numbers to 2 ranks"},
	} {
		if err := (&Host{Ranks: backends}).Trade(x.from, x.into); err == nil || !strings.Contains(err.Error(), x.says) {
			t.Errorf("trading, %s: %v; want %q in it", name, err, x.says)
		}
	}
}
