package rewards

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards/call"
)

// Exec is a reward program, of which as many copies run as the policy allows calls (call.Programs). It reads a request
// a line and writes a reply a line (protocol.go).
type Exec struct {
	*Remote
	*call.Programs
}

// NewExec names the program and its arguments.
func NewExec(argv []string, batch int, p call.Policy, cache *call.Cache) (*Exec, error) {
	c := call.NewCaller(p, cache)
	programs, err := call.NewPrograms(argv, c.Policy().Bytes)
	if err != nil {
		return nil, fmt.Errorf("an exec reward: %w", err)
	}
	e := &Exec{Programs: programs}
	e.Remote = &Remote{name: "exec " + strings.Join(argv, " "), batch: max(1, batch), caller: c, send: e.send}
	return e, nil
}

func (e *Exec) send(ctx context.Context, body []byte, items int) ([]byte, error) {
	return e.Call(ctx, body, func(reply []byte) error {
		_, _, err := decodeResults(reply, items)
		return err
	})
}

// CommandKey is the program.
type CommandKey struct {
	Command []string `toml:"command,single" doc:"program with its arguments, in place of path: a list, or one text that is split into words as a shell splits it; no shell runs it, and nothing is expanded"`
}

// EnvKey is the part of the environment that the program sees.
type EnvKey struct {
	Env []string `toml:"env" doc:"names of environment variables that the program is given beside the usual ones (PATH, HOME, CUDA and the like); it sees no others"`
}

type execKeys struct {
	PathKey
	CommandKey
	EnvKey
	AtOnceKey
}

// Argv is the program and its arguments.
func Argv(path PathKey, command CommandKey) ([]string, error) {
	switch {
	case len(command.Command) == 1:
		return Words(command.Command[0])
	case len(command.Command) == 0 && path.Path != "":
		return []string{path.Path}, nil
	}
	return command.Command, nil
}

// ExecKind is reward exec.
var ExecKind = Kind{
	Name:    "exec",
	Card:    "A program that speaks JSON lines.",
	Paper:   "a reward of your own",
	Judges:  Everything,
	Traits:  Prompted | Outside,
	Options: execKeys{},
	Program: With(func(k execKeys) string {
		argv, err := Argv(k.PathKey, k.CommandKey)
		if err != nil || len(argv) == 0 {
			return ""
		}
		return argv[0]
	}),
	CheckRun: Checks(func(k execKeys, run Run) {
		argv, err := Argv(k.PathKey, k.CommandKey)
		switch {
		case k.Path != "" && len(k.Command) > 0:
			run.Report("command", "the program is there twice: path and command", "leave path out")
		case err != nil:
			run.Report("command", fmt.Sprintf("this cannot be split into words: %v", err), `a list says it plainly: command = ["python3", "reward.py"]`)
		case len(argv) == 0 || argv[0] == "":
			run.Report("name", "an exec reward needs a program", `for example command = "python3 reward.py", or path = "./reward"`)
		}
	}),
	Open: Opens(func(k execKeys, b Bench) (Opened, error) {
		argv, err := Argv(k.PathKey, k.CommandKey)
		if err != nil {
			return Opened{}, fmt.Errorf("command: %w", err)
		}
		if len(argv) == 0 {
			return Opened{}, errors.New("command or path is missing: the program to run")
		}
		if b.Policy.AtOnce = k.AtOnce; k.AtOnce == 0 {
			b.Policy.AtOnce = 1
		}
		e, err := NewExec(argv, b.Batch, b.Policy, b.Cache)
		if err == nil {
			err = e.Pass(k.Env...)
		}
		if err != nil {
			return Opened{}, err
		}
		return Opened{Judge: e, Close: e.Close, Starts: e.Starts}, nil
	}),
}
