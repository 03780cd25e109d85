//go:build linux

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/outside/spent"
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
