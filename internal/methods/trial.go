package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/darkroom-rl/darkroom/record/ledger"
)

// A trial is a run that is finished.
type trial struct {
	seed          int
	before, after float64 // held out, under the trained reward
	cpu           float64 // seconds of the processor, evaluations included
}

func (e entry) folder(out string, seed int) string {
	return filepath.Join(out, fmt.Sprintf("%s-%d", e.preset, seed))
}

// run trains a preset with a seed, on a number of threads, unless that is done.
func (e entry) run(binary, out string, seed, threads int) error {
	dir := e.folder(out, seed)
	if _, done, err := e.finished(out, seed); done || err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	if err := os.Remove(dir + failedSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file := dir + ".toml"
	if err := os.WriteFile(file, []byte(e.base), 0o644); err != nil {
		return err
	}
	args := []string{"train", file, "--device", "cpu", "--out", dir, "--set", "preset=" + e.preset, "--set", fmt.Sprint("run.seed=", seed)}
	for _, s := range e.sets {
		args = append(args, "--set", s)
	}
	if _, err := os.Stat(dir); err == nil {
		args = append(args, "--resume")
	}
	log, err := os.OpenFile(dir+".log", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	c := exec.Command(binary, args...)
	c.Stdout, c.Stderr = log, log
	c.Env = append(os.Environ(), fmt.Sprint("GOMAXPROCS=", threads))
	err = c.Run()
	err = errors.Join(err, log.Close())
	if c.ProcessState != nil { // a run that goes on has taken all of its parts
		err = errors.Join(err, e.spend(out, seed, (c.ProcessState.UserTime()+c.ProcessState.SystemTime()).Seconds()))
	}
	if err != nil && !stopped(c.ProcessState) {
		err = errors.Join(err, os.WriteFile(dir+failedSuffix, []byte(lastLine(dir+".log")), 0o644))
	}
	if err != nil {
		return fmt.Errorf("%w\nhint: %s says why", err, dir+".log")
	}
	return nil
}

// failedSuffix ends the name of a file with the last line of a run that failed.
const failedSuffix = ".failed"

// interrupted is the program's exit code after Ctrl-C: the run goes on when it is asked for again.
const interrupted = 130

// stopped says of a run that it was interrupted, or ended from outside.
func stopped(s *os.ProcessState) bool {
	return s == nil || s.ExitCode() == interrupted || s.ExitCode() < 0
}

// failures are the last outputs of a preset's failed runs.
func (e entry) failures(out string) (all []string) {
	for seed := 1; seed <= mostSeeds; seed++ {
		if text, err := os.ReadFile(e.folder(out, seed) + failedSuffix); err == nil {
			all = append(all, fmt.Sprintf("seed %d failed: %s", seed, strings.ReplaceAll(string(text), "|", "\\|")))
		}
	}
	return all
}

// lastLine is the last line of a file that says something.
func lastLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// spent is how many seconds of the processor a run has taken so far.
func (e entry) spent(out string, seed int) (s float64, err error) {
	text, err := os.ReadFile(e.folder(out, seed) + ".cpu.json")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	return s, err
}

func (e entry) spend(out string, seed int, more float64) error {
	s, err := e.spent(out, seed)
	if err != nil {
		return err
	}
	text, err := json.Marshal(s + more)
	if err != nil {
		return err
	}
	return os.WriteFile(e.folder(out, seed)+".cpu.json", text, 0o644)
}

// finished returns the result of a finished run.
func (e entry) finished(out string, seed int) (t trial, done bool, err error) {
	text, err := os.ReadFile(filepath.Join(e.folder(out, seed), "result.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return e.kept(out, seed)
	}
	var r ledger.Result
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	total := r.HeldOut["total"]
	if err != nil || r.Status != ledger.Finished || total.Before == nil || total.After == nil {
		return t, false, err
	}
	t = trial{seed: seed, before: total.Before.Mean, after: total.After.Mean}
	t.cpu, err = e.spent(out, seed)
	return t, err == nil, err
}

// Trials outlive the folders of their runs: a line each in results.jsonl beside the page. A preset and seed that have a
// line are not run again; a folder with the same run goes before its line.

// line is a trial as it is kept.
type line struct {
	Preset string  `json:"preset"`
	Seed   int     `json:"seed"`
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	CPU    float64 `json:"cpu_seconds"`
}

// keptName is the copy of these lines in the folder of all runs.
const keptName = "kept.jsonl"

// beside is where a page's lines are.
func beside(page string) string { return strings.TrimSuffix(page, filepath.Ext(page)) + ".jsonl" }

// restore copies the page's lines into the folder of all runs.
func restore(page, out string) error {
	text, err := os.ReadFile(beside(page))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.MkdirAll(out, 0o755)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, keptName), text, 0o644)
}

// kept is a trial that has a line and no folder.
func (e entry) kept(out string, seed int) (t trial, done bool, err error) {
	text, err := os.ReadFile(filepath.Join(out, keptName))
	if errors.Is(err, fs.ErrNotExist) {
		return t, false, nil
	}
	if err != nil {
		return t, false, err
	}
	for d := json.NewDecoder(bytes.NewReader(text)); d.More(); {
		var l line
		if err := d.Decode(&l); err != nil {
			return t, false, fmt.Errorf("%s: %w", keptName, err)
		}
		if l.Preset == e.preset && l.Seed == seed {
			return trial{seed: seed, before: l.Before, after: l.After, cpu: l.CPU}, true, nil
		}
	}
	return t, false, nil
}

// linesOf are all trials that are finished.
func linesOf(out string) ([]byte, error) {
	var b bytes.Buffer
	for _, e := range entries() {
		for seed := 1; seed <= mostSeeds; seed++ {
			t, done, err := e.finished(out, seed)
			if err == nil && done {
				err = json.NewEncoder(&b).Encode(line{Preset: e.preset, Seed: seed, Before: t.before, After: t.after, CPU: t.cpu})
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", e.folder(out, seed), err)
			}
		}
	}
	return b.Bytes(), nil
}
