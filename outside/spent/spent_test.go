package spent

import (
	"testing"
	"time"
)

// TestCPU: computing counts, and sleeping does not.
func TestCPU(t *testing.T) {
	if !Known {
		t.Skip("this system does not count it")
	}
	before := CPU()
	time.Sleep(100 * time.Millisecond)
	slept := CPU() - before
	for began := time.Now(); CPU()-before-slept < 20*time.Millisecond; {
		if time.Since(began) > 20*time.Second {
			t.Fatal("computing does not count")
		}
	}
	if slept > 90*time.Millisecond {
		t.Errorf("100ms of sleep count as %v", slept)
	}
}
