package run

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

// Options are what a run needs of its caller.
type Options struct {
	Dir     string
	Resume  bool
	Restart bool // begin anew, and keep the run that is in the folder beside it
	Backend kernels.Backend
	// Further are more backends, each with a rank of its own beside Backend's; Wire is between all of
	// them, and nil is host memory (trainer/ranks).
	Further []kernels.Backend
	Wire    exchange.Wire
	// Fleet lets workers in once the folder is open; nil: all is computed here.
	Fleet func() (Fleets, error)
	Class string // of the backends' arithmetic, for workers and what Cache holds
	Cache string // a folder that runs share, for what is computed of prompts; "": none
	// Free is the number of unused bytes of the devices' memory, for [run] memory: before rewards are opened, and then.
	// 0, and without it: unknown.
	Free    func() int64
	Version string                           // of the program, for the manifest
	Say     func(format string, args ...any) // a line for people
	Seconds float64                          // after which a run ends though more iterations were asked for; 0: never
	Twice   bool                             // whether rewards are asked twice in the first iteration, for the diagnosis
	// Rolling is called with the progress of an iteration's samples, in passes of the network, and the number of
	// finished iterations; nil: nothing is called.
	Rolling func(iteration, done, all int)
	// Part is called with every part of an iteration, and Job with every job of a worker, beside other calls.
	Part func(p Part)
	Job  func(e fleet.Entry)
	// Report is called with every finished iteration.
	Report func(line *ledger.Line, timing *ledger.TimingLine)
}

// say prints a line for people.
type say = func(format string, args ...any)
