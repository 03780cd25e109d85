package experiment

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision/tools/program"
)

// outside are the requirements of rewards and tools that the machine lacks. A plan may be made on another machine
// than the one that trains, so that these are warnings; training refuses to begin.
func (e *Experiment) outside() []string {
	var all []string
	for _, w := range e.Rewards {
		k, own := w.Kind()
		if program := k.Runs(own); program != "" {
			switch _, err := exec.LookPath(program); {
			case err == nil:
			case k.Absent != "":
				all = append(all, "reward "+w.Called()+" "+fmt.Sprintf(k.Absent, program))
			default:
				all = append(all, fmt.Sprintf("reward %s needs the program %q, which is not here: %v%s", w.Called(), program, err, w.spaced()))
			}
		}
		if w.KeyEnv != "" && os.Getenv(w.KeyEnv) == "" {
			all = append(all, fmt.Sprintf("reward %s reads its key from the environment variable %s, which is empty here", w.Called(), w.KeyEnv))
		}
	}
	if e.Episode != nil {
		for _, s := range e.Episode.Served {
			if len(s.Command) > 0 {
				if _, err := exec.LookPath(s.Command[0]); err != nil {
					all = append(all, fmt.Sprintf("tool %s needs the program %q, which is not here: %v", s.Name, s.Command[0], err))
				}
			}
			if s.KeyEnv != "" && os.Getenv(s.KeyEnv) == "" {
				all = append(all, fmt.Sprintf("tool %s reads its key from the environment variable %s, which is empty here", s.Name, s.KeyEnv))
			}
		}
	}
	if e.Episode != nil {
		all = append(all, e.Episode.Engine.engineMissing()...)
	}
	if e.Episode != nil && e.Episode.Exec != nil {
		x := e.Episode.Exec
		if _, err := exec.LookPath(x.Command[0]); err != nil {
			all = append(all, fmt.Sprintf("episode.exec needs the program %q, which is not here: %v; one that works: %s", x.Command[0], err, program.Example))
		}
		if x.Bare() {
			all = append(all, fmt.Sprintf("episode.exec runs the model's code by %q with no sandbox around it: it may read, send and delete what you may", x.Command[0]))
		}
	}
	return all
}

// A Demand is a requirement of a reward or an episode on a machine beside computing.
type Demand struct {
	Of      string   // reward exec, tool search, episode.exec
	Program string   // that it starts; "": none
	Env     []string // names of the environment variables whose values it has: keys are sent to servers
}

// Demands are the reward's.
func (r *Reward) Demands() []Demand {
	k, own := r.Kind()
	d := Demand{Of: "reward " + r.Called(), Env: withKey(r.Env, r.KeyEnv), Program: k.Runs(own)}
	if d.Program == "" && k.Program != nil && k.Is(rewards.Outside) {
		d.Program = "that the experiment names"
	}
	return []Demand{d}
}

// Demands are those of the process that rolls the experiment's samples.
func (e *Experiment) Demands() (all []Demand) {
	if e.Episode == nil {
		return nil
	}
	for _, s := range e.Episode.Served {
		d := Demand{Of: "tool " + s.Name, Env: withKey(s.Env, s.KeyEnv)}
		if len(s.Command) > 0 {
			d.Program = s.Command[0]
		}
		all = append(all, d)
	}
	if x := e.Episode.Exec; x != nil {
		all = append(all, Demand{Of: "episode.exec", Program: "the code that the model writes, by " + x.Words()})
	}
	if x := e.Episode.Engine; x != nil {
		all = append(all, Demand{Of: "episode.engine", Env: withKey(nil, x.KeyEnv)})
	}
	return all
}

func withKey(names []string, key string) []string {
	if key == "" {
		return names
	}
	return append([]string{key}, names...)
}

// spaced is a remedy where path looks like a program with arguments.
func (r *Reward) spaced() string {
	if len(r.Command) == 0 && strings.Contains(r.Path, " ") {
		return fmt.Sprintf("; path is a program alone, arguments go into command = %q", r.Path)
	}
	return ""
}
