package run

import (
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
	"sync/atomic"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/fleet"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

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
	kinds := map[string]func() *experiment.Experiment{"clip": of()}
	parties := []party{{0, true, false, false}, {2, false, true, false}}
	if *long {
		parties = append(parties, party{workers: 1}, party{workers: 1, local: true}, party{workers: 2, local: true},
			party{workers: 5, local: true, kills: true}, party{workers: 5}, party{workers: 4, mixed: true})
		kinds["nft"] = of("loss.objective=nft", "loss.kl.weight=1e-3", "loss.kl.estimator=velocity", "loss.times=2")
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
		_, _, err := OpenWorker(fleet.Setup{Config: configOf(t, e), Train: []prompts.Prompt{{Text: "a"}}}, Worker{}, model.Options{})
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
