package eval

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/data/suites"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer/conversations/chat"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/trained"
	"github.com/darkroom-rl/darkroom/vision"
)

// TestSuiteTurns: a run's suites have as many turns as its evaluations, unless a flag says otherwise.
func TestSuiteTurns(t *testing.T) {
	for _, c := range []struct{ flag, evaluate, want int }{{0, 32, 32}, {0, 0, 6}, {2, 32, 2}} {
		r := &trained.Run{Experiment: &experiment.Experiment{}}
		r.Experiment.Evaluate.Turns = c.evaluate
		o, e := suiteOptions{}, &experiment.Episode{}
		if o.Turns = c.flag; c.flag == 0 {
			e.Turns = 6
		} else {
			e.Turns = c.flag // as asked has it
		}
		if o.evaluated(r, e); e.Turns != c.want {
			t.Errorf("%+v: %d turns", c, e.Turns)
		}
	}
}

// TestSuiteWithTools: tools outside that a run names are asked while a suite is answered, and stand in its card. A
// question that one loses is asked again; lost twice it is counted, and not right. A tool that is gone ends the suite.
func TestSuiteWithTools(t *testing.T) {
	if testing.Short() {
		t.Skip("asks a model with tools for many answers; left out by -short")
	}
	var begun, ended atomic.Int64
	broken, fails := false, map[int64]bool{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil || broken {
			http.Error(w, "gone", http.StatusBadRequest)
			return
		}
		if strings.Contains(string(text), `"reset"`) {
			if n := begun.Add(1); fails[n] {
				http.Error(w, "busy", http.StatusBadRequest)
				return
			}
		}
		if strings.Contains(string(text), `"end"`) {
			ended.Add(1)
		}
		fmt.Fprint(w, "{}")
	}))
	defer s.Close()
	e := &experiment.Episode{}
	e.SetDefaults()
	e.Protocol, e.Turns, e.TurnTokens, e.Sampling.TopK = "darkroom", 1, 4, 1
	game := experiment.Served{}
	game.SetDefaults()
	game.Name, game.URL, game.State, game.Tries = "game", s.URL, true, 1
	e.Served = []experiment.Served{game}
	dir, err := assets.Resolve("embed:tiny-vlm")
	if err != nil {
		t.Fatal(err)
	}
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	speaker, err := chat.Open(dir, chat.Options{Pool: tensor.NewPool(be)})
	if err != nil {
		t.Fatal(err)
	}
	defer speaker.Close()
	protocol, err := e.Play()
	if err != nil {
		t.Fatal(err)
	}
	var o suiteOptions
	p, leave, err := o.Policy(context.Background(), speaker, protocol, e)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	f, err := os.Create(filepath.Join(folder, "a.png"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(vision.EncodePNG(f, vision.New(64, 64)), f.Close()); err != nil {
		t.Fatal(err)
	}
	var rows []string
	for i := range 12 {
		rows = append(rows, fmt.Sprintf(`{"question_id": "%d", "image": "a.png", "text": "Which?\n(A) one\n(B) two", "label": "A", "category": "all"}`, i))
	}
	file := filepath.Join(folder, "vstar.jsonl")
	if err := os.WriteFile(file, []byte(strings.Join(rows, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	set, err := suites.Open("vstar", file)
	if err != nil {
		t.Fatal(err)
	}
	cmd := &cobra.Command{}
	cmd.SetErr(io.Discard)
	answers, err := o.answers(cmd, p, e, set)
	if n := int64(len(set.Questions)); err != nil || len(answers) != int(n) || begun.Load() != n || ended.Load() != n {
		t.Errorf("%d of %d questions are answered, %d begun and %d ended for the tool, %v", len(answers), n, begun.Load(), ended.Load(), err)
	}
	o.Model = "embed:tiny-vlm"
	how, err := o.how(nil, e, dir)
	if err != nil {
		t.Fatal(err)
	}
	if card := set.Result(answers, how).Card(); !strings.Contains(card, "| tools outside | game ("+s.URL+") |") {
		t.Errorf("the card does not name the tool:\n%s", card)
	}
	rolled := int64(min(len(set.Questions), 4*p.AtOnce()))
	for _, lost := range []int{0, 1} { // the third question's first try, then its second one, too
		begun.Store(0)
		if fails[3] = true; lost > 0 {
			fails[rolled+1] = true
		}
		answers, err := o.answers(cmd, p, e, set)
		if r := set.Result(answers, how); err != nil || len(answers) != len(set.Questions) || r.Lost != lost || strings.Contains(r.Card(), "lost by a tool outside, counted as not right | 1 |") != (lost > 0) {
			t.Errorf("%d lost of %d questions, %d asked for, %v", r.Lost, len(answers), lost, err)
		}
	}
	broken = true
	if _, err := o.answers(cmd, p, e, set); err == nil || !strings.Contains(err.Error(), "tool game") {
		t.Errorf("a tool that fails: %v", err)
	}
	if err := leave(); err != nil {
		t.Error(err)
	}
}
