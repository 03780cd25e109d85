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
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/fleet"
	"github.com/darkroom-rl/darkroom/trainer/ledger"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
)

// soon are rules of a fleet of goroutines.
var soon = fleet.Rules{Lease: 5 * time.Second, Hedge: 1.5, Silence: 2 * time.Second, Tries: 5}

// crew are workers inside this process, each with a model and a thread of its own.
type crew struct {
	*testing.T
	hub    *fleet.Inside
	scores *fleet.Inside // for workers that ask rewards; nil: there are none
	work   sync.WaitGroup
	end    context.CancelFunc
	ctx    context.Context
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

// join lets a worker work until it is killed, or the crew ends. spoil changes what it returns.
func (c *crew) join(name string, spoil func(j fleet.Job, payload []byte) []byte) (kill func()) {
	path, err := isa.Choose()
	if err != nil {
		c.Fatal(err)
	}
	ctx, cancel := context.WithCancel(c.ctx)
	link := c.hub.Link(name)
	c.work.Go(func() {
		be := cpu.NewWith(cpu.Options{Path: path, Threads: 1})
		defer be.Close()
		about := fleet.About{Class: "test"}
		s := &fleet.Studio{Blobs: link, About: about, Open: func(ctx context.Context, s fleet.Setup) (model.Model, *experiment.Experiment, error) {
			return OpenElsewhere(s, Elsewhere{Memory: "1GiB", Say: c.Logf}, model.Options{Backend: be, Context: ctx})
		}}
		defer s.Close()
		do := s.Do
		if spoil != nil {
			do = func(ctx context.Context, j fleet.Job) ([]byte, error) {
				payload, err := s.Do(ctx, j)
				return spoil(j, payload), err
			}
		}
		w := fleet.Worker{Name: name, Link: silent{link, ctx}, About: about, Beat: time.Second, Do: do, Say: c.Logf}
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
		p := &fleet.Panel{Blobs: link, Open: OpenRewards}
		defer p.Close()
		w := fleet.Worker{Name: name, Link: silent{link, ctx}, Beat: time.Second, Do: p.Do, Say: c.Logf}
		if err := w.Run(ctx); err != nil {
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

func (s silent) Say(ctx context.Context, e fleet.Event) error {
	if s.alive.Err() != nil {
		return nil
	}
	return s.Link.Say(ctx, e)
}

// train runs an experiment with the crew.
func (c *crew) train(e *experiment.Experiment, o Options, f fleet.Options) (*ledger.Result, *fleet.Fleet) {
	c.Helper()
	return c.trainUntil(context.Background(), e, o, f)
}

// trainUntil is train until ctx ends.
func (c *crew) trainUntil(ctx context.Context, e *experiment.Experiment, o Options, f fleet.Options) (*ledger.Result, *fleet.Fleet) {
	c.Helper()
	if f.Say = o.Say; f.Say == nil {
		f.Say = c.Logf
	}
	f.Hub, f.Rules = c.hub, soon
	own := fleet.New(f)
	var scores *fleet.Fleet
	if c.scores != nil {
		scores = fleet.New(fleet.Options{Hub: c.scores, Rules: fleet.Rules{Lease: 5 * time.Second, Silence: 2 * time.Second, Tries: 2}, Say: own.Tell})
	}
	o.Fleet, o.Class = func() (*fleet.Fleet, *fleet.Fleet, error) { return own, scores, nil }, "test"
	r, err := trainUntil(ctx, c.T, e, o)
	if err != nil {
		c.Fatal(err)
	}
	return r, own
}

// workOf is what fleet.jsonl says, which is then gone, and how many jobs each worker did.
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
// though they are killed at random moments. DARKROOM_FLEET=all tries more fleets and objectives.
func TestFleet(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	type party struct {
		workers int
		local   bool
		kills   bool
	}
	kinds := map[string][]string{"clip": nil}
	parties := []party{{0, true, false}, {2, false, true}}
	if os.Getenv("DARKROOM_FLEET") == "all" {
		parties = append(parties, party{1, false, false}, party{1, true, false}, party{2, true, false}, party{5, true, true}, party{5, false, false})
		kinds["nft"] = []string{"loss.objective=nft", "loss.kl.weight=1e-3", "loss.kl.estimator=velocity", "loss.times=2"}
		kinds["stages"] = []string{`stage=[{ iterations = 2 }, { iterations = 2, rollout = { group = 2 } }]`}
		kinds["branchgrpo"], kinds["tempflow"], kinds["flash"] = branching, trunks, flash
		kinds["resample"] = []string{"rollout.resample={ rolls = 3 }"}
	} else {
		t.Log("skipped: other fleets and objectives, without DARKROOM_FLEET=all")
	}
	for kind, sets := range kinds {
		alone := filepath.Join(t.TempDir(), "alone")
		if _, err := trainAs(t, parse(t, sets...), Options{Dir: alone}); err != nil {
			t.Fatal(kind, err)
		}
		want := contents(t, alone)
		for _, p := range parties {
			c := newCrew(t)
			dir := filepath.Join(t.TempDir(), "fleet")
			var kills []func()
			for i := range p.workers {
				kills = append(kills, c.join(fmt.Sprint("w", i), nil))
			}
			o := Options{Dir: dir}
			o.Report = func(l *ledger.Line, _ *ledger.TimingLine) {
				if p.kills && l.Iteration < 4 { // all of them die, and as many come, in the midst of what they are at
					for i, kill := range kills {
						time.AfterFunc(time.Duration(rand.IntN(300))*time.Millisecond, kill)
						kills[i] = c.join(fmt.Sprint("w", i, "after", l.Iteration), nil)
					}
				}
			}
			_, f := c.train(parse(t, sets...), o, fleet.Options{Local: p.local, Audit: 0.2})
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

// TestFleetScores: workers ask a reward behind a server, and one of them is killed at it; what they find is what the
// trainer would have found.
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

// TestLag: samples of earlier weights. A run with a lag leaves the same bytes with workers, whoever of them is killed,
// and when the trainer is stopped and goes on, as one that nobody helps. DARKROOM_FLEET=all tries more fleets.
func TestLag(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	lags, crews := []int{2}, []int{2}
	if os.Getenv("DARKROOM_FLEET") == "all" {
		lags, crews = []int{1, 2, 7}, []int{1, 2, 5}
	} else {
		t.Log("skipped: other lags and fleets, without DARKROOM_FLEET=all")
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

// TestFleetLiar: a worker whose numbers differ in one bit is named, and the run has the bytes of one without it.
func TestFleetLiar(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	alone := filepath.Join(t.TempDir(), "alone")
	if _, err := trainAs(t, parse(t, "run.iterations=2"), Options{Dir: alone}); err != nil {
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
		samples, passes, err := fleet.Unpack(payload, j.All(), nil)
		if err != nil {
			return payload
		}
		samples[0].Item.Final[0] += 1e-3
		other, err := fleet.Pack(samples, passes, nil)
		if err != nil {
			t.Error(err)
		}
		return other
	})
	var says strings.Builder
	_, f := c.train(parse(t, "run.iterations=2"), Options{Dir: helped, Say: func(format string, args ...any) { fmt.Fprintf(&says, format+"\n", args...) }}, fleet.Options{Audit: 1, Local: len(beside) == 0})
	c.close()
	by := workOf(t, helped)
	same(t, "with a liar", contents(t, alone), contents(t, helped))
	if len(f.Refused()) != 1 || f.Refused()["liar"] == "" || by["liar"] != 0 || !strings.Contains(says.String(), "worker liar is dismissed") {
		t.Errorf("refused %v, who did how much %v:\n%s", f.Refused(), by, says.String())
	}
}

// TestFleetRefuses: a worker of another version, of another arithmetic or with another model ends with the reason
// before it opens anything; what is only not there yet fails, and is tried again.
func TestFleetRefuses(t *testing.T) {
	own := t.TempDir()
	from, err := madeTiny()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(own, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	of := &training{Experiment: parse(t, "model.path="+own), Options: Options{Version: "v1", Class: "ref"}, train: []prompts.Prompt{{Text: "a red circle"}}}
	setup, err := of.setup()
	if err != nil {
		t.Fatal(err)
	}
	hub := fleet.NewInside()
	defer hub.Close()
	publish := func(s fleet.Setup) fleet.Hash {
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
		setup   fleet.Hash
		changed bool
		path    string
		unfit   bool
		says    string
	}{
		{"version", fleet.About{Version: "v2", Class: "ref"}, right, false, "", true, "version v1 of the program, and this worker v2"},
		{"class", fleet.About{Version: "v1", Class: "a GPU"}, right, false, "", true, `computes as "ref", and this worker as "a GPU"`},
		{"files", fleet.About{Version: "v1", Class: "ref"}, right, true, "", true, "model_index.json: it has"},
		{"folder", fleet.About{Version: "v1", Class: "ref"}, right, false, filepath.Join(own, "nothing"), true, "hint: --model names"},
		{"no setup", fleet.About{Version: "v1", Class: "ref"}, fleet.Hash{1}, false, "", false, "fetching the run's setup"},
		{"empty setup", fleet.About{Version: "v1", Class: "ref"}, publish(fleet.Setup{}), false, "", false, "no experiment or no prompts"},
	} {
		if c.changed {
			if err := os.WriteFile(config, append(text, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		s := &fleet.Studio{Blobs: hub, About: c.about, Open: func(ctx context.Context, s fleet.Setup) (model.Model, *experiment.Experiment, error) {
			return OpenElsewhere(s, Elsewhere{Model: c.path}, model.Options{Context: ctx})
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

// TestFleetMemory: a worker keeps to the memory that the experiment, or its own command, names.
func TestFleetMemory(t *testing.T) {
	dir, err := madeTiny()
	if err != nil {
		t.Fatal(err)
	}
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	be := cpu.NewWith(cpu.Options{Path: path})
	defer be.Close()
	for _, c := range []struct{ file, here string }{{"1MiB", ""}, {"", "1MiB"}, {"1GiB", "1MiB"}} {
		of := &training{Experiment: parse(t, "model.path="+dir, fmt.Sprintf("run.memory=%q", c.file)), train: []prompts.Prompt{{Text: "a red circle"}}}
		setup, err := of.setup()
		if err != nil {
			t.Fatal(err)
		}
		var says []string
		m, _, err := OpenElsewhere(setup, Elsewhere{Memory: c.here, Say: saying(&says)}, model.Options{Backend: be})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if !strings.Contains(strings.Join(says, "\n"), `more than run.memory = "1MiB"`) {
			t.Errorf("%+v: it says %q", c, says)
		}
	}
}
