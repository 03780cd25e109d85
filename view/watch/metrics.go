package watch

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/view/report"
)

// metrics says all runs' latest numbers in Prometheus' text format (version 0.0.4).
func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	s.mu.RLock()
	runs := make([]report.Summary, 0, len(s.summaries))
	for _, one := range s.summaries {
		runs = append(runs, one)
	}
	s.mu.RUnlock()
	slices.SortFunc(runs, func(a, b report.Summary) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	writeMetrics(w, runs)
}

// A family is a metric with its values.
type family struct {
	name, kind, help string
	values           func(r report.Summary, add func(v float64, labels ...string))
}

func families() []family {
	one := func(of func(r report.Summary) float64) func(report.Summary, func(float64, ...string)) {
		return func(r report.Summary, add func(float64, ...string)) { add(of(r)) }
	}
	return []family{
		{"darkroom_iteration", "gauge", "Iterations that are finished.", one(func(r report.Summary) float64 { return float64(r.Iterations) })},
		{"darkroom_iterations_planned", "gauge", "Iterations that the experiment asks for.", one(func(r report.Summary) float64 { return float64(r.Planned) })},
		{"darkroom_under_way", "gauge", "1 until the run has ended.", one(func(r report.Summary) float64 { return truth(r.Live) })},
		{"darkroom_reward", "gauge", "Mean total of the latest iteration's training samples.", func(r report.Summary, add func(float64, ...string)) {
			if n := len(r.Reward.Y); n > 0 {
				add(r.Reward.Y[n-1])
			}
		}},
		{"darkroom_heldout", "gauge", "Latest mean of a reward on held-out prompts.", func(r report.Summary, add func(float64, ...string)) {
			for _, g := range r.Gains {
				if g.After != nil {
					add(g.After.Mean, "reward", g.Name, "kind", g.Kind)
				}
			}
		}},
		{"darkroom_gain", "gauge", "Held-out gain since before training; bound is mean, or an end of its 95 % interval.", func(r report.Summary, add func(float64, ...string)) {
			for _, g := range r.Gains {
				if g.Known {
					add(g.Value, "reward", g.Name, "kind", g.Kind, "bound", "mean")
				}
				if g.Known && g.Certain {
					add(g.Low, "reward", g.Name, "kind", g.Kind, "bound", "low")
					add(g.High, "reward", g.Name, "kind", g.Kind, "bound", "high")
				}
			}
		}},
		{"darkroom_monitors_fired", "gauge", "Monitors that fired so far, rollbacks among them.", one(func(r report.Summary) float64 { return float64(r.Fired) })},
		{"darkroom_seconds", "gauge", "Seconds of all finished iterations.", one(func(r report.Summary) float64 { return r.Seconds })},
		{"darkroom_written_timestamp_seconds", "gauge", "When the run's ledger was written last, in Unix time.", one(func(r report.Summary) float64 { return float64(r.Written) })},
	}
}

func writeMetrics(w io.Writer, runs []report.Summary) {
	fmt.Fprintf(w, "# HELP darkroom_runs Runs that are watched.\n# TYPE darkroom_runs gauge\ndarkroom_runs %d\n", len(runs))
	for _, f := range families() {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind)
		for _, r := range runs {
			f.values(r, func(v float64, labels ...string) {
				fmt.Fprintf(w, "%s{%s} %s\n", f.name, labelled(append([]string{"run", r.Name}, labels...)), strconv.FormatFloat(v, 'g', -1, 64))
			})
		}
	}
}

// labelled are names and values as the format wants them.
func labelled(pairs []string) string {
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	var all []string
	for i := 0; i+1 < len(pairs); i += 2 {
		all = append(all, pairs[i]+`="`+quote.Replace(strings.ToValidUTF8(pairs[i+1], "\ufffd"))+`"`)
	}
	return strings.Join(all, ",")
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
