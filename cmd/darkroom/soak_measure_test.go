//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"runtime/metrics"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/outside/spent"
)

// A usage is this process's resources at a moment.
type usage struct {
	Seconds    float64 `json:"seconds"` // since the soak began
	Turns      int     `json:"turns"`
	Resident   float64 `json:"resident_mib"`
	Live       float64 `json:"live_mib"` // of Go's heap, after its last collection
	Files      int     `json:"files"`    // open ones: sockets and pipes too
	Goroutines int     `json:"goroutines"`
	Threads    int     `json:"threads"`
	CPU        float64 `json:"cpu_seconds"`
}

// A steady number must not grow: by least the second half of a soak may always lie above the first.
type steady struct {
	name  string
	least float64
	of    func(usage) float64
}

var measures = []steady{
	{"resident MiB", 4, func(u usage) float64 { return u.Resident }},
	{"live MiB of Go's heap", 1, func(u usage) float64 { return u.Live }},
	{"open files", 1, func(u usage) float64 { return float64(u.Files) }},
	{"goroutines", 1, func(u usage) float64 { return float64(u.Goroutines) }},
}

// values are a measure's of a whole soak.
func (m steady) values(all []usage) (of []float64) {
	for _, u := range all {
		of = append(of, m.of(u))
	}
	return of
}

// usageNow reads it from the system.
func usageNow(t testing.TB) (u usage) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	var pages [2]int
	if err == nil {
		_, err = fmt.Sscan(string(text), &pages[0], &pages[1])
	}
	if err != nil {
		t.Errorf("what is resident: %v", err)
	}
	u.Resident = float64(pages[1]*os.Getpagesize()) / (1 << 20)
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	u.Live = float64(live[0].Value.Uint64()) / (1 << 20)
	u.Files, u.Threads = len(entries(t, "/proc/self/fd")), len(entries(t, "/proc/self/task"))
	u.Goroutines, u.CPU = runtime.NumGoroutine(), spent.CPU().Seconds()
	return u
}

// entries are the names in a folder.
func entries(t testing.TB, dir string) (names []string) {
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Errorf("%s: %v", dir, err)
	}
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}

// measure reads it again and again until stop, and writes each to a file at once.
func (s *soak) measure(stop <-chan bool, every time.Duration, file string) (all []usage) {
	f, err := os.Create(file)
	if err != nil {
		s.Error(err)
		return nil
	}
	defer f.Close()
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		select {
		case <-stop:
			return all
		case <-ticks.C:
		}
		u := usageNow(s)
		s.mu.Lock()
		u.Turns = s.turns
		s.mu.Unlock()
		u.Seconds, u.CPU = time.Since(s.began).Seconds(), u.CPU-s.spent.Seconds()
		all = append(all, u)
		text, err := json.Marshal(u)
		if err == nil {
			_, err = f.Write(append(text, '\n'))
		}
		if err != nil {
			s.Error(err)
		}
	}
}

// goroutines are the stacks of all.
func goroutines() []string {
	var text strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&text, 2) // a builder takes all
	return strings.Split(strings.TrimSpace(text.String()), "\n\n")
}

// isLostByClient reports whether a goroutine is one that nats.go 1.55 loses: a put of its object store begins it, and
// where the put ends first, it reads its channel when that is already nil, and waits for ever. 15 of 3,000 small puts
// on two cores lose one.
func isLostByClient(stack string) bool {
	return strings.Contains(stack, "chan receive (nil chan)") && strings.Contains(stack, "resetPendingAcksOnReconnect")
}

// settled compares the resources at the end with those before the beginning.
func (s *soak) settled(before usage) {
	var after usage
	for range 300 {
		http.DefaultClient.CloseIdleConnections()
		runtime.GC()
		if after = usageNow(s); after.Goroutines <= before.Goroutines && after.Files <= before.Files {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	all := goroutines()
	left := slices.DeleteFunc(slices.Clone(all), isLostByClient)
	lost := len(all) - len(left)
	s.Logf("before: %+v; after: %+v, %d of the goroutines lost by the client of NATS", before, after, lost)
	if after.Goroutines-lost > before.Goroutines {
		s.Errorf("%d goroutines were there before, and %d after:\n%s", before.Goroutines, after.Goroutines, strings.Join(left, "\n\n"))
	}
	if after.Files > before.Files {
		var left []string
		for _, name := range entries(s, "/proc/self/fd") {
			to, _ := os.Readlink("/proc/self/fd/" + name) // gone is as good
			left = append(left, to)
		}
		s.Errorf("%d files were open before, and %d after: %q", before.Files, after.Files, left)
	}
}

// warm is the share of a soak before which caches fill and the heap finds its size.
const warm = 0.1

// halves are those of the warm measurements.
func halves(of []float64) (first, second []float64) {
	of = of[int(warm*float64(len(of))):]
	return of[:len(of)/2], of[len(of)/2:]
}

// grown reports whether the second half lies above the first by more than noise, which is two of the first half's
// deviations, and by more than the least that counts. An even rise is 3.5 deviations from half to half.
func grown(of []float64, least float64) bool {
	first, second := halves(of)
	if len(first) == 0 {
		return true // nothing shows that it did not
	}
	return mean(second)-mean(first) > max(least, 2*deviation(first))
}

func mean(of []float64) (sum float64) {
	for _, x := range of {
		sum += x
	}
	return sum / float64(len(of))
}

func deviation(of []float64) float64 {
	m, sum := mean(of), 0.0
	for _, x := range of {
		sum += (x - m) * (x - m)
	}
	return math.Sqrt(sum / float64(len(of)))
}

// TestGrown: a leak is found once it rises above noise. Noise, the filling of caches at first, and passing peaks do
// not count as leaks.
func TestGrown(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, c := range map[string]struct {
		of   func(i int) float64
		want bool
	}{
		"flat":                {func(int) float64 { return 300 }, false},
		"noise":               {func(int) float64 { return 300 + 20*r.NormFloat64() }, false},
		"warms":               {func(i int) float64 { return 300 - 200*math.Exp(-float64(i)/8) }, false},
		"comes and goes":      {func(i int) float64 { return 300 + float64(i%12) }, false},
		"one more at the end": {func(i int) float64 { return 30 + float64(i/239) }, false},
		"leaks":               {func(i int) float64 { return 300 + float64(i)/10 }, true},
		"leaks in noise":      {func(i int) float64 { return 300 + float64(i)/2 + 15*r.NormFloat64() }, true},
		"a file a turn":       {func(i int) float64 { return 30 + float64(i/10) }, true},
	} {
		var of []float64
		for i := range 240 {
			of = append(of, c.of(i))
		}
		if got := grown(of, 1); got != c.want {
			t.Errorf("%s: grown is %v", name, got)
		}
	}
	if !grown(nil, 1) {
		t.Error("nothing measured is no proof")
	}
}

// drawUsage is a drawing of all measures over minutes, one below the other.
func drawUsage(all []usage) string {
	const wide, high, left, gap = 640.0, 90.0, 60.0, 34.0
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="12">`+"\n", wide, float64(len(measures))*(high+gap)+gap)
	if len(all) == 0 {
		return b.String() + "</svg>\n"
	}
	last := all[len(all)-1].Seconds
	for i, m := range measures {
		top, of := gap+float64(i)*(high+gap), m.values(all)
		scale := max(1, 1.1*slices.Max(of))
		fmt.Fprintf(&b, `<text x="%g" y="%g">%s</text><text x="%g" y="%g" text-anchor="end">%.0f</text><text x="%g" y="%g" text-anchor="end">0</text>`+"\n",
			left, top-6, m.name, left-6, top+10, scale, left-6, top+high)
		fmt.Fprintf(&b, `<path d="M%g %gV%gH%g" fill="none" stroke="#999"/><polyline fill="none" stroke="#0072b2" points="`, left, top, top+high, wide)
		for k, y := range of {
			fmt.Fprintf(&b, "%.0f,%.1f ", left+all[k].Seconds/last*(wide-left), top+high*(1-y/scale))
		}
		b.WriteString(`"/>` + "\n")
	}
	fmt.Fprintf(&b, `<text x="%g" y="%g">0</text><text x="%g" y="%g" text-anchor="end">%.0f minutes</text></svg>`+"\n",
		left, float64(len(measures))*(high+gap)+16, wide, float64(len(measures))*(high+gap)+16, last/60)
	return b.String()
}
