package main

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"
)

// A measured run is a program's result with a seed.
type measured struct {
	FirstReward float64            `json:"first_reward"` // of the first iteration's samples
	Seconds     map[string]float64 `json:"seconds"`      // of an iteration, by part, without the first
	HeldOut     []point            `json:"heldout"`
}

// A point is a held-out reward after a time of training.
type point struct {
	Seconds float64 `json:"seconds"`
	Mean    float64 `json:"mean"`
}

// at is the held-out reward at a time, between the evaluations before and after it; NaN after the
// last one.
func (m measured) at(seconds float64) float64 {
	for i, p := range m.HeldOut {
		if p.Seconds < seconds {
			continue
		}
		if i == 0 || p.Seconds == seconds {
			return p.Mean
		}
		before := m.HeldOut[i-1]
		share := (seconds - before.Seconds) / (p.Seconds - before.Seconds)
		return before.Mean + share*(p.Mean-before.Mean)
	}
	return math.NaN()
}

// over is a mean over seeds, with the least and the greatest.
func over(runs []measured, value func(measured) float64) string {
	sum, least, most := 0.0, math.Inf(1), math.Inf(-1)
	for _, r := range runs {
		v := value(r)
		sum, least, most = sum+v, min(least, v), max(most, v)
	}
	if math.IsNaN(sum) || len(runs) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f (%.3f to %.3f)", sum/float64(len(runs)), least, most)
}

func mean(runs []measured, value func(measured) float64) float64 {
	sum := 0.0
	for _, r := range runs {
		sum += value(r)
	}
	return sum / float64(len(runs))
}

// write prints the table.
func write(w io.Writer, ours, theirs []measured, every float64) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "mean over %d seeds (least to greatest)\tdarkroom\tPyTorch\tdarkroom / PyTorch\n", len(ours))
	parts := []struct{ key, name string }{{"roll", "sampling, s/iteration"}, {"score", "decoding and reward, s/iteration"}, {"train", "training, s/iteration"}, {"all", "all, s/iteration"}}
	for _, p := range parts {
		value := func(m measured) float64 { return m.Seconds[p.key] }
		fmt.Fprintf(t, "%s\t%s\t%s\t%.2f\n", p.name, over(ours, value), over(theirs, value), mean(ours, value)/mean(theirs, value))
	}
	first := func(m measured) float64 { return m.FirstReward }
	fmt.Fprintf(t, "reward of the first iteration\t%s\t%s\t\n", over(ours, first), over(theirs, first))
	for seconds := 0.0; ; seconds += every {
		value := func(m measured) float64 { return m.at(seconds) }
		a, b := over(ours, value), over(theirs, value)
		if a == "-" || b == "-" { // one of them has ended
			break
		}
		fmt.Fprintf(t, "held-out reward after %.0f s of training\t%s\t%s\t%+.3f\n", seconds, a, b, mean(ours, value)-mean(theirs, value))
	}
	last := func(m measured) float64 { return m.HeldOut[len(m.HeldOut)-1].Mean }
	fmt.Fprintf(t, "held-out reward at the end\t%s\t%s\t%+.3f\n", over(ours, last), over(theirs, last), mean(ours, last)-mean(theirs, last))
	return t.Flush()
}
