package main

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
)

// The scripts run this test binary under the name darkroom.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"darkroom": main})
}

// TestScripts runs testdata/script: what users type, what they see, and how it fails.
func TestScripts(t *testing.T) {
	golden, err := filepath.Abs("../parity/testdata/golden/models")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("GOLDEN", golden) // small models
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":  exit,
			"pixels": samePixels,
		},
		RequireExplicitExec: true,
	})
}

// exit is `exits CODE COMMAND [ARG...]`.
func exit(ts *testscript.TestScript, neg bool, args []string) { exits.Check(ts, neg, args) }
