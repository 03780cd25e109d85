package plan

import (
	"fmt"
	"io"
	"math"

	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// Gradients on workers ('darkroom worker --roles gradient'): their traffic, by the size of a gradient. In each update
// weights go to every worker, with points of the network and gradients there, and a gradient comes back from every job.

// gradientPlan says so, of a run whose gradients are summed in shards.
type gradientPlan struct {
	Shards  int   `json:"shards"`
	Bytes   int64 `json:"bytes"`                  // of a gradient, and of the weights
	Points  int64 `json:"points_bytes,omitempty"` // of an update, with the gradients at their outputs; 0: of text
	Travels bool  `json:"travels"`
	Here    bool  `json:"here,omitempty"` // the trainer computes some by itself: of lessons, or with a teacher
}

// pointsOf are the bytes of the points of the stage that has most.
func pointsOf(p *experiment.Plan, each int64) (most int64) {
	for _, s := range p.Stages {
		if s.Counts != nil {
			most = max(most, int64(math.Ceil(s.Counts.Judged))*each)
		}
	}
	return most
}

// gradientsOf is nil where nothing is parted, or the size is unknown.
func gradientsOf(e *experiment.Experiment, gradient, points int64) *gradientPlan {
	if !e.Run.Parted() || gradient == 0 {
		return nil
	}
	p := &gradientPlan{Shards: e.Run.Shards, Bytes: gradient, Points: points, Travels: gradient <= model.MostGradient, Here: e.Model.Teacher != ""}
	for _, at := range e.EachStage() {
		p.Here = p.Here || at.Supervised() || at.Imitates()
	}
	return p
}

func (p *gradientPlan) write(w io.Writer) {
	if p == nil {
		return
	}
	if !p.Travels {
		fmt.Fprintf(w, "\ngradients on workers: none, for a gradient has %s, and at most %s travel; model.train = \"lora\" has less\n", console.Bytes(p.Bytes), console.Bytes(model.MostGradient))
		return
	}
	took := func(bytes int64, gigabits float64) string {
		return fmt.Sprintf("%.2g s", float64(bytes)*8/(gigabits*1e9))
	}
	all := int64(p.Shards) * p.Bytes
	fmt.Fprintf(w, "\ngradients on workers ('darkroom worker --roles roll,gradient'): up to %s are of use, for %d shards;\n"+
		"in each update %s of weights go to each worker, and as much comes back from each job: %s at 10 Gb/s, %s at 1 Gb/s;\n"+
		"the trainer's wire takes two of them for each worker, and at most %s: %s at 10 Gb/s, %s at 1 Gb/s\n",
		console.Plural(int64(p.Shards-1), "worker"), p.Shards, console.Bytes(p.Bytes), took(p.Bytes, 10), took(p.Bytes, 1), console.Bytes(all), took(all, 10), took(all, 1))
	if p.Points > 0 {
		fmt.Fprintf(w, "points of the network and the gradients there: about %s an update, to all workers together: %s at 10 Gb/s, %s at 1 Gb/s\n",
			console.Bytes(p.Points), took(p.Points, 10), took(p.Points, 1))
	}
	if p.Here {
		fmt.Fprintln(w, "the trainer alone computes updates that learn from lessons, and a teacher's outputs")
	}
}
