package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEscapes: strangers' text cannot move the cursor, change a title or turn an order around, wherever
// a command prints it: names of files, paths, classes in model_index.json, errors.
func TestEscapes(t *testing.T) {
	const evil = "x\x1b]0;pwn\x07\u009b2J\u202ey"
	dir := t.TempDir()
	model := filepath.Join(dir, "model"+evil)
	if err := os.MkdirAll(model, 0o755); err != nil {
		t.Fatal(err)
	}
	index, err := json.Marshal(map[string]any{"_class_name": evil})
	if err == nil {
		err = os.WriteFile(filepath.Join(model, "model_index.json"), index, 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, evil+".png"), []byte("no picture"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"score", "--reward", "scene", dir},
		{"score", "--json", "--reward", "scene", dir},
		{"sample", "--model", model, "--prompt", "x", "--out", filepath.Join(dir, "a.png")},
		{"inspect", model},
		{"plan", filepath.Join(dir, evil+".toml")},
		{"train", "--example", "quickstart", "--set", "rollout.prompts=" + filepath.Join(dir, evil+".txt"), "--out", filepath.Join(dir, evil)},
		{"list", evil},
		{"sample", "--" + evil},
	} {
		var out, errs bytes.Buffer
		execute(t.Context(), args, strings.NewReader(""), &out, &errs)
		said := out.String() + errs.String()
		if !strings.Contains(said, "pwn") || strings.ContainsAny(said, "\x1b\x07\u009b\u202e") {
			t.Errorf("%q prints %q", args, said)
		}
	}
}
