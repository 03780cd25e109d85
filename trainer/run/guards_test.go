package run

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/record/ledger"
)

// guarded is a run of three iterations whose rewards are a server's.
const guarded = `
[run]
name = "guarded"
iterations = 3
[model]
path = "embed:tiny-sd3"
lora = { rank = 2, alpha = 4, targets = ["attn.to_q"] }
[sampler]
steps = 3
guidance = 1
window = { kind = "full", drop = 1 }
[rollout]
prompts = "testdata/prompts.txt"
prompts_per_iteration = 2
group = 2
[[reward]]
name = "http"
url = "URL"
tries = 1
at_once = 1
pause = 0.001
give_up = 2
REWARD
MORE
[optim]
lr = 1e-2
[checkpoint]
every = 1
`

// A mood is a server's answer to its n-th call, counted from 0, about a number of samples: with a status, or with
// scores.
type mood func(call, samples int) (status int, scores string)

// A scoreServer is a server with a mood that a test may change. There are two calls an iteration.
type scoreServer struct {
	mood  mood
	calls int
}

func (s *scoreServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked struct{ Items []json.RawMessage }
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	status, scores := s.mood(s.calls, len(asked.Items))
	s.calls++
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"scores": [%s]}`, scores)
}

// differing are scores that differ in a group.
func differing(_, samples int) (int, string) {
	var all []string
	for i := range samples {
		all = append(all, fmt.Sprint(i))
	}
	return 200, strings.Join(all, ",")
}

// then is one mood up to a call, and another from it on, up to a third.
func then(first mood, from int, second mood, to int, last mood) mood {
	return func(call, samples int) (int, string) {
		switch {
		case call < from:
			return first(call, samples)
		case call < to:
			return second(call, samples)
		}
		return last(call, samples)
	}
}

func gone(int, int) (int, string)       { return 404, "" }
func nan(int, int) (int, string)        { return 200, "NaN, NaN" }
func alike(int, int) (int, string)      { return 200, "0.5, 0.5" }
func one(int, int) (int, string)        { return 200, `1, {"missing": "too dark to see"}` }
func falling(call, _ int) (int, string) { return 200, fmt.Sprintf("%d, %d", 10-call, 10-call) }
func fails(from, to int, how mood) mood { return then(differing, from, how, to, differing) }

// TestGuards: a run with a failure reacts as its file says, and reports so.
func TestGuards(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	for _, c := range []struct {
		name         string
		mood         mood
		reward, more string
		status       string // "": an error
		says         string // in the error, the stop's reason, or the log
		learned      int    // iterations that moved the weights
		missing      []int  // samples of each iteration
	}{
		{"the server answers", differing, "", "", ledger.Finished, "", 3, []int{0, 0, 0}},
		{"it dies for an iteration", fails(2, 4, gone), "", "", ledger.Finished, "reward http has no score for 4 of 4 samples, so no sample is learned from (1 of at most 2 in a row)", 2, []int{0, 4, 0}},
		{"it dies for good", fails(2, 99, gone), "", "", "", "in 2 iterations in a row", 1, []int{0, 4}},
		{"it dies, and the run is to stop", fails(2, 99, gone), `on_failure = "stop"`, "", "", "has no score for 4 of 4 samples; the first: reward http", 1, []int{0}},
		{"it dies, and is waited for", fails(2, 6, gone), `on_failure = "wait"`, "", ledger.Finished, "asking again in 1ms, round 2 of 2", 3, []int{0, 0, 0}},
		{"it is waited for in vain", fails(2, 99, gone), `on_failure = "wait"`, "", "", "has no score for 4 of 4 samples", 1, []int{0}},
		{"it was never there", gone, "", "", "", "reward http has no score for 4 of 4 samples", 0, nil},
		{"some samples are missing", fails(2, 3, one), "", "", ledger.Finished, "", 3, []int{0, 1, 0}},
		{"too many are", fails(2, 4, one), "most_missing = 0.4", "", ledger.Finished, "for 2 of 4 samples, so no sample is learned", 2, []int{0, 2, 0}},
		{"its scores are no numbers", nan, "", "", "", "has no score for 4 of 4 samples", 0, nil},
		{"they are none for an iteration", fails(2, 4, nan), "", "", ledger.Finished, "so no sample is learned from", 2, []int{0, 4, 0}},
		{"all groups are dead", fails(2, 4, alike), "", "", ledger.Finished, "every advantage is 0, so no sample is learned", 2, []int{0, 0, 0}},
		{"and the run is to stop", fails(2, 4, alike), "", `advantage = { all_dead = "stop" }`, ledger.Stopped, "every advantage is 0", 1, []int{0, 0}},
		{"and it is to train", fails(2, 4, alike), "", `advantage = { all_dead = "train" }`, ledger.Finished, "", 3, []int{0, 0, 0}},
		{"a monitor says when", alike, "", "[[monitor]]\nwatch = \"dead_share\"\nrises_above = 0.5\nfor = 2\nthen = \"stop\"", ledger.Stopped, "dead_share rose to 1, above 0.5, 2 times in a row", 0, []int{0, 0}},
		{"the gold reward falls", falling, "train = false", "[[reward]]\nname = \"jpeg\"\n[[monitor]]\nwatch = \"gold.http\"\nfalls_below = 0.85\nthen = \"stop\"", ledger.Stopped, "gold.http fell to 7.5, below 0.85 of the 9.5", 2, []int{0, 0}},
		{"the gold reward's server dies", fails(2, 99, gone), "train = false", "[[reward]]\nname = \"jpeg\"", ledger.Finished, "", 3, []int{0, 0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &scoreServer{mood: c.mood}
			server := httptest.NewServer(s)
			defer server.Close()
			text := guarded
			more, tables, _ := strings.Cut(c.more, "[[")
			if !strings.HasPrefix(c.more, "[[") { // a table of the root comes before all others
				text, more, tables = more+"\n"+text, "", ""
			} else {
				tables = "[[" + tables
			}
			text = strings.NewReplacer("URL", server.URL, "REWARD", c.reward, "MORE", tables).Replace(text)
			dir := filepath.Join(t.TempDir(), "run")
			r, said, err := runSaying(t, text, dir)
			switch {
			case c.status == "" && err == nil, c.status != "" && (err != nil || r.Status != c.status):
				t.Fatalf("%+v, %v", r, err)
			case err != nil:
				said += err.Error()
			default:
				said += r.Why
			}
			if !strings.Contains(said, c.says) || c.says == "" && strings.Contains(said, "warning") {
				t.Errorf("it said %q, want %q", said, c.says)
			}
			checkGuarded(t, dir, c.learned, c.missing)
			if c.status == "" && c.learned > 0 { // nothing was lost: with a server that answers the run goes on
				s.mood = differing
				if r, _, err := runSaying(t, text, dir); err != nil || r.Status != ledger.Finished {
					t.Errorf("going on: %+v, %v", r, err)
				}
			}
		})
	}
}

// TestNoiseFloor: a clip range below the noise of log-probabilities gives a warning, or stops the run, where a ratio
// can be cut: with a second update, or with samples of earlier weights. Where every ratio is 1 nothing is measured,
// nothing is said, no finding speaks of rounding and nothing stops, unless a monitor watches the number.
func TestNoiseFloor(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	const watch = `monitor=[{ watch = "noise_floor", rises_above = 1 }]`
	for name, c := range map[string]struct {
		sets     []string
		status   string
		measured bool
		warned   bool
	}{
		"two updates":             {[]string{"optim.updates=2"}, ledger.Finished, true, true},
		"two updates, stop":       {[]string{"optim.updates=2", "loss.noise_floor=stop"}, ledger.Stopped, true, true},
		"two updates, off":        {[]string{"optim.updates=2", "loss.noise_floor=off"}, ledger.Finished, false, false},
		"a buffer":                {[]string{"optim.updates=1", "rollout.buffer={}"}, ledger.Finished, true, true},
		"a lag":                   {[]string{"optim.updates=1", "run.lag=1"}, ledger.Finished, true, true},
		"one update":              {[]string{"optim.updates=1"}, ledger.Finished, false, false},
		"one update, stop":        {[]string{"optim.updates=1", "loss.noise_floor=stop"}, ledger.Finished, false, false},
		"one update, and watched": {[]string{"optim.updates=1", watch}, ledger.Finished, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir, said := t.TempDir(), ""
			sets := append([]string{"run.iterations=2", "evaluate.every=0", "evaluate.prompts=''", "loss.noise_floor=warn", "loss.clip_range=1e-12"}, c.sets...)
			r, err := trainAs(t, parse(t, sets...), Options{Dir: dir, Logf: func(format string, args ...any) { said += fmt.Sprintf(format, args...) + "\n" }})
			if err != nil || r.Status != c.status {
				t.Fatalf("%+v, %v", r, err)
			}
			check := ledgerOf(t, dir)[0].Check
			if measured := check != nil && check.Floor != nil; measured != c.measured || check.Ratio != 1 {
				t.Errorf("the check is %+v", check)
			}
			said += r.Why
			if warned := strings.Contains(said, "is below the noise floor"); warned != c.warned || !c.warned && strings.Contains(said, "rounding") {
				t.Errorf("it said %s", said)
			}
			if !strings.Contains(said, "before the first update the ratio is 1 on ") {
				t.Errorf("it did not say its ratio: %s", said)
			}
		})
	}
}

// TestWaitInterrupted: a run that waits for a reward can be interrupted, keeps its finished iterations, and goes on
// to the bytes of one that did not have to wait.
func TestWaitInterrupted(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	s := &scoreServer{mood: differing}
	server := httptest.NewServer(s)
	defer server.Close()
	text := strings.NewReplacer("URL", server.URL, "pause = 0.001", "pause = 3600", "REWARD", `on_failure = "wait"`, "MORE", "").Replace(guarded)
	text += "[[stage]]\niterations = 1\nadvantage = { estimator = \"history\" }\n[[stage]]\niterations = 2\n"
	dir := t.TempDir()
	if r, _, err := runSaying(t, text, filepath.Join(dir, "whole")); err != nil || r.Status != ledger.Finished {
		t.Fatalf("%+v, %v", r, err)
	}
	s.calls, s.mood = 0, fails(2, 99, gone) // as the second stage begins
	ctx, cancel := context.WithCancel(context.Background())
	r, said, err := runUntil(ctx, t, text, filepath.Join(dir, "parts"), func(says string) {
		if strings.Contains(says, "asking again in 1h0m0s") {
			cancel()
		}
	})
	if err != nil || r.Status != ledger.Interrupted || r.Iterations != 1 {
		t.Fatalf("%+v, %v\n%s", r, err, said)
	}
	s.mood = differing
	if r, _, err := runSaying(t, text, filepath.Join(dir, "parts")); err != nil || r.Status != ledger.Finished {
		t.Fatalf("%+v, %v", r, err)
	}
	same(t, "interrupted while it waited", contents(t, filepath.Join(dir, "whole")), contents(t, filepath.Join(dir, "parts")))
}

// TestFailedPrompts: where prompts are drawn from a place that iterations move, a reward that fails, once or for good,
// takes none of them away: the run goes on to the bytes of one whose reward never failed.
func TestFailedPrompts(t *testing.T) {
	t.Parallel()
	s := &scoreServer{mood: differing}
	server := httptest.NewServer(s)
	defer server.Close()
	text := strings.NewReplacer("URL", server.URL, "REWARD", `on_failure = "stop"`, "MORE", "", "group = 2", "group = 2\nban = {}").Replace(guarded)
	dir := t.TempDir()
	if r, _, err := runSaying(t, text, filepath.Join(dir, "whole")); err != nil || r.Status != ledger.Finished {
		t.Fatalf("%+v, %v", r, err)
	}
	s.calls, s.mood = 0, fails(4, 99, gone) // in the third iteration
	if _, _, err := runSaying(t, text, filepath.Join(dir, "parts")); err == nil || !strings.Contains(err.Error(), "iteration 2 is saved") {
		t.Fatal(err)
	}
	s.mood = differing
	if r, _, err := runSaying(t, text, filepath.Join(dir, "parts")); err != nil || r.Status != ledger.Finished {
		t.Fatalf("%+v, %v", r, err)
	}
	same(t, "after a reward failed", contents(t, filepath.Join(dir, "whole")), contents(t, filepath.Join(dir, "parts")))
}

// runSaying runs a file, and returns its log. A folder that holds a run is gone on with.
func runSaying(t *testing.T, text, dir string) (*ledger.Result, string, error) {
	t.Helper()
	return runUntil(context.Background(), t, text, dir, func(string) {})
}

// runUntil is runSaying until ctx ends, with each saying as it is said.
func runUntil(ctx context.Context, t *testing.T, text, dir string, hears func(string)) (*ledger.Result, string, error) {
	t.Helper()
	be := fastest(t, 2)
	defer be.Close()
	sets := []string{tiny(t), "evaluate.prompts=''", "loss.noise_floor=off"} // which takes longest
	var said bytes.Buffer
	r, err := Run(ctx, parseText(t, text, sets...), Options{Dir: dir, Resume: begun(dir), Backend: be, Logf: func(format string, args ...any) {
		fmt.Fprintf(&said, format+"\n", args...)
		hears(fmt.Sprintf(format, args...))
	}})
	return r, said.String(), err
}

// checkGuarded: the ledger counts missing scores, and names iterations that moved the weights.
func checkGuarded(t *testing.T, dir string, learned int, missing []int) {
	t.Helper()
	lines, _, err := ledger.Read(filepath.Join(dir, "ledger.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	moved := 0
	for _, l := range lines {
		got = append(got, l.Total.Missing)
		if len(l.Updates) > 0 {
			moved++
		}
		if (len(l.Updates) == 0) != (l.Passed != "") {
			t.Errorf("iteration %d has %d updates and passed because %q", l.Iteration, len(l.Updates), l.Passed)
		}
	}
	if moved != learned || !slices.Equal(got, missing) {
		t.Errorf("%d iterations moved the weights, %d should; missing were %v, want %v", moved, learned, got, missing)
	}
	if len(lines) > 0 && lines[0].Check != nil && (lines[0].Check.Ratio != 1 || lines[0].Check.Transitions != 8) {
		t.Errorf("%+v", lines[0].Check)
	}
}
