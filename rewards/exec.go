package rewards

import (
	"context"
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
	return e.Ask(ctx, body, func(reply []byte) error {
		_, _, err := decodeResults(reply, items)
		return err
	})
}
