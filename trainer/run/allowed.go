package run

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// Card: the experiment of a run that another process trains names programs and environment variables. A worker starts
// and reads none of them unless who started the worker allows it. What it computes, and which servers it asks where its
// role is to ask them, follows from the experiment alone.
//
// Invariant (tests): before a model, a tool or a reward is opened on a worker, all that it demands is allowed.

// Allowed is what a worker lets a run do on its machine beside computing.
type Allowed struct {
	Programs bool     // exec rewards, and tools and code of episodes
	Env      []string // names of environment variables
}

// String says it aloud.
func (a Allowed) String() string {
	programs, env := "no program of the run", "no environment variable"
	if a.Programs {
		programs = "programs that the run names"
	}
	if len(a.Env) > 0 {
		env = "the environment variables " + strings.Join(a.Env, ", ")
	}
	return fmt.Sprintf("it starts %s, and hands over %s", programs, env)
}

// refuses is why demands are not met; nil: they are.
func (a Allowed) refuses(all []experiment.Demand) error {
	var errs []error
	for _, d := range all {
		if d.Program != "" && !a.Programs {
			errs = append(errs, fmt.Errorf("%s starts a program (%s), and this worker allows none\nhint: 'darkroom worker --allow-programs', where you trust who trains with this machine", d.Of, d.Program))
		}
		for _, name := range d.Env {
			if !slices.Contains(a.Env, name) {
				errs = append(errs, fmt.Errorf("%s asks for the environment variable %s, and this worker does not hand it over\nhint: 'darkroom worker --env %s', where its server or program may have it", d.Of, name, name))
			}
		}
	}
	return errors.Join(errs...)
}
