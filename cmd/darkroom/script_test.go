package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/kernels/cuda/driver"
)

// The scripts run this test binary under the name darkroom. Tests compute on the CPU, and on doubles of a driver that
// they name: recorded results have the CPU's bits, and "auto" may be a device.
func TestMain(m *testing.M) {
	if os.Getenv(driver.LibraryVariable) == "" {
		_ = os.Setenv(driver.LibraryVariable, noDriver)
	}
	testscript.Main(m, map[string]func(){"darkroom": main})
}

const noDriver = "/nowhere/libcuda.so.1"

// TestScripts runs testdata/script: command lines, their output, and their failures.
func TestScripts(t *testing.T) {
	golden, err := filepath.Abs("../../internal/golden/models")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("GOLDEN", golden) // small models
			e.Setenv(driver.LibraryVariable, noDriver)
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
