package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

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
