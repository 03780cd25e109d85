package run

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/fleet"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// TestAllowed: a worker starts no program of the trainer's and hands over no variable of its environment unless it was
// told that it may. What it refuses it says with the remedy; of several rewards it asks those that it may ask.
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
