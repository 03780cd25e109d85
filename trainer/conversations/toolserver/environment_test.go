package toolserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// TestEnvironment: an environment is notified of the beginning of an episode, gets its calls by number, and returns
// its reward at the end; an episode without a call begins and ends, too. One that fails at any of them loses the
// episode, and nothing more is asked.
func TestEnvironment(t *testing.T) {
	var heard []string
	fails := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Version int
			Tool    string
			Episode string
			Reset   *struct {
				Prompt string
				Seed   int
				Meta   map[string]int
			}
			Call      int
			Arguments map[string]any
			End       bool
			Reply     string
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.Version != 1 || asked.Tool != "game" || asked.Episode != "3.1.4-1" {
			t.Errorf("asked %+v, %v", asked, err)
		}
		what, says := "", ""
		switch {
		case asked.Reset != nil:
			what, says = fmt.Sprint("reset ", asked.Reset.Prompt, asked.Reset.Seed, " row ", asked.Reset.Meta["row"]), `{}`
		case asked.End:
			what, says = "end "+asked.Reply, fmt.Sprintf(`{"reward": %d.5}`, len(heard))
		default:
			what, says = fmt.Sprint("call ", asked.Call, asked.Arguments["query"]), `{"text": "done"}`
		}
		if heard = append(heard, what); fails != "" && strings.HasPrefix(what, fails) {
			says = `{"error": "out of order", "text": 4}`
		}
		fmt.Fprint(w, says)
	}))
	defer server.Close()
	s := experiment.Served{}
	s.SetDefaults()
	s.Name, s.URL, s.State, s.Tries = "game", server.URL, true, 1
	o, err := Open(&experiment.Episode{Served: []experiment.Served{s}}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	row := pytext.Ordered{Keys: []string{"row"}, Values: pytext.Object{"row": pytext.NewInt(5)}}
	play := func(calls int) (*Session, map[string]float64) {
		heard = nil
		asks := o.Begin(t.Context(), Episode{"3.1.4-1", "Win.", 7, row}, func(int, int) error { return nil }, nil)
		for range calls {
			if a, err := asks.Answer("game", asking("up")); err == nil && a.Text != "done" {
				t.Errorf("the answer is %+v", a)
			}
		}
		return asks, asks.End("Done.")
	}
	for calls, want := range []string{"reset Win.7 row 5|end Done.", "reset Win.7 row 5|call 1up|end Done.", "reset Win.7 row 5|call 1up|call 2up|end Done."} {
		asks, worth := play(calls)
		if got := strings.Join(heard, "|"); got != want || asks.Lost() != nil || worth["game"] != float64(calls)+1.5 {
			t.Errorf("%d calls: %s, worth %v, lost %v", calls, got, worth, asks.Lost())
		}
	}
	for what, want := range map[string]string{"reset": "cannot begin: out of order", "call": "no JSON object", "end": "cannot end: out of order"} {
		fails = what
		asks, worth := play(2)
		if err := asks.Lost(); err == nil || !strings.Contains(err.Error(), want) || worth != nil {
			t.Errorf("%s fails: %v, worth %v", what, err, worth)
		}
		if last := heard[len(heard)-1]; !strings.HasPrefix(last, what) {
			t.Errorf("%s fails, and %s is asked after it", what, last)
		}
	}
}

// TestEnvironmentOfLost: an episode that another tool loses is over for the environments that have begun it, and for no
// other one.
func TestEnvironmentOfLost(t *testing.T) {
	var heard []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Tool  string
			Reset any
			End   bool
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		switch {
		case asked.Tool == "search":
			http.Error(w, "out of order", http.StatusInternalServerError)
		case asked.End:
			heard = append(heard, asked.Tool+" end")
			fmt.Fprint(w, `{"reward": 1}`)
		case asked.Reset != nil:
			heard = append(heard, asked.Tool+" reset")
			fmt.Fprint(w, `{}`)
		default:
			fmt.Fprint(w, `{"text": "done"}`)
		}
	}))
	defer server.Close()
	e := &experiment.Episode{}
	for _, name := range []string{"another", "game", "search"} {
		s := experiment.Served{}
		s.SetDefaults()
		s.Name, s.URL, s.State, s.Tries = name, server.URL, name != "search", 1
		e.Served = append(e.Served, s)
	}
	o, err := Open(e, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	asks := o.Begin(t.Context(), Episode{"1.1.1-1", "Win.", 7, nil}, func(int, int) error { return nil }, nil)
	if _, err := asks.Answer("game", asking("up")); err != nil {
		t.Fatal(err)
	}
	if _, err := asks.Answer("search", asking("up")); err == nil {
		t.Fatal("the search has an answer")
	}
	if worth := asks.End(""); worth != nil || asks.Lost() == nil || !strings.Contains(asks.Lost().Error(), "tool search") {
		t.Errorf("worth %v, lost: %v", worth, asks.Lost())
	}
	if got := strings.Join(heard, "|"); got != "game reset|game end" {
		t.Errorf("environments heard %s", got)
	}
}

// TestEnvironmentDies: a program that dies takes the states of its episodes with it. They are lost, and none of them is
// continued by a new copy, which begins with nothing; an episode that begins after that has all it needs.
func TestEnvironmentDies(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("needs a shell, which is not here")
	}
	s := experiment.Served{}
	s.SetDefaults()
	// A counter of its requests. It dies of "die".
	s.Name, s.State, s.Tries, s.Command = "game", true, 3, []string{"sh", "-c", `k=0; while read -r line; do n=${line#*:}; n=${n%%,*}
case $line in *die*) echo "out of memory" >&2; exit 3;; esac
k=$((k+1)); printf '{"n":%s,"text":"%s","reward":%s}\n' $n $k $k; done`}
	o, err := Open(&experiment.Episode{Served: []experiment.Served{s}}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}()
	begin := func(name string) *Session {
		return o.Begin(t.Context(), Episode{name, "Win.", 7, nil}, func(int, int) error { return nil }, nil)
	}
	beside, breaks := begin("beside"), begin("breaks")
	if a, err := beside.Answer("game", asking("up")); err != nil || a.Text != "2" {
		t.Fatalf("%+v, %v", a, err)
	}
	if a, err := breaks.Answer("game", asking("die")); err == nil {
		t.Errorf("the program died, and the call has the answer %+v", a)
	}
	if worth := beside.End(""); worth != nil {
		t.Errorf("an episode whose state is gone is worth %v", worth)
	}
	for name, of := range map[string]*Session{"beside": beside, "breaks": breaks} {
		if err := of.Lost(); err == nil || !strings.Contains(err.Error(), "out of memory") {
			t.Errorf("%s: lost: %v", name, err)
		}
	}
	after := begin("after")
	if a, err := after.Answer("game", asking("up")); err != nil || a.Text != "2" || after.End("")["game"] != 3 {
		t.Errorf("an episode after it: %+v, lost: %v", a, after.Lost())
	}
}
