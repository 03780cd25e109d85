package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
)

// The scripts run this test binary under the name parity.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"parity": main})
}

// TestScripts runs testdata/script: command lines, their output, and their failures.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		Cmds:                map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exit},
		RequireExplicitExec: true,
	})
}

// exit is `exits CODE COMMAND [ARG...]`.
func exit(ts *testscript.TestScript, neg bool, args []string) { exits.Check(ts, neg, args) }
