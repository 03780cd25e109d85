package main

import (
	"bufio"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"text/tabwriter"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/run"
	"github.com/darkroom-rl/darkroom/view/report"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

//go:embed peer.toml
var experimentText []byte

//go:embed peer.py
var program []byte

type options struct {
	python, out                string
	seeds, iterations, threads int
	ours                       int
	every                      float64
}

func main() {
	var o options
	flag.StringVar(&o.python, "python", "peer/bin/python", "a Python with torch, diffusers, transformers, peft, numpy and scipy")
	flag.StringVar(&o.out, "out", filepath.Join("runs", "peer"), "where runs are kept; it must be empty")
	flag.IntVar(&o.seeds, "seeds", 3, "how many")
	flag.IntVar(&o.iterations, "iterations", 60, "of each run; times are compared until the faster program has ended")
	flag.IntVar(&o.ours, "ours", 0, "iterations of Darkroom's runs, where they are others: as many as take the other program's time, say")
	flag.IntVar(&o.threads, "threads", runtime.NumCPU(), "of both programs")
	flag.Float64Var(&o.every, "every", 60, "seconds between two compared held-out rewards")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := compare(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "sidebyside:", err)
		os.Exit(1)
	}
}

func compare(ctx context.Context, o options) error {
	if _, err := exec.LookPath(o.python); err != nil {
		return fmt.Errorf("%w\nhint: -python names one; doc.go says what it needs", err)
	}
	out, err := filepath.Abs(o.out)
	if err != nil {
		return err
	}
	if files, err := os.ReadDir(out); err == nil && len(files) > 0 {
		return fmt.Errorf("%s is not empty\nhint: -out names another folder", o.out)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	train, heldOut := captions()
	script := filepath.Join(out, "peer.py")
	if err := errors.Join(writeCaptions(out, train, heldOut), os.WriteFile(script, program, 0o644)); err != nil {
		return err
	}
	var ours, theirs []measured
	for seed := 1; seed <= o.seeds; seed++ {
		of := func(iterations int) (*experiment.Experiment, error) {
			return experiment.Parse("peer.toml", experimentText, []string{fmt.Sprintf("run.seed=%d", seed), fmt.Sprintf("run.iterations=%d", iterations),
				fmt.Sprintf("rollout.prompts=%q", filepath.Join(out, "train.txt")), fmt.Sprintf("evaluate.prompts=%q", filepath.Join(out, "heldout.txt"))})
		}
		long, err := of(cmp.Or(o.ours, o.iterations))
		if err != nil {
			return err
		}
		e, err := of(o.iterations)
		if err != nil {
			return err
		}
		m, err := darkroom(ctx, long, o, filepath.Join(out, fmt.Sprintf("darkroom-%d", seed)))
		if err != nil {
			return fmt.Errorf("darkroom, seed %d: %w", seed, err)
		}
		ours = append(ours, m)
		if m, err = pytorch(ctx, e, o, script, filepath.Join(out, fmt.Sprintf("pytorch-%d", seed)), train, heldOut); err != nil {
			return fmt.Errorf("PyTorch, seed %d: %w", seed, err)
		}
		theirs = append(theirs, m)
	}
	text, err := json.MarshalIndent(map[string]any{"darkroom": ours, "pytorch": theirs}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "sidebyside.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	return write(os.Stdout, ours, theirs, o.every)
}

// darkroom trains with our own engine.
func darkroom(ctx context.Context, e *experiment.Experiment, o options, dir string) (measured, error) {
	path, err := isa.Choose()
	if err != nil {
		return measured{}, err
	}
	backend := cpu.NewWith(cpu.Options{Path: path, Threads: o.threads})
	defer backend.Close()
	result, err := run.Run(ctx, e, run.Options{Dir: dir, Backend: backend, Logf: func(string, ...any) {},
		Report: func(l *ledger.Line, t *ledger.TimingLine) {
			fmt.Fprintf(os.Stderr, "darkroom, seed %d, iteration %d: reward %.3f, %.2f s\n", e.Run.Seed, l.Iteration, l.Total.Mean, ledger.Work(t.Seconds))
		}})
	if err != nil {
		return measured{}, err
	}
	if result.Status != ledger.Finished {
		return measured{}, errors.New(result.Status)
	}
	run, err := report.Read(dir)
	if err != nil {
		return measured{}, err
	}
	m := measured{FirstReward: run.Lines[0].Total.Mean, Seconds: run.PerIteration()}
	for _, h := range run.HeldOut("total") {
		m.HeldOut = append(m.HeldOut, point{h.Seconds, h.Mean})
	}
	return m, report.Write(dir)
}

// pytorch trains with the other program.
func pytorch(ctx context.Context, e *experiment.Experiment, o options, script, stem string, train, heldOut []scenes.Scene) (measured, error) {
	j, err := newJob(e, o.threads, train, heldOut)
	if err != nil {
		return measured{}, err
	}
	if err := j.write(stem + ".json"); err != nil {
		return measured{}, err
	}
	fmt.Fprintf(os.Stderr, "PyTorch, seed %d: see %s.jsonl\n", e.Run.Seed, stem)
	cmd := exec.CommandContext(ctx, o.python, script, stem+".json", stem+".jsonl")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return measured{}, err
	}
	return readLines(stem + ".jsonl")
}

// readLines reads the other program's measurements. As on our side the first iteration is left out of
// the seconds, where there are others.
func readLines(path string) (measured, error) {
	f, err := os.Open(path)
	if err != nil {
		return measured{}, err
	}
	defer f.Close()
	m := measured{Seconds: map[string]float64{}}
	var all []map[string]float64
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var l map[string]float64
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return m, fmt.Errorf("%s: %w", path, err)
		}
		if _, ok := l["evaluated"]; ok {
			m.HeldOut = append(m.HeldOut, point{l["seconds"], l["mean"]})
			continue
		}
		all = append(all, l)
	}
	if len(all) == 0 || len(m.HeldOut) == 0 {
		return m, fmt.Errorf("%s holds no iterations", path)
	}
	m.FirstReward = all[0]["reward"]
	if len(all) > 1 {
		all = all[1:]
	}
	for _, l := range all {
		for _, part := range []string{"roll", "score", "train"} {
			m.Seconds[part] += l[part] / float64(len(all))
			m.Seconds["all"] += l[part] / float64(len(all))
		}
	}
	return m, nil
}

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
