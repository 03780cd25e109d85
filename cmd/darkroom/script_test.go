package main

import (
	"bytes"
	"image/png"
	"os"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/golden"

	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/cuda/driver"
	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts run this test binary under the name darkroom. Tests compute on the CPU, and on doubles of a driver that
// they name: recorded results have the CPU's bits, and "auto" may be a device. The CPU's path is named: programs
// measure none.
func TestMain(m *testing.M) {
	if _, named := os.LookupEnv("DARKROOM_CPU"); !named {
		_ = os.Setenv("DARKROOM_CPU", isa.Best().String())
	}
	if os.Getenv(driver.LibraryVariable) == "" {
		_ = os.Setenv(driver.LibraryVariable, noDriver)
	}
	testscript.Main(m, programs)
}

// programs are those that this test binary is by its name.
var programs = map[string]func(){"darkroom": main}

const noDriver = "/nowhere/libcuda.so.1"

// TestScripts runs testdata/script: command lines, their output, and their failures.
func TestScripts(t *testing.T) {
	models, rewards := golden.Folder("models"), golden.Folder("rewards") // small networks
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("GOLDEN", models)
			e.Setenv("REWARDS", rewards)
			e.Setenv(driver.LibraryVariable, noDriver)
			e.Setenv("DARKROOM_CPU", os.Getenv("DARKROOM_CPU"))
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

// samePixels is `pixels A.png B.png`: two pictures are the same, whatever their texts say; `! pixels`: they are not.
func samePixels(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: pixels A.png B.png")
	}
	var encoded [2][]byte
	for i, name := range args {
		f, err := os.Open(ts.MkAbs(name))
		ts.Check(err)
		defer f.Close()
		m, err := png.Decode(f)
		ts.Check(err)
		var b bytes.Buffer
		ts.Check(png.Encode(&b, m))
		encoded[i] = b.Bytes()
	}
	if same := bytes.Equal(encoded[0], encoded[1]); same == neg {
		ts.Fatalf("%s and %s show the same: %v", args[0], args[1], same)
	}
}
