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
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"

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
	result, err := run.Run(ctx, e, run.Options{Dir: dir, Backend: backend, Say: func(string, ...any) {},
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
