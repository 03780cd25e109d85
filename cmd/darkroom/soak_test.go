//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/metrics"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/outside/spent"
	"github.com/darkroom-rl/darkroom/view/report"
)

// answering is a reward program: it reads a request a line, and scores each item of it.
const answering = `
[[reward]]
name = "exec"
weight = 0.1
command = ["sh", "-c", '''while read -r l; do s=; while [ "$l" != "${l#*\"prompt\":}" ]; do l=${l#*\"prompt\":}; s=$s,0.5; done; echo "{\"scores\": [${s#,}]}"; done''']
`

const (
	soakShare = 0.1             // of a processor, which the soak takes on average
	soakPause = 5 * time.Second // of the reward of its long run

	leastTurns = 10 // each of which has peaks of its own
)

var (
	soaking = flag.Duration("soak", 0, "how long TestSoak goes on")
	soakOut = flag.String("soak-out", "", "a folder for what TestSoak measures")
)

// TestSoak: in one process a run goes on and on, whose reward is slow; a reward and a page are served; and beside
// them runs of pictures, clips, episodes and a fleet begin and end in turn. Memory, open files and goroutines of the
// second half are those of the first, and nothing is left at the end. -soak says for how long (make soak);
// measurements are written to the folder -soak-out.
func TestSoak(t *testing.T) {
	long, out := *soaking, *soakOut
	if long == 0 {
		t.Skip("takes hours; -soak says how long, as 2h (make soak)")
	}
	if out == "" {
		out = t.TempDir()
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		t.Fatal(err)
	}
	s := &soak{T: t, dir: t.TempDir()}
	t.Setenv("XDG_CACHE_HOME", filepath.Join(s.dir, "cache"))
	s.prepare()
	before := usageNow(t)
	s.began, s.spent = time.Now(), spent.CPU()
	ctx, end := context.WithCancel(context.Background())
	var served, trained sync.WaitGroup
	reward := s.serves(ctx, &served, `answers at (http://\S+)`, exits.Done, "score", "--reward", "jpeg", "--serve", "localhost:0")
	page := s.serves(ctx, &served, `watching at (http://\S+)`, exits.Done, "watch", filepath.Join(s.dir, "runs"), "--addr", "127.0.0.1:0")
	slow := slowly(t, reward)
	training, save := context.WithCancel(ctx)
	s.serves(training, &trained, `long: ([\d,]+) iterations`, exits.Interrupted, "train", filepath.Join(s.dir, "pictures", "killed.toml"),
		"--out", filepath.Join(s.dir, "runs", "long"), "--set", "run.name=long", "--set", "run.iterations=1000000", "--set", "evaluate.every=0", "--set", "evaluate.prompts=''",
		"--set", fmt.Sprintf("reward=[{name='http', url='%s'}]", slow.URL))
	measured := make(chan []usage)
	stop := make(chan bool)
	go func() { measured <- s.measure(stop, long/240, filepath.Join(out, "soak.jsonl")) }()
	for time.Since(s.began) < long && !t.Failed() {
		s.turn(page)
	}
	close(stop)
	all := <-measured
	if left, err := os.ReadDir(filepath.Join(s.dir, "runs")); err != nil || len(left) != 1 {
		t.Errorf("%v beside the run that goes on: %v", left, err)
	}
	save()
	trained.Wait()
	slow.Close()
	end()
	served.Wait()
	s.settled(before)
	if err := os.WriteFile(filepath.Join(out, "soak.svg"), []byte(drawUsage(all)), 0o644); err != nil {
		t.Error(err)
	}
	if len(all) < 4 {
		t.Fatalf("measured %d times: too short a soak", len(all))
	}
	if s.turns < leastTurns {
		t.Errorf("%d turns are too few to judge: %v of soak are too short here", s.turns, long)
	}
	for _, m := range measures {
		of := m.values(all)
		first, second := halves(of)
		t.Logf("%s: %.1f in the first half (deviation %.1f), %.1f in the second (%.1f), %.1f at most", m.name, mean(first), deviation(first), mean(second), deviation(second), slices.Max(of))
		if s.turns >= leastTurns && grown(of, m.least) {
			t.Errorf("%s grow", m.name)
		}
	}
	t.Logf("%v, %d turns, %v of a processor; %s has the lines and the drawing", time.Since(s.began).Round(time.Second), s.turns, (spent.CPU() - s.spent).Round(time.Second), out)
}

// A soak goes on for hours.
type soak struct {
	*testing.T
	dir   string
	began time.Time
	spent time.Duration // by the process before it began
	mu    sync.Mutex
	turns int // that are over
}

// prepare writes the experiments and their models: pictures with a program as reward, episodes, clips.
func (s *soak) prepare() {
	for _, kind := range modalities {
		dir := filepath.Join(s.dir, kind)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			s.Fatal(err)
		}
		prepare(s.T, dir, kind, 2)
		for _, name := range namedBy[kind] { // this process has one working folder
			s.change(kind, strconv.Quote(name), strconv.Quote(filepath.Join(dir, name)))
		}
	}
	s.change("pictures", "[optim]", answering+"[optim]")
	s.change("episodes", "group = 24", "group = 8")
	if err := os.Mkdir(filepath.Join(s.dir, "runs"), 0o755); err != nil {
		s.Fatal(err)
	}
}

// namedBy are the files beside an experiment that it names.
var namedBy = map[string][]string{
	"pictures": {"denoiser", "scenes.txt", "p.txt"}, "episodes": {"speaker", "p.jsonl"}, "clips": {"scenes.txt", "p.txt"},
}

// change replaces a text of an experiment, which must have it.
func (s *soak) change(kind, from, to string) {
	file := filepath.Join(s.dir, kind, "killed.toml")
	text, err := os.ReadFile(file)
	if err == nil && !strings.Contains(string(text), from) {
		err = fmt.Errorf("%s does not say %q", file, from)
	}
	if err == nil {
		err = os.WriteFile(file, []byte(strings.Replace(string(text), from, to, 1)), 0o644)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// turn is a run of each kind, begun anew, and a browser's requests meanwhile.
func (s *soak) turn(page string) {
	for _, kind := range modalities {
		s.train(kind)
		s.rest()
	}
	s.fleet()
	s.rest()
	s.browse(page)
	for _, kind := range append(slices.Clone(modalities), "fleet") {
		if err := os.RemoveAll(s.run(kind)); err != nil {
			s.Error(err)
		}
	}
	s.mu.Lock()
	s.turns++
	s.mu.Unlock()
}

// run is the folder of this turn's run of a kind: another one each turn, as users have them.
func (s *soak) run(kind string) string {
	return filepath.Join(s.dir, "runs", fmt.Sprint(kind, s.turns))
}

// train does a run and goes on with it for one iteration more.
func (s *soak) train(kind string) {
	file := filepath.Join(s.dir, kind, "killed.toml")
	s.ends("train", file, "--out", s.run(kind))
	s.ends("train", file, "--out", s.run(kind), "--resume", "--set", "run.iterations=3")
}

// fleet is a run whose pictures a worker rolls, trainer and worker in this process.
func (s *soak) fleet() {
	var both sync.WaitGroup
	both.Go(func() {
		s.ends("train", filepath.Join(s.dir, "pictures", "killed.toml"), "--out", s.run("fleet"), "--listen", "127.0.0.1:0", "--leave-rolls", "--audit", "0.2")
	})
	join := filepath.Join(s.run("fleet"), "join")
	if await(join) {
		s.ends("worker", "--join", join, "--name", "steady")
	}
	both.Wait()
}

// ends does a command of the program to its end.
func (s *soak) ends(args ...string) {
	var log aLog
	if code := execute(context.Background(), args, strings.NewReader(""), io.Discard, &log); code != exits.Done {
		s.Errorf("%v: exit code %d\n%s", args, code, log.String())
	}
}

// rest waits until the soak has taken no more than its share.
func (s *soak) rest() {
	for float64(spent.CPU()-s.spent) > soakShare*float64(time.Since(s.began)) {
		time.Sleep(100 * time.Millisecond)
	}
}

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

// The servers of a soak, and a browser's requests to them.

// serves does a command until ctx ends, which must end with a code. It returns the match of a pattern in its first
// words.
func (s *soak) serves(ctx context.Context, all *sync.WaitGroup, pattern string, code int, args ...string) string {
	var log aLog
	over := make(chan bool)
	all.Go(func() {
		defer close(over)
		if got := execute(ctx, args, strings.NewReader(""), &log, &log); got != code {
			s.Errorf("%v: exit code %d\n%s", args, got, log.String())
		}
	})
	for range 600 {
		if found := regexp.MustCompile(pattern).FindStringSubmatch(log.String()); found != nil {
			return found[1]
		}
		select {
		case <-over:
			s.FailNow()
		case <-time.After(100 * time.Millisecond):
		}
	}
	s.Fatalf("%v does not say %q:\n%s", args, pattern, log.String())
	return ""
}

// browse reads the page, its numbers and its summaries as a browser does, and each run of this turn.
func (s *soak) browse(page string) {
	ctx, leave := context.WithTimeout(context.Background(), 5*time.Second) // events go on until the browser leaves
	defer leave()
	events := s.fetch(ctx, page+"/events")
	for _, path := range []string{"/", "/app.js", "/app.css", "/metrics"} {
		if s.fetch(context.Background(), page+path) == "" {
			s.Errorf("%s is empty", path)
		}
	}
	read := 0
	for line := range strings.Lines(events) {
		var news struct{ Runs []report.Summary }
		if text, ok := strings.CutPrefix(line, "data: "); !ok || json.Unmarshal([]byte(text), &news) != nil {
			continue
		}
		for _, run := range news.Runs {
			if run.Name == "long" { // its document grows as its ledger does
				continue
			}
			read++
			if text := s.fetch(context.Background(), page+"/api/runs/"+run.ID); !json.Valid([]byte(text)) {
				s.Errorf("run %s: %.300s", run.ID, text)
			}
		}
	}
	if read < 4 {
		s.Errorf("%d runs of this turn are on the page: %.300s", read, events)
	}
}

// fetch is the content of an address, as far as ctx lets it come.
func (s *soak) fetch(ctx context.Context, address string) string {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		s.Fatal(err)
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		s.Error(err)
		return ""
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if reply.StatusCode != http.StatusOK || err != nil && ctx.Err() == nil {
		s.Errorf("%s: %s, %v", address, reply.Status, err)
	}
	return string(text)
}

// slowly is a server that passes requests on after a pause.
func slowly(t *testing.T, to string) *httptest.Server {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	return httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		select {
		case <-time.After(soakPause):
		case <-r.In.Context().Done():
		}
		r.SetURL(target)
	}})
}

// aLog is written by one goroutine and read by another. It keeps the newest 64 KB.
type aLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *aLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text.Len() > 1<<16 {
		l.text.Next(l.text.Len() - 1<<15)
	}
	return l.text.Write(p)
}

func (l *aLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
