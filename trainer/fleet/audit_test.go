package fleet

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestLiar: a worker that returns other bits is named and dismissed, and none of its results stays.
func TestLiar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, Options{Audit: 1})
		lies := func(ctx context.Context, j Job) ([]byte, error) {
			payload, err := takes(ctx, j)
			if j.Keys[0].Prompt%4 == 3 {
				payload = []byte("the result of a broken machine")
			}
			return payload, err
		}
		stopA, _ := c.join("honest", takes)
		stopB, _ := c.join("liar", lies)
		c.do(16)
		c.says("worker liar is dismissed")
		if why := c.f.Refused(); len(why) != 1 || why["liar"] == "" || c.by("liar") != 0 {
			t.Errorf("refused: %v, and %d of its results stand", why, c.by("liar"))
		}
		c.do(16)
		if c.by("liar") != 0 {
			t.Error("it works again")
		}
		c.end(stopA, stopB)
	})
}

// TestDismissedElsewhere: of a worker that is dismissed in another role nothing stays of open jobs, nor is taken later.
func TestDismissedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, Options{})
		lies := func(ctx context.Context, j Job) ([]byte, error) {
			if _, err := takes(ctx, j); err != nil {
				return nil, err
			}
			return []byte("the result of a broken machine"), nil
		}
		stopA, _ := c.join("honest", takes)
		stopB, _ := c.join("liar", lies)
		c.work.Go(func() {
			time.Sleep(5 * time.Second)
			for range 2 { // said twice, it is dismissed once
				c.hub.box.Put(Event{Kind: Dismissed, Worker: "liar", Why: "it is worker bad in another role"})
			}
		})
		c.do(16)
		c.says("worker liar is dismissed: it is worker bad in another role")
		if why := c.f.Refused(); len(why) != 1 || c.by("liar") != 0 || c.by("honest") != 16 || len(c.log) != 17 {
			t.Errorf("refused: %v; %d of its results stand; %d lines", why, c.by("liar"), len(c.log))
		}
		c.end(stopA, stopB)
	})
}
