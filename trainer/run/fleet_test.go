package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/fleet"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// Workers for tests of runs that others help.

// soon are rules of a fleet of goroutines.
var soon = fleet.Rules{Lease: 5 * time.Second, Hedge: 1.5, Silence: 2 * time.Second, Tries: 5}

// crew are workers inside this process, each with a model and a thread of its own.
type crew struct {
	*testing.T
	hub    *fleet.Inside
	scores *fleet.Inside // for workers that ask rewards; nil without them
	judges *fleet.Inside // for workers that compute them; nil without them
	parts  *fleet.Inside // for workers that compute gradients; nil without them
	leaves bool          // the trainer computes no gradient while they are there
	paths  []isa.Path    // of workers who roll, in turn; nil: this machine's best
	homes  []string      // of their frozen matrices, in turn; nil: the experiment's
	joined int
	work   sync.WaitGroup
	end    context.CancelFunc
	ctx    context.Context

	networks  *fleet.Fleet // of judges, once a run is trained
	gradients *fleet.Fleet // of those that compute gradients
}

func newCrew(t *testing.T) *crew {
	c := &crew{T: t, hub: fleet.NewInside()}
	c.ctx, c.end = context.WithCancel(context.Background())
	return c
}

// close ends all workers.
func (c *crew) close() {
	c.end()
	c.work.Wait()
	if err := c.hub.Close(); err != nil {
		c.Error(err)
	}
}

// join lets a worker work until it is killed, or the crew ends. spoil changes its results.
func (c *crew) join(name string, spoil func(j fleet.Job, payload []byte) []byte) (kill func()) {
	return c.joins(c.hub, name, spoil, nil)
}

// joins lets a worker of a hub work. as changes its model.
func (c *crew) joins(hub *fleet.Inside, name string, spoil func(j fleet.Job, payload []byte) []byte, as func(m model.Model) model.Model) (kill func()) {
	path, err := isa.Choose()
	if err != nil {
		c.Fatal(err)
	}
	if len(c.paths) > 0 {
		path = c.paths[c.joined%len(c.paths)]
	}
	home := ""
	if len(c.homes) > 0 {
		home = c.homes[c.joined%len(c.homes)]
	}
	c.joined++
	ctx, cancel := context.WithCancel(c.ctx)
	link := hub.Link(name)
	c.work.Go(func() {
		be := cpu.NewWith(cpu.Options{Path: path, Threads: 1})
		defer be.Close()
		about := fleet.About{Class: "test"}
		s := &fleet.Executor{Blobs: link, About: about, Open: func(ctx context.Context, s fleet.Setup) (model.Model, *experiment.Experiment, error) {
			m, e, err := OpenWorker(s, Worker{Memory: "1GiB", Home: home, Logf: c.Logf, Allowed: Allowed{Programs: true}}, model.Options{Backend: be, Context: ctx})
			if as != nil && err == nil {
				m = as(m)
			}
			return m, e, err
		}}
		defer s.Close()
		do := s.Do
		if spoil != nil {
			do = func(ctx context.Context, j fleet.Job) ([]byte, error) {
				payload, err := s.Do(ctx, j)
				return spoil(j, payload), err
			}
		}
		w := fleet.Worker{Name: name, Link: silent{link, ctx}, About: about, Beat: time.Second, Do: do, Logf: c.Logf}
		if err := w.Run(ctx); err != nil && !errors.Is(err, fleet.ErrDismissed) {
			c.Errorf("worker %s: %v", name, err)
		}
	})
	return cancel
}

// judge lets a worker ask rewards until it is killed.
func (c *crew) judge(name string) (kill func()) {
	ctx, cancel := context.WithCancel(c.ctx)
	link := c.scores.Link(name)
	c.work.Go(func() {
		p := &fleet.Panel{Blobs: link, Open: func(s fleet.Setup) (map[string]rewards.Judge, func() error, error) {
			return OpenRewards(s, nil, Allowed{Programs: true})
		}}
		defer p.Close()
		w := fleet.Worker{Name: name, Link: silent{link, ctx}, Beat: time.Second, Do: p.Do, Logf: c.Logf}
		if err := w.Run(ctx); err != nil {
			c.Errorf("worker %s: %v", name, err)
		}
	})
	return cancel
}

// compute lets a worker compute rewards that are networks until it is killed. spoil changes its results.
func (c *crew) compute(name string, spoil func(payload []byte) []byte) (kill func()) {
	path, err := isa.Choose()
	if err != nil {
		c.Fatal(err)
	}
	ctx, cancel := context.WithCancel(c.ctx)
	link := c.judges.Link(name)
	c.work.Go(func() {
		be := cpu.NewWith(cpu.Options{Path: path, Threads: 1})
		defer be.Close()
		p := &fleet.Panel{Blobs: link, Open: func(s fleet.Setup) (map[string]rewards.Judge, func() error, error) {
			return OpenRewards(s, be, Allowed{})
		}}
		defer p.Close()
		do := func(ctx context.Context, j fleet.Job) ([]byte, error) {
			payload, err := p.Do(ctx, j)
			if spoil != nil && err == nil {
				payload = spoil(payload)
			}
			return payload, err
		}
		w := fleet.Worker{Name: name, Link: silent{link, ctx}, Beat: time.Second, Do: do, Logf: c.Logf}
		if err := w.Run(ctx); err != nil && !errors.Is(err, fleet.ErrDismissed) {
			c.Errorf("worker %s: %v", name, err)
		}
	})
	return cancel
}

// silent is a link of a worker that says nothing once it is killed.
type silent struct {
	fleet.Link
	alive context.Context
}

func (s silent) Send(ctx context.Context, e fleet.Event) error {
	if s.alive.Err() != nil {
		return nil
	}
	return s.Link.Send(ctx, e)
}

// train runs an experiment with the crew.
func (c *crew) train(e *experiment.Experiment, o Options, f fleet.Options) (*ledger.Result, *fleet.Fleet) {
	c.Helper()
	return c.trainUntil(context.Background(), e, o, f)
}

// trainUntil is train until ctx ends.
func (c *crew) trainUntil(ctx context.Context, e *experiment.Experiment, o Options, f fleet.Options) (*ledger.Result, *fleet.Fleet) {
	c.Helper()
	if f.Logf = o.Logf; f.Logf == nil {
		f.Logf = c.Logf
	}
	f.Hub, f.Rules = c.hub, soon
	own := fleet.New(f)
	by, patient := Fleets{Rolls: own}, fleet.Rules{Lease: 5 * time.Second, Silence: 2 * time.Second, Tries: 2}
	if c.scores != nil {
		by.Scores = fleet.New(fleet.Options{Hub: c.scores, Rules: patient, Logf: own.Tell})
	}
	if c.judges != nil {
		by.Networks = fleet.New(fleet.Options{Hub: c.judges, Rules: patient, Logf: own.Tell, Audit: f.Audit})
		c.networks = by.Networks
	}
	if c.parts != nil {
		by.Gradients = fleet.New(fleet.Options{Hub: c.parts, Rules: soon, Local: !c.leaves, Logf: own.Tell, Audit: f.Audit})
		c.gradients = by.Gradients
	}
	o.Fleet, o.Class = func() (Fleets, error) { return by, nil }, "test"
	r, err := trainUntil(ctx, c.T, e, o)
	if err != nil {
		c.Fatal(err)
	}
	return r, own
}

// workOf is the number of jobs of each worker in fleet.jsonl, which it deletes.
func workOf(t *testing.T, dir string) map[string]int {
	t.Helper()
	path := filepath.Join(dir, ledger.FleetFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	by := map[string]int{}
	for line := range bytes.Lines(text) {
		var e fleet.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if e.Dismissed == "" {
			by[e.Worker]++
		}
	}
	return by
}

// TestFleet: a run that workers roll for leaves the bytes of one that nobody helps, however many they are, and
// though they are killed at random moments. -long tries more fleets and objectives.
func TestFleet(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	type party struct {
		workers int
		local   bool
		kills   bool
		mixed   bool // of all paths of arithmetic that this machine has
	}
	of := func(sets ...string) func() *experiment.Experiment {
		return func() *experiment.Experiment { return parse(t, sets...) }
	}
	nft := []string{"loss.objective=nft", "loss.kl.weight=1e-3", "loss.kl.estimator=velocity", "loss.times=2"}
	kinds := map[string]func() *experiment.Experiment{"clip": of(), "text noise": of(append(nft, "rollout.text_noise={ strength = 0.5 }")...)}
	parties := []party{{0, true, false, false}, {2, false, true, false}}
	if *long {
		parties = append(parties, party{workers: 1}, party{workers: 1, local: true}, party{workers: 2, local: true},
			party{workers: 5, local: true, kills: true}, party{workers: 5}, party{workers: 4, mixed: true})
		kinds["nft"] = of(nft...)
		kinds["stages"] = of(`stage=[{ iterations = 2 }, { iterations = 2, rollout = { group = 2 } }]`)
		kinds["branchgrpo"], kinds["tempflow"], kinds["flash"] = of(branching...), of(trunks...), of(flash...)
		kinds["resample"] = of("rollout.resample={ rolls = 3 }")
		kinds["rollback"] = func() *experiment.Experiment { return rolling(t, "0.5") }
		kinds["video"] = func() *experiment.Experiment { return parseClips(t) }
	} else {
		t.Log("skipped: other fleets and objectives, without -long")
	}
	for kind, made := range kinds {
		alone := filepath.Join(t.TempDir(), "alone")
		if _, err := trainAs(t, made(), Options{Dir: alone}); err != nil {
			t.Fatal(kind, err)
		}
		want := contents(t, alone)
		for _, p := range parties {
			c := newCrew(t)
			dir := filepath.Join(t.TempDir(), "fleet")
			var kills []func()
			if p.mixed {
				c.paths = isa.Paths()
			}
			for i := range p.workers {
				kills = append(kills, c.join(fmt.Sprint("w", i), nil))
			}
			o := Options{Dir: dir}
			o.Report = func(l *ledger.Line, _ *ledger.TimingLine) {
				if p.kills && l.Iteration < 4 { // all of them die, and as many come, in the midst of their jobs
					for i, kill := range kills {
						time.AfterFunc(time.Duration(rand.IntN(300))*time.Millisecond, kill)
						kills[i] = c.join(fmt.Sprint("w", i, "after", l.Iteration), nil)
					}
				}
			}
			_, f := c.train(made(), o, fleet.Options{Local: p.local, Audit: 0.2})
			c.close()
			by := workOf(t, dir)
			t.Logf("%s, %+v: %v, %+v", kind, p, by, f.Counts())
			same(t, fmt.Sprintf("%s, %+v", kind, p), want, contents(t, dir))
			if (by[fleet.Here] > 0) != p.local && !p.kills || p.workers > 0 && len(by) < 2 && !p.local && p.workers > 1 {
				t.Errorf("%s, %+v: who did how much: %v", kind, p, by)
			}
			if n := f.Counts(); n.Differed > 0 || len(f.Refused()) > 0 {
				t.Errorf("%s, %+v: %+v, refused %v", kind, p, n, f.Refused())
			}
		}
	}
}

// TestFleetEpisodes: workers play a run's episodes, and leave the bytes of one process: transcripts too, with pictures
// that tools made, and with distorted ones.
func TestFleetEpisodes(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a small model and trains it: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	sets := []string{fewQuestions(t), speaker(t), "run.iterations=2", "episode.noisy={ strength = 900, middle = 2, coef = 1 }", "loss.kl.weight=0", "rollout.buffer={}"}
	alone, helped := filepath.Join(t.TempDir(), "alone"), filepath.Join(t.TempDir(), "helped")
	if _, err := trainAs(t, parseText(t, talking, sets...), Options{Dir: alone}); err != nil {
		t.Fatal(err)
	}
	c := newCrew(t)
	kill := c.join("brief", nil)
	c.join("steady", nil)
	o := Options{Dir: helped, Report: func(*ledger.Line, *ledger.TimingLine) { kill() }}
	_, f := c.train(parseText(t, talking, sets...), o, fleet.Options{Audit: 0.3})
	c.close()
	by := workOf(t, helped)
	same(t, "played by workers", contents(t, alone), contents(t, helped))
	if by["steady"] == 0 || by[fleet.Here] > 0 || f.Counts().Differed > 0 || len(f.Refused()) > 0 {
		t.Errorf("who did how much: %v; %+v, refused %v", by, f.Counts(), f.Refused())
	}
}

// TestLag: samples of earlier weights. A run with a lag leaves the same bytes with workers, whichever of them are
// killed, and when the trainer is stopped and goes on, as one without help. -long tries more fleets.
func TestLag(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	lags, crews := []int{2}, []int{2}
	if *long {
		lags, crews = []int{1, 2, 7}, []int{1, 2, 5}
	} else {
		t.Log("skipped: other lags and fleets, without -long")
	}
	for _, lag := range lags {
		sets := []string{"run.iterations=5", fmt.Sprint("run.lag=", lag)}
		alone := filepath.Join(t.TempDir(), "alone")
		if _, err := trainAs(t, parse(t, sets...), Options{Dir: alone}); err != nil {
			t.Fatal(err)
		}
		want := contents(t, alone)
		for i, l := range ledgerOf(t, alone) {
			if most := l.Updates[0].RatioMost; (most == 1) != (i == 0) {
				t.Errorf("lag %d, iteration %d: the first update's ratio is %v", lag, i+1, most)
			}
		}
		for _, workers := range crews {
			dir := filepath.Join(t.TempDir(), "fleet")
			var finished, lead atomic.Int64 // iterations, and how many of them workers were ahead
			ahead := func(j fleet.Job, payload []byte) []byte {
				if !j.How.Fixed {
					lead.Store(max(lead.Load(), int64(j.How.Iteration)-finished.Load()))
				}
				return payload
			}
			for stop := 2; stop <= 5; stop += 3 { // the trainer is stopped behind the second iteration
				c := newCrew(t)
				kill := c.join("brief", nil)
				for i := range workers {
					c.join(fmt.Sprint("w", i), ahead)
				}
				ctx, end := context.WithCancel(context.Background())
				o := Options{Dir: dir, Resume: stop > 2, Report: func(l *ledger.Line, _ *ledger.TimingLine) {
					finished.Store(int64(l.Iteration))
					time.AfterFunc(100*time.Millisecond, kill)
					if l.Iteration == stop {
						end()
					}
				}}
				_, f := c.trainUntil(ctx, parse(t, sets...), o, fleet.Options{Local: workers == 1, Audit: 0.2})
				c.close()
				end()
				if n := f.Counts(); n.Differed > 0 || len(f.Refused()) > 0 {
					t.Errorf("lag %d, %d workers: %+v, refused %v", lag, workers, n, f.Refused())
				}
			}
			if n := lead.Load(); n < 1 || n > int64(lag) {
				t.Errorf("lag %d, %d workers: they were %d iterations ahead", lag, workers, n)
			}
			t.Log(lag, workers, workOf(t, dir))
			same(t, fmt.Sprintf("lag %d, %d workers", lag, workers), want, contents(t, dir))
		}
	}
}

// TestAllowed: a worker starts no program of the trainer's and hands over no variable of its environment without
// permission. A refusal names the remedy; of several rewards it asks those that it may ask.
func TestAllowed(t *testing.T) {
	began := filepath.Join(t.TempDir(), "began")
	program := "command=['sh', '-c', 'echo began > " + began + "'], timeout=0.5"
	t.Setenv("DARKROOM_TEST_KEY", "a secret")
	var keys atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			keys.Add(1)
		}
		sizes(w, r)
	}))
	defer server.Close()
	asks := "{name='http', url='" + server.URL + "'"
	for _, c := range []struct {
		what, rewards string
		allowed       Allowed
		says          []string // where nothing is opened
		refuses       string   // the reward that is refused, of those that are opened
	}{
		{"a program", "[{name='exec', " + program + "}]", Allowed{}, []string{"reward exec", "(sh)", "--allow-programs"}, ""},
		{"a program that reads", "[{name='ocr', path='sh'}]", Allowed{Env: []string{"PATH"}}, nil, ""}, // nobody asks it elsewhere
		{"a program's variable", "[{name='exec', env=['DARKROOM_TEST_KEY'], " + program + "}]", Allowed{Programs: true}, []string{"--env DARKROOM_TEST_KEY"}, ""},
		{"a key", "[" + asks + ", key_env='DARKROOM_TEST_KEY'}]", Allowed{Programs: true, Env: []string{"OTHER"}}, []string{"reward http", "--env DARKROOM_TEST_KEY"}, ""},
		{"two", "[" + asks + "}, {name='exec', " + program + "}]", Allowed{}, nil, "exec"},
		{"a key that is allowed", "[" + asks + ", key_env='DARKROOM_TEST_KEY'}]", Allowed{Env: []string{"DARKROOM_TEST_KEY"}}, nil, ""},
	} {
		setup := fleet.Setup{Config: configOf(t, parse(t, "reward="+c.rewards)), Train: []prompts.Prompt{{Text: "a"}}}
		hub := fleet.NewInside()
		p := &fleet.Panel{Blobs: hub, Open: func(s fleet.Setup) (map[string]rewards.Judge, func() error, error) {
			return OpenRewards(s, nil, c.allowed)
		}}
		text, err := json.Marshal(setup)
		if err != nil {
			t.Fatal(err)
		}
		of, err := hub.Put(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []string{"exec", "http"} {
			packed, err := fleet.PackItems([]rewards.Item{{Prompt: "a"}})
			if err != nil {
				t.Fatal(err)
			}
			items, err := hub.Put(t.Context(), packed)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			_, err = p.Do(ctx, fleet.Job{Setup: of, Score: &fleet.Scoring{Reward: r, Items: items, Count: 1}, Keys: []fleet.Keys{{Samples: 1}}})
			var unfit fleet.Unfit
			var no fleet.Refusal
			if len(c.says) > 0 != errors.As(err, &unfit) || (r == c.refuses) != errors.As(err, &no) {
				t.Errorf("%s: reward %s: %v", c.what, r, err)
			}
			for _, says := range c.says {
				if err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("%s: %v; want %q in it", c.what, err, says)
				}
			}
		}
		if err := errors.Join(p.Close(), hub.Close()); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(began); err == nil {
			t.Errorf("%s: the program was started", c.what)
		}
		if n := keys.Swap(0); (n > 0) != (c.what == "a key that is allowed") {
			t.Errorf("%s: the server was told the key %d times", c.what, n)
		}
	}
}

// TestAllowedRolls: before a model is opened for episodes that start programs, or ask servers by a key, it is refused.
func TestAllowedRolls(t *testing.T) {
	for what, c := range map[string]struct {
		with string
		says []string
	}{
		"a tool":    {"[[episode.tool]]\nname = \"search\"\ncommand = [\"sh\", \"-c\", \"true\"]\n[rollout]", []string{"tool search starts a program (sh)", "--allow-programs"}},
		"its key":   {"[[episode.tool]]\nname = \"search\"\nurl = \"http://127.0.0.1:1\"\nkey_env = \"DARKROOM_TEST_KEY\"\n[rollout]", []string{"tool search asks for", "--env DARKROOM_TEST_KEY"}},
		"an engine": {"[episode.engine]\nurl = \"http://127.0.0.1:1\"\nkey_env = \"DARKROOM_TEST_KEY\"\n[rollout]", []string{"episode.engine asks for", "--env DARKROOM_TEST_KEY"}},
	} {
		e := parseText(t, strings.Replace(talking, "[rollout]", c.with, 1), fewQuestions(t), "model.train=['lora']")
		_, _, err := OpenWorker(fleet.Setup{Config: configOf(t, e), Train: []prompts.Prompt{{Text: "a"}}}, Worker{}, model.Options{Context: t.Context()})
		for _, says := range c.says {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v; want %q in it", what, err, says)
			}
		}
	}
}

// configOf is an experiment as a setup has it.
func configOf(t *testing.T, e *experiment.Experiment) string {
	t.Helper()
	var config strings.Builder
	if err := e.Write(&config); err != nil {
		t.Fatal(err)
	}
	return config.String()
}

// Rewards that workers ask, or compute.

// TestFleetScores: workers ask a reward behind a server, and one of them is killed at it; their scores are those that
// the trainer would have found.
func TestFleetScores(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		time.Sleep(20 * time.Millisecond)
		sizes(w, r)
	}))
	defer server.Close()
	sets := []string{"run.iterations=2", fmt.Sprintf("reward=[{name='http', url=%q}, {name='jpeg', train=false}]", server.URL)}
	alone, helped := filepath.Join(t.TempDir(), "alone"), filepath.Join(t.TempDir(), "helped")
	if _, err := trainAs(t, parse(t, sets...), Options{Dir: alone}); err != nil {
		t.Fatal(err)
	}
	once := asked.Swap(0)
	c := newCrew(t)
	c.scores = fleet.NewInside()
	kill := c.judge("brief")
	c.judge("steady")
	c.train(parse(t, sets...), Options{Dir: helped, Report: func(*ledger.Line, *ledger.TimingLine) { kill() }}, fleet.Options{Local: true})
	c.close()
	if err := c.scores.Close(); err != nil {
		t.Error(err)
	}
	by := workOf(t, helped)
	same(t, "judged by workers", contents(t, alone), contents(t, helped))
	if by["steady"] == 0 || asked.Load() < once {
		t.Errorf("who did how much: %v; the server was asked %d times, and %d by one process", by, asked.Load(), once)
	}
}

// TestFleetNetworks: workers compute a reward that is a network, one of them is killed at it, and one returns other
// numbers: it is named, and the run has the bytes of one process.
func TestFleetNetworks(t *testing.T) {
	if !*long {
		t.Skip("trains the whole embedded model twice: -long, .ci/run slow")
	}
	t.Parallel()
	sets := []string{whole, "run.iterations=2", "rollout.group=2", "evaluate.every=9", "reward=[{name='jpeg'}, {name='aesthetic'}]"}
	alone, helped := filepath.Join(t.TempDir(), "alone"), filepath.Join(t.TempDir(), "helped")
	if _, err := trainAs(t, parse(t, sets...), Options{Dir: alone}); err != nil {
		t.Fatal(err)
	}
	c := newCrew(t)
	c.judges = fleet.NewInside()
	killed := make(chan func(), 1)
	killed <- c.compute("brief", func(payload []byte) []byte {
		(<-killed)() // nobody gets its result
		return payload
	})
	meets := func(mine, others chan struct{}) func() { // of the other two, each has a job before one of them ends
		return sync.OnceFunc(func() {
			close(mine)
			select {
			case <-others:
			case <-time.After(time.Minute):
			}
		})
	}
	a, b := make(chan struct{}), make(chan struct{})
	steady, lies := meets(a, b), meets(b, a)
	c.compute("steady", func(payload []byte) []byte {
		steady()
		return payload
	})
	c.compute("liar", func(payload []byte) []byte {
		lies()
		return bytes.Replace(payload, []byte(`"value":`), []byte(`"value":0.5,"was":`), 1)
	})
	there := func(*ledger.Line, *ledger.TimingLine) { // two of them, after the first iteration
		for began := time.Now(); c.networks.Workers()+len(c.networks.Refused()) < 2 && time.Since(began) < time.Minute; {
			time.Sleep(10 * time.Millisecond)
		}
	}
	_, f := c.train(parse(t, sets...), Options{Dir: helped, Report: there}, fleet.Options{Local: true, Audit: 1})
	c.close()
	if err := c.judges.Close(); err != nil {
		t.Error(err)
	}
	by := workOf(t, helped)
	same(t, "judged by workers", contents(t, alone), contents(t, helped))
	refused := c.networks.Refused()
	if by["steady"] == 0 || by["liar"] > 0 || len(refused) != 1 || refused["liar"] == "" || len(f.Refused()) > 0 {
		t.Errorf("who did how much: %v; refused %v", by, refused)
	}
}

// TestRewardFiles: a worker computes no reward by other files than the trainer's.
func TestRewardFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "model.safetensors"), []byte("weights"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := experiment.Reward{Name: "hpsv2"}
	r.Path = dir
	files, err := rewardFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	had, err := json.Marshal(files)
	if err != nil {
		t.Fatal(err)
	}
	if err := sameFiles(r, had); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "model.safetensors"), []byte("Weights"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := sameFiles(r, had); err == nil || !strings.Contains(err.Error(), "reward hpsv2 is not the trainer's") {
		t.Error(err)
	}
	r.Path = filepath.Join(dir, "nothing")
	if err := sameFiles(r, had); err == nil || !strings.Contains(err.Error(), "hint:") {
		t.Error(err)
	}
}

// Workers that are not let at a run, or should not be.

// TestFleetLiar: a worker whose numbers differ in one bit is named, and the run has the bytes of one without it. On a
// busy machine the liar may come late; a difference in a run's last job is reported, and nobody is dismissed at its
// end.
func TestFleetLiar(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	alone := filepath.Join(t.TempDir(), "alone")
	if _, err := trainAs(t, parse(t, "run.iterations=4"), Options{Dir: alone}); err != nil {
		t.Fatal(err)
	}
	t.Run("beside an honest one", func(t *testing.T) { lies(t, alone, "honest") })
	t.Run("beside the trainer", func(t *testing.T) { lies(t, alone) }) // so that its results are the first
}

// lies runs with a worker that returns other bits, and compares with a run that nobody helped.
func lies(t *testing.T, alone string, beside ...string) {
	helped := filepath.Join(t.TempDir(), "helped")
	c := newCrew(t)
	for _, name := range beside {
		c.join(name, nil)
	}
	c.join("liar", func(j fleet.Job, payload []byte) []byte {
		r, err := fleet.Unpack(payload, j.All(), nil)
		if err != nil {
			return payload
		}
		r.Samples[0].Item.Final[0] += 1e-3
		other, err := fleet.Pack(r, nil)
		if err != nil {
			t.Error(err)
		}
		return other
	})
	var says strings.Builder
	_, f := c.train(parse(t, "run.iterations=4"), Options{Dir: helped, Logf: func(format string, args ...any) { fmt.Fprintf(&says, format+"\n", args...) }}, fleet.Options{Audit: 1, Local: len(beside) == 0})
	c.close()
	by := workOf(t, helped)
	same(t, "with a liar", contents(t, alone), contents(t, helped))
	if len(f.Refused()) != 1 || f.Refused()["liar"] == "" || by["liar"] != 0 || !strings.Contains(says.String(), "worker liar is dismissed") {
		t.Errorf("refused %v, who did how much %v:\n%s", f.Refused(), by, says.String())
	}
}

// TestFleetRefuses: a worker of another version, of another arithmetic or with another model ends with the reason
// before it opens anything; a worker whose files are only not there yet fails, and is tried again.
func TestFleetRefuses(t *testing.T) {
	own := t.TempDir()
	from, err := madeTiny()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(own, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	of := &loop{Experiment: parse(t, "model.path="+own), Options: Options{Version: "v1", Class: "ref"}, train: []prompts.Prompt{{Text: "a red circle"}}}
	setup, err := of.setup()
	if err != nil {
		t.Fatal(err)
	}
	hub := fleet.NewInside()
	defer hub.Close()
	publish := func(s fleet.Setup) fleet.Blob {
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		name, err := hub.Put(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	right := publish(setup)
	config := filepath.Join(own, "model_index.json")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what    string
		about   fleet.About
		setup   fleet.Blob
		changed bool
		path    string
		unfit   bool
		says    string
	}{
		{"version", fleet.About{Version: "v2", Class: "ref"}, right, false, "", true, "version v1 of the program, and this worker v2"},
		{"class", fleet.About{Version: "v1", Class: "a GPU"}, right, false, "", true, `computes as "ref", and this worker as "a GPU"`},
		{"files", fleet.About{Version: "v1", Class: "ref"}, right, true, "", true, "model_index.json: it has"},
		{"folder", fleet.About{Version: "v1", Class: "ref"}, right, false, filepath.Join(own, "nothing"), true, "hint: --model names"},
		{"no setup", fleet.About{Version: "v1", Class: "ref"}, fleet.Blob{Hash: fleet.Hash{1}, Size: 1}, false, "", false, "fetching the run's setup"},
		{"empty setup", fleet.About{Version: "v1", Class: "ref"}, publish(fleet.Setup{}), false, "", false, "no experiment or no prompts"},
	} {
		if c.changed {
			if err := os.WriteFile(config, append(text, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		s := &fleet.Executor{Blobs: hub, About: c.about, Open: func(ctx context.Context, s fleet.Setup) (model.Model, *experiment.Experiment, error) {
			return OpenWorker(s, Worker{Model: c.path}, model.Options{Context: ctx})
		}}
		_, err := s.Do(t.Context(), fleet.Job{Setup: c.setup, Keys: []fleet.Keys{{Samples: 1}}})
		var unfit fleet.Unfit
		if err == nil || !strings.Contains(err.Error(), c.says) || errors.As(err, &unfit) != c.unfit {
			t.Errorf("%s: %v (ends the worker: %v); want %q", c.what, err, errors.As(err, &unfit), c.says)
		}
		if err := os.WriteFile(config, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFleetMemory: a worker keeps to the memory that the experiment, or its own command, names, beside others there.
func TestFleetMemory(t *testing.T) {
	dir, err := madeTiny()
	if err != nil {
		t.Fatal(err)
	}
	be := fastest(t, 0)
	defer be.Close()
	for _, c := range []struct {
		file, here string
		ranks      int // that share the memory
		says       string
	}{{"1MiB", "", 0, "1MiB"}, {"", "1MiB", 1, "1MiB"}, {"1GiB", "1MiB", 0, "1MiB"}, {"1GiB", "", 1, ""}, {"1GiB", "", 1024, "1GiB"}} {
		of := &loop{Experiment: parse(t, "model.path="+dir, fmt.Sprintf("run.memory=%q", c.file)), train: []prompts.Prompt{{Text: "a red circle"}}}
		setup, err := of.setup()
		if err != nil {
			t.Fatal(err)
		}
		var says []string
		m, _, err := OpenWorker(setup, Worker{Memory: c.here, Ranks: c.ranks, Logf: saying(&says)}, model.Options{Backend: be, Context: t.Context()})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if said := strings.Join(says, "\n"); c.says == "" && said != "" || !strings.Contains(said, fmt.Sprintf("more than run.memory = %q", c.says)) && c.says != "" {
			t.Errorf("%+v: it says %q", c, says)
		}
	}
}

// TestFleetHomes: a worker's frozen matrices lie where its own command says, whatever the experiment says, and the run
// has the bytes of one process.
func TestFleetHomes(t *testing.T) {
	if testing.Short() {
		t.Skip("trains a model twice: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	e := parse(t, "run.iterations=2", "model.home=device")
	alone, helped := filepath.Join(t.TempDir(), "alone"), filepath.Join(t.TempDir(), "helped")
	if _, err := trainAs(t, e, Options{Dir: alone}); err != nil {
		t.Fatal(err)
	}
	c := newCrew(t)
	c.homes = []string{"disk", "host"}
	for i := range c.homes {
		c.join(fmt.Sprint("w", i), nil)
	}
	_, f := c.train(e, Options{Dir: helped}, fleet.Options{Audit: 0.2})
	c.close()
	if n, by := f.Counts(), workOf(t, helped); n.Differed > 0 || len(f.Refused()) > 0 || by[fleet.Here] > 0 {
		t.Errorf("%+v, refused %v, work %v", n, f.Refused(), by)
	}
	same(t, "workers with homes of their own", contents(t, helped), contents(t, alone))

	of := &loop{Experiment: e, train: []prompts.Prompt{{Text: "a red circle"}}}
	setup, err := of.setup()
	if err != nil {
		t.Fatal(err)
	}
	be := fastest(t, 0)
	defer be.Close()
	for here, want := range map[string]string{"disk": "disk", "": "device"} {
		m, opened, err := OpenWorker(setup, Worker{Home: here, Logf: t.Logf}, model.Options{Backend: be, Context: t.Context()})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if home := opened.Model.Home; home == nil || *home != want {
			t.Errorf("of a worker with home %q matrices lie on %v", here, home)
		}
	}
}

// subtle changes pictures' outputs of an iteration by a little, and their log-probabilities with them.
func subtle(t *testing.T, e *experiment.Experiment, iteration int) func(j fleet.Job, payload []byte) []byte {
	return func(j fleet.Job, payload []byte) []byte {
		r, err := fleet.Unpack(payload, j.All(), nil)
		if err != nil || j.How.Fixed || j.How.Iteration != iteration {
			return payload
		}
		settings, err := e.Iteration(j.How.Iteration)
		if err != nil {
			t.Error(err)
			return payload
		}
		for i, s := range r.Samples {
			d := s.Decisions
			for k, step := range d.Step {
				outputs := slices.Clone(r.Outputs[i][k])
				outputs[0] += 1e-2
				r.Outputs[i][k] = outputs
				var h sde.History
				h.Push(d.State[k], outputs)
				d.LogProb[k] = settings.Rows[step].LogProb(settings.Rows[step].Mean(&h), d.Action[k])
			}
		}
		other, err := fleet.Pack(r, nil)
		if err != nil {
			t.Error(err)
		}
		return other
	}
}

// TestFleetSubtle: a worker whose outputs are off by a little, and whose log-probabilities fit them, fails the check of
// the policy with which a run begins. It is named, its samples are rolled here, and the run has the bytes of one
// without it, though no result is compared by chance.
func TestFleetSubtle(t *testing.T) {
	if !*long {
		t.Skip("trains the whole embedded model twice: -long, .ci/run slow")
	}
	t.Parallel()
	alone, helped := filepath.Join(t.TempDir(), "alone"), filepath.Join(t.TempDir(), "helped")
	e := parse(t, "run.iterations=2")
	if _, err := trainAs(t, e, Options{Dir: alone}); err != nil {
		t.Fatal(err)
	}
	c := newCrew(t)
	c.join("subtle", subtle(t, e, 0))
	var says strings.Builder
	_, f := c.train(parse(t, "run.iterations=2"), Options{Dir: helped, Logf: func(format string, args ...any) { fmt.Fprintf(&says, format+"\n", args...) }}, fleet.Options{})
	c.close()
	workOf(t, helped)
	same(t, "with a worker that is wrong by a little", contents(t, alone), contents(t, helped))
	if f.Refused()["subtle"] == "" || !strings.Contains(says.String(), "workers' samples are rolled here again") {
		t.Errorf("dismissed %v:\n%s", f.Refused(), says.String())
	}
}

// The purpose of a fleet: time. Workers and judges here wait as long as larger models would compute, so that a
// machine of two cores can show the effect of eight machines. -long -v prints the tables (make fleet).

// scales skips tests without its flag.
func scales(t *testing.T) {
	t.Helper()
	if !*long {
		t.Skip("waits for minutes; left out without -long (make fleet)")
	}
}

// wallOf is an iteration's time, in seconds by the clock: of the quickest, since others work on this machine.
func wallOf(t *testing.T, dir, part string) float64 {
	t.Helper()
	all, err := ledger.ReadTiming(filepath.Join(dir, "timing.jsonl"))
	if err != nil || len(all) == 0 {
		t.Fatal(len(all), err)
	}
	least := 0.0
	for _, seconds := range all {
		if s := seconds[part]; least == 0 || s < least {
			least = s
		}
	}
	return least
}

// TestStrongScaling: the same run, of 8 groups an iteration that take 3 s each, by 1 to 8 workers: the same bytes.
func TestStrongScaling(t *testing.T) {
	scales(t)
	const groups, each = 8, 3 * time.Second
	sets := []string{"run.iterations=2", fmt.Sprint("rollout.prompts_per_iteration=", groups), "rollout.group=2", "evaluate.every=9"}
	alone := filepath.Join(t.TempDir(), "alone")
	if _, err := trainAs(t, parse(t, sets...), Options{Dir: alone}); err != nil {
		t.Fatal(err)
	}
	want, one := contents(t, alone), 0.0
	t.Log("workers  roll, s  speed-up  of ideal")
	for _, workers := range []int{1, 2, 4, 8} {
		c, dir := newCrew(t), filepath.Join(t.TempDir(), "fleet")
		for i := range workers {
			c.join(fmt.Sprint("w", i), func(j fleet.Job, payload []byte) []byte {
				if !j.How.Fixed {
					time.Sleep(each)
				}
				return payload
			})
		}
		c.train(parse(t, sets...), Options{Dir: dir}, fleet.Options{})
		c.close()
		workOf(t, dir)
		same(t, fmt.Sprintf("%d workers", workers), want, contents(t, dir))
		s := wallOf(t, dir, "roll")
		if workers == 1 {
			one = s
		}
		t.Logf("%7d  %7.2f  %8.2f  %7.0f %%", workers, s, one/s, 100*one/s/float64(workers))
		if one/s < 0.6*float64(workers) {
			t.Errorf("%d workers are %.2f times as fast as one", workers, one/s)
		}
	}
}

// TestSlowJudge: a judge that takes 2 s a sample, and one at a time from each machine: asked by the trainer alone, and
// by 8 workers. The same bytes.
func TestSlowJudge(t *testing.T) {
	scales(t)
	judge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Items []json.RawMessage }
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		time.Sleep(time.Duration(len(q.Items)) * 2 * time.Second)
		var said struct {
			Scores []float64 `json:"scores"`
		}
		for _, item := range q.Items {
			said.Scores = append(said.Scores, float64(item[len(item)/2]))
		}
		_ = json.NewEncoder(w).Encode(said) // who asks tells of a reply that is cut
	}))
	defer judge.Close()
	sets := []string{"run.iterations=2", "rollout.prompts_per_iteration=8", "rollout.group=2", "evaluate.every=9",
		fmt.Sprintf("reward=[{name='http', url=%q, at_once=1, timeout=60}]", judge.URL)}
	alone, helped := filepath.Join(t.TempDir(), "alone"), filepath.Join(t.TempDir(), "helped")
	if _, err := trainAs(t, parse(t, sets...), Options{Dir: alone}); err != nil {
		t.Fatal(err)
	}
	c := newCrew(t)
	c.scores = fleet.NewInside()
	for i := range 8 {
		c.judge(fmt.Sprint("j", i))
	}
	c.train(parse(t, sets...), Options{Dir: helped}, fleet.Options{Local: true})
	c.close()
	if err := c.scores.Close(); err != nil {
		t.Error(err)
	}
	by := workOf(t, helped)
	same(t, "judged by 8 workers", contents(t, alone), contents(t, helped))
	one, eight := wallOf(t, alone, "all"), wallOf(t, helped, "all")
	t.Logf("an iteration of 16 samples: %.2f s alone, %.2f s with 8 workers (%v)", one, eight, by)
	if eight > one/2 {
		t.Errorf("8 workers bring %.2f s to %.2f s", one, eight)
	}
}
