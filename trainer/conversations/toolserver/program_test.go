package toolserver

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// TestOutsidePrograms: a program's lines are answers as a server's are, and each way to fail is an error: the episode
// is lost, and the next call finds a program that works.
func TestOutsidePrograms(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("needs a shell, which is not here")
	}
	answers := func(with string) string {
		return `while read -r line; do n=${line#*:}; n=${n%%,*}; ` + with + `; done`
	}
	broken := filepath.Join(t.TempDir(), "broken")
	for _, c := range []struct {
		name, script        string
		text, refused, lost string
	}{
		{"good", answers(`printf '{"n":%s,"text":"found"}\n' $n`), "found", "", ""},
		{"without numbers", answers(`echo '{"text":"found"}'`), "found", "", ""},
		{"what it is asked", answers(`case $line in '{"n":'*',"version": 1, "tool": "search", "arguments": {"query": "cats"}}') printf '{"n":%s,"text":"as said"}\n' $n;; esac`), "as said", "", ""},
		{"refuses", answers(`printf '{"n":%s,"error":"no such query"}\n' $n`), "", "no such query", ""},
		{"recovers", `if [ ! -e ` + broken + ` ]; then : > ` + broken + `; exit 1; fi; ` + answers(`printf '{"n":%s,"text":"late"}\n' $n`), "late", "", ""},
		{"dies", `echo "out of memory" >&2; exit 3`, "", "", "out of memory"},
		{"slow", `read -r line; sleep 60`, "", "", "no answer in time"},
		{"lies", answers(`echo 'all is well'`), "", "", "no answer in time (500ms); it wrote: all is well"},
		{"another's answer", answers(`echo '{"n":99,"text":"found"}'`), "", "", "carries n = 99"},
		{"empty", answers(`printf '{"n":%s}\n' $n`), "", "", "neither a text nor images"},
	} {
		s := experiment.Served{}
		s.SetDefaults()
		s.Name, s.Command, s.Tries, s.Timeout, s.Cache = "search", []string{"sh", "-c", c.script}, 2, 20, false
		if c.name == "slow" || c.name == "lies" {
			s.Timeout = 0.5
		}
		o, err := Open(&experiment.Episode{Served: []experiment.Served{s}}, "")
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // each in an episode of its own
			asks := o.Begin(t.Context(), Episode{}, func(int, int) error { return nil }, nil)
			a, err := asks.Answer("search", asking("cats"))
			if lost := asks.Lost(); (lost != nil) != (c.lost != "") || lost != nil && !strings.Contains(lost.Error(), c.lost) || (err != nil) != (lost != nil) {
				t.Errorf("%s: %v, lost: %v, want %q", c.name, err, lost, c.lost)
			}
			if a.Text != c.text || a.Refused != c.refused {
				t.Errorf("%s: %+v", c.name, a)
			}
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := Open(&experiment.Episode{Served: []experiment.Served{{Name: "a", Command: []string{"/no/such/program"}}}}, ""); err == nil || !strings.Contains(err.Error(), "tool a: the program") {
		t.Errorf("a program that there is not: %v", err)
	}
}
