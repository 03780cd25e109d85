// Command methods compares every preset under one configuration: held-out scores before and after, over some seeds, and
// the processor's seconds. It writes docs/results.md from the runs that are finished.
//
//	go run ./internal/methods -darkroom runs/results/darkroom   // make results
//	go run ./internal/methods -seeds 0                          // the page alone
//
// A run is a folder of darkroom train. One that is finished is not run again, one that was interrupted goes on; seed 1
// of all presets comes first. Results are kept in docs/results.jsonl, too, for another machine. Start with
// presets.go: generator.toml and zoom.toml have the common settings.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
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
