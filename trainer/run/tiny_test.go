package run

import (
	"sync"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/rigs/brief"
)

// tiny names brief's denoiser: a tenth of the embedded model's work, for tests that look at the run and not at the
// pictures. The curves of configs_test.go are the whole model's.
func tiny(t *testing.T) string {
	t.Helper()
	dir, err := madeTiny()
	if err != nil {
		t.Fatal(err)
	}
	return "model.path=" + dir
}

// whole is the embedded model itself, whose pictures the embedded towers judge.
const whole = "model.path=embed:tiny-sd3"

// madeTiny makes it once for all tests; TestMain deletes it.
var madeTiny = sync.OnceValues(func() (string, error) {
	dir := ownDir("tiny")
	return dir, brief.Denoiser(dir)
})
