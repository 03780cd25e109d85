package fleet

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestBatches: several batches are gathered beside each other, each in its order; a job that two of them have is done
// once; a dropped job is not done; and a dismissed worker's results of any of them are done again.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, Options{Audit: 1})
		stopA, _ := c.join("honest", takes)
		stopB, _ := c.join("liar", func(ctx context.Context, j Job) ([]byte, error) {
			payload, err := takes(ctx, j)
			return append([]byte(nil), bytes.ToUpper(payload)...), err
		})
		jobs := jobsOf(30)
		begin := func(from, to int) *Batch {
			b, err := c.f.Begin(context.Background(), Work{Jobs: jobs[from:to], Here: takes, Check: anything})
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		ahead := begin(0, 20) // nobody waits for it
		defer ahead.Drop()
		first, second, dropped := begin(0, 10), begin(8, 20), begin(20, 30)
		dropped.Drop()
		time.Sleep(6 * time.Second) // nobody waits: the event is taken all the same
		for b, from := range map[*Batch]int{second: 8, first: 0} {
			got, err := b.Wait(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			for i, payload := range got {
				if !bytes.Equal(payload, answer(jobs[from+i])) {
					t.Errorf("job %d: %q", from+i, payload)
				}
			}
		}
		first.Drop()
		second.Drop()
		ahead.Drop()
		synctest.Wait()
		if n := c.f.Counts(); n.Jobs != 30 || len(c.log) != 21 || c.by("liar") != 0 || c.f.Refused()["liar"] == "" || c.f.running {
			t.Errorf("%+v, %d lines, the liar did %d; the loop is at work: %v", n, len(c.log), c.by("liar"), c.f.running)
		}
		c.end(stopA, stopB)
	})
}
