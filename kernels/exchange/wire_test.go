package exchange

import (
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// A garbler is a wire that changes a byte of one rank.
type garbler struct{ Host }

func (g *garbler) Gather(from, into []kernels.Span) error {
	err := g.Host.Gather(from, into)
	into[1].Raw()[5] ^= 1
	return err
}

// TestTry: a trial tells a wire that carries from one that garbles.
func TestTry(t *testing.T) {
	ranks := []kernels.Backend{ref.Backend{}, ref.Backend{}, ref.Backend{}}
	host := Host{Ranks: ranks}
	if err := Try(&host, ranks); err != nil {
		t.Error(err)
	}
	if err := Try(&garbler{host}, ranks); err == nil || !strings.Contains(err.Error(), "rank 1 has other bytes") {
		t.Errorf("%v", err)
	}
}
