package conversations

import (
	"context"
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision/tools/program"
)

// ready sees whether the model's code can be run.
func ready(ctx context.Context, e *experiment.Experiment) (news string, err error) {
	_, long, err := lessonsOf(e)
	if err != nil {
		return "", err
	}
	news = leftOut(long, e.Episode.Tokens)
	if e.Episode.Exec == nil {
		return news, nil
	}
	version, err := program.Probe(ctx, e.Episode.Exec)
	if err != nil {
		return "", err
	}
	return strings.TrimPrefix(news+fmt.Sprintf("\ncode that the model writes is run by %s: %s", e.Episode.Exec.Words(), version), "\n"), nil
}
