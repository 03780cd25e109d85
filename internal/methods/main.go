// Command methods compares every preset under one configuration: held-out scores before and after, over some seeds, and
// the processor's seconds. It writes docs/results.md from the runs that are finished.
//
//	go run ./internal/methods -darkroom runs/results/darkroom   // make results
//	go run ./internal/methods -seeds 0                          // the page alone
//
// A run is a folder of darkroom train. One that is finished is not run again, one that was interrupted goes on; seed 1
// of all presets comes first. Results are kept in docs/results.jsonl, too, for another machine. Start with
// entry: generator.toml and zoom.toml have the common settings.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

func main() {
	binary := flag.String("darkroom", "darkroom", "the program")
	out := flag.String("out", "runs/results", "folder of all runs")
	page := flag.String("page", "docs/results.md", "what is written")
	seeds := flag.Int("seeds", 3, "runs of a preset; 0: none, the page is written from what is there")
	only := flag.String("only", "", "presets to run, separated by commas; empty: all")
	parallel := flag.Int("parallel", 1, "runs at a time, which share the cores")
	flag.Parse()
	if err := work(*binary, *out, *page, *seeds, max(*parallel, 1), *only); err != nil {
		fmt.Fprintln(os.Stderr, "methods:", err)
		os.Exit(1)
	}
}

func work(binary, out, page string, seeds, parallel int, only string) error {
	wanted := map[string]bool{}
	for name := range strings.SplitSeq(only, ",") {
		wanted[name] = true
	}
	if err := restore(page, out); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt) // runs under way receive it too, and save
	defer stop()
	threads := max(runtime.NumCPU()/parallel, 1)
	var all sync.WaitGroup
	var writing sync.Mutex
	var failed error
	slots := make(chan struct{}, parallel)
	for seed := 1; seed <= seeds; seed++ {
		for _, e := range entries() {
			if e.why != "" || only != "" && !wanted[e.preset] {
				continue
			}
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				if ctx.Err() != nil {
					return
				}
				if err := e.run(binary, out, seed, threads); err != nil {
					fmt.Fprintf(os.Stderr, "%s, seed %d: %v\n", e.preset, seed, err)
				}
				writing.Lock()
				defer writing.Unlock()
				failed = errors.Join(failed, write(page, out))
			})
		}
	}
	all.Wait()
	return errors.Join(failed, write(page, out))
}

func write(page, out string) error {
	text, err := pageOf(out)
	if err != nil {
		return err
	}
	lines, err := linesOf(out)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Clean(beside(page)), lines, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Clean(page), []byte(text), 0o644)
}

//go:embed generator.toml
var generator string

//go:embed zoom.toml
var zoom string

// An entry is a preset with its configuration.
type entry struct {
	preset string
	base   string   // of the two files above
	sets   []string // keys that the base cannot have for it
	note   string   // their description
	why    string   // it is not run
}

// kind is the kind of model that the preset trains.
func (e entry) kind() string {
	if e.base == zoom {
		return "episodes"
	}
	return "generators"
}

// exceptions are presets that the common configuration does not fit.
var exceptions = map[string]entry{
	"branchgrpo":    {sets: []string{"rollout.group=16", "rollout.prompts_per_iteration=3"}, note: "3 prompts × 16: a group is its tree's leaves"},
	"tempflow":      {sets: []string{"rollout.group=6", "rollout.prompts_per_iteration=8"}, note: "8 prompts × 6: a group is a trunk's branches"},
	"flow_dpo":      {sets: []string{"optim.split=false", "loss.times=3"}, note: "each update sees all pairs, others half of the samples; 3 times of each, not 39"},
	"awm":           {sets: []string{"loss.time_range=[1,9]", "optim.ema=0.3"}, note: "times of steps 1 to 8 of 10, not 1 to 11 of 14; an average of the weights, which its KL is taken to"},
	"cppo":          {sets: []string{"advantage.best_of=4"}, note: "the larger half of a group of 8, not of 16"},
	"flash_grpo":    {sets: []string{"sampler.window.size=5"}, note: "one of the first 5 of 10 steps, not 10 of 20"},
	"longcat":       {sets: []string{"sampler.window.drop=6"}, note: "6 of 10 steps are not drawn at, not 10 of 16"},
	"g2rpo_a":       {sets: []string{"rollout.prompts=embed:zoom-solved", "episode.guided.tokens=12"}, note: "12 tokens of a call at first, not 3,072; a group of 8 has 1 guided answer"},
	"tree_grpo":     {sets: []string{"rollout.group=6", "rollout.prompts_per_iteration=11"}, note: "11 prompts × 6: a group is two trees"},
	"single_stream": {sets: []string{"rollout.group=1", "rollout.prompts_per_iteration=64"}, note: "64 prompts × 1"},
	"ddpo":          {why: "it is for variance-preserving models; the embedded generator is a flow"},
}

// entries are all presets, generators first.
func entries() (all []entry) {
	var talk []entry
	for _, p := range experiment.Presets() {
		e := exceptions[p.Name.Name]
		if e.preset = p.Name.Name; strings.Contains(p.Text, "[sampler]") {
			e.base = generator
			all = append(all, e)
			continue
		}
		e.base = zoom
		talk = append(talk, e)
	}
	return append(all, talk...)
}
