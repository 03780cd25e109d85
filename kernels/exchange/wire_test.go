package exchange

import (
	"errors"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// A broken wire takes pieces, and never brings them.
type broken struct{ Host }

var errBroken = errors.New("it does not come")

func (broken) Wait() error { return errBroken }

// TestTry: a trial tells a wire that carries from one that does not.
func TestTry(t *testing.T) {
	ranks := []kernels.Backend{ref.Backend{}, ref.Backend{}, ref.Backend{}}
	host := Host{Ranks: ranks}
	if err := Try(&host, ranks); err != nil {
		t.Error(err)
	}
	if err := Try(&broken{host}, ranks); !errors.Is(err, errBroken) {
		t.Errorf("%v", err)
	}
}
