package fleet

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
)

// TestMetrics: the numbers of each role under names that are declared once.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, idle := newCrew(t, Options{}), newCrew(t, Options{})
		stop, _ := c.join("a", takes)
		c.do(3)
		var text bytes.Buffer
		if err := WriteMetrics(&text, []string{"roll", "score"}, []*Fleet{c.f, idle.f}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"# TYPE darkroom_fleet_done_total counter\ndarkroom_fleet_done_total{role=\"roll\"} 3\ndarkroom_fleet_done_total{role=\"score\"} 0\n",
			"darkroom_fleet_workers{role=\"roll\"} 1\n", "darkroom_fleet_jobs_left{role=\"roll\"} 0\n"} {
			if strings.Count(text.String(), want) != 1 {
				t.Errorf("%q is not there once:\n%s", want, text.String())
			}
		}
		c.end(stop)
		idle.end()
	})
}

// TestMetricsListed: deploy/README.md has every number, with its kind and its meaning.
func TestMetricsListed(t *testing.T) {
	text, err := os.ReadFile("../../deploy/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range measures() {
		if row := fmt.Sprintf("| `darkroom_fleet_%s` | %s | %s |", m.name, m.kind, m.help); !strings.Contains(string(text), row) {
			t.Errorf("deploy/README.md lacks %s", row)
		}
	}
	if n := strings.Count(string(text), "\n| `darkroom_fleet_"); n != len(measures()) {
		t.Errorf("deploy/README.md lists %d numbers, and there are %d", n, len(measures()))
	}
}
