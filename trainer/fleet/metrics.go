package fleet

import (
	"fmt"
	"io"
)

// measure is a number of a fleet.
type measure struct {
	name, kind, help string
	of               func(s *Scheduler) int
}

// measures are the metrics for Prometheus.
func measures() []measure {
	return []measure{
		{"workers", "gauge", "Workers that are there, the trainer not among them.", (*Scheduler).Workers},
		{"jobs_left", "gauge", "Jobs that are asked for and have no result.", (*Scheduler).Left},
		{"jobs_waiting", "gauge", "Copies of jobs that nobody has begun.", (*Scheduler).Waiting},
		{"jobs_total", "counter", "Jobs that were asked for.", func(s *Scheduler) int { return s.Jobs }},
		{"done_total", "counter", "Jobs that have a result.", func(s *Scheduler) int { return s.Done }},
		{"repeated_total", "counter", "Further results of a job, with the same bytes.", func(s *Scheduler) int { return s.Again }},
		{"disagreed_total", "counter", "Further results of a job, with other bytes.", func(s *Scheduler) int { return s.Differed }},
		{"late_total", "counter", "Results that nobody waits for.", func(s *Scheduler) int { return s.Late }},
		{"expired_total", "counter", "Leases of workers that fell silent.", func(s *Scheduler) int { return s.Expired }},
		{"failed_total", "counter", "Tries that came to nothing.", func(s *Scheduler) int { return s.Counts.Failed }},
		{"lost_total", "counter", "Copies of jobs that were offered again, since nobody took them.", func(s *Scheduler) int { return s.Lost }},
		{"hedged_total", "counter", "Jobs that a second worker was given, since the first took long.", func(s *Scheduler) int { return s.Hedged }},
		{"here_total", "counter", "Jobs that were left to the trainer.", func(s *Scheduler) int { return s.Here }},
		{"dismissed", "gauge", "Workers whose results had other bits.", func(s *Scheduler) int { return s.out }},
	}
}

// WriteMetrics says the numbers of the fleets of some roles in Prometheus' text format (version 0.0.4).
func WriteMetrics(w io.Writer, roles []string, fleets []*Fleet) error {
	for _, m := range measures() {
		name := "darkroom_fleet_" + m.name
		if _, err := fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, m.help, name, m.kind); err != nil {
			return err
		}
		for i, f := range fleets {
			f.mu.Lock()
			n := m.of(f.sched)
			f.mu.Unlock()
			if _, err := fmt.Fprintf(w, "%s{role=%q} %d\n", name, roles[i], n); err != nil {
				return err
			}
		}
	}
	return nil
}
