package main

import (
	"fmt"
	"io"
	"math"
)

// What workers (train --listen) would change, by a probe: of use are as many as have something to do before the trainer
// is what the others wait for. Workers are taken to be as fast as this machine, and the network to take no time.
//
//	lag 0   an iteration is its rolls, shared out by whole groups to the workers and the trainer, and then scores and
//	        training:                    S + T + R ceil(P/(n+1))/P
//	lag k   rolls go on beside training, up to P (k+1) groups at once:   max(S + T, R/min(n, P (k+1)))

// workersPlan says so.
type workersPlan struct {
	Groups  int             `json:"groups"` // that can be rolled at once
	Most    int             `json:"most"`   // workers that are of use
	Seconds []workersTiming `json:"seconds"`
}

// workersTiming is an iteration with so many workers.
type workersTiming struct {
	Workers int     `json:"workers"`
	Seconds float64 `json:"seconds_per_iteration"`
}

// workersOf predicts, from the parts of an iteration of so many groups.
func workersOf(parts map[string]float64, groups, lag int) *workersPlan {
	roll, rest := parts["roll"], parts["score"]+parts["train"]
	if roll <= 0 || rest <= 0 || groups < 1 {
		return nil
	}
	p := &workersPlan{Groups: groups * (lag + 1)}
	of := func(n int) float64 {
		if lag == 0 {
			return rest + roll*math.Ceil(float64(groups)/float64(n+1))/float64(groups)
		}
		return max(rest, roll/float64(min(n, p.Groups)))
	}
	if p.Most = groups - 1; lag > 0 {
		p.Most = min(p.Groups, int(math.Ceil(roll/rest)))
	}
	for n := 1; n < p.Most; n *= 2 {
		p.Seconds = append(p.Seconds, workersTiming{n, of(n)})
	}
	if p.Most > 0 {
		p.Seconds = append(p.Seconds, workersTiming{p.Most, of(p.Most)})
	}
	return p
}

func (p *workersPlan) write(w io.Writer) {
	if p == nil || len(p.Seconds) == 0 {
		return
	}
	fmt.Fprintf(w, "\nworkers ('train --listen'), where each is as fast as this machine: up to %s are of use, for %s can be rolled at once\n", plural(int64(p.Most), "worker"), plural(int64(p.Groups), "group"))
	t := table{header: []string{">WORKERS", ">AN ITERATION"}}
	for _, s := range p.Seconds {
		t.add(fmt.Sprint(s.Workers), fmt.Sprintf("about %.3g s", s.Seconds))
	}
	t.write(w)
}
