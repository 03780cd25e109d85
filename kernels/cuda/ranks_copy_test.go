//go:build !nocuda && linux && (amd64 || arm64)

package cuda_test

import (
	"sync"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/cuda/double"
)

// A box that began to wait while another rank's operation waited for the backend starts before that operation, which
// may write memory that the box is read from.
func TestCopiesOfTwoRanks(t *testing.T) {
	double.New(t).Set(13000, 1, 80, 64<<20)
	b, err := cuda.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	c := copier{t, b}
	x, y := c.bytes(16, 1), c.bytes(16, 2)
	b.Sync()
	waiting := -1
	var other sync.WaitGroup
	b.Locked(func() {
		other.Go(func() { b.Must(func() { waiting = b.CopiesWaiting() }) })
		time.Sleep(50 * time.Millisecond) // until it waits
		b.LetWait(y, x)
	})
	other.Wait()
	if waiting != 0 {
		t.Errorf("%d copies still wait when the operation starts", waiting)
	}
	if got := c.read(y); got[0] != 1 {
		t.Errorf("copied: %v", got)
	}
}

// Two goroutines that copy beside each other never let more boxes wait than a kernel takes.
func TestCopiesAtOnce(t *testing.T) {
	double.New(t).Set(13000, 1, 80, 64<<20)
	b, err := cuda.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	c := copier{t, b}
	var both sync.WaitGroup
	for part := range 2 {
		x, y := c.bytes(512, byte(part+1)), c.bytes(512, 0)
		both.Go(func() {
			for i := range 2000 {
				at := i % 512
				c.copy(y.Slice(at, at+1), x.Slice(at, at+1), 1, 1, 1, 1)
			}
		})
		defer func() {
			if got := c.read(y); got[511] != byte(part+1) {
				t.Errorf("copied: %d", got[511])
			}
		}()
	}
	both.Wait()
}
