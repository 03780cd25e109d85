package conversations

import (
	"context"
	"fmt"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision/tools/program"
)

// ready sees whether the model's code can be run.
func ready(ctx context.Context, e *experiment.Experiment) (news string, err error) {
	if e.Episode.Exec == nil {
		return "", nil
	}
	version, err := program.Probe(ctx, e.Episode.Exec)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("code that the model writes is run by %s: %s", e.Episode.Exec.Words(), version), nil
}
