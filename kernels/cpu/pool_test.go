package cpu

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestPoolRunsEveryTaskOnce(t *testing.T) {
	for _, threads := range []int{1, 2, 5} {
		p := newPool(threads)
		defer p.close()
		for _, n := range []int{0, 1, 2, 3, 100, 1000} {
			for range 50 {
				seen := make([]atomic.Int32, n)
				p.run(n, func(i int) { seen[i].Add(1) })
				for i := range seen {
					if got := seen[i].Load(); got != 1 {
						t.Fatalf("%d threads, %d tasks: task %d ran %d times", threads, n, i, got)
					}
				}
			}
		}
	}
}

func TestPoolRowsCoverTheRange(t *testing.T) {
	p := newPool(3)
	defer p.close()
	for _, n := range []int{0, 1, 7, 64, 1001} {
		for _, grain := range []int{0, 1, 3, 64, 5000} {
			seen := make([]atomic.Int32, n)
			p.rows(n, grain, func(lo, hi int) {
				for i := lo; i < hi; i++ {
					seen[i].Add(1)
				}
			})
			for i := range seen {
				if seen[i].Load() != 1 {
					t.Fatalf("n %d, grain %d: row %d was done %d times", n, grain, i, seen[i].Load())
				}
			}
		}
	}
}

func TestPoolHandsAPanicToTheCaller(t *testing.T) {
	p := newPool(3)
	defer p.close()
	defer func() {
		if r := recover(); fmt.Sprint(r) != "task 7" {
			t.Errorf("recovered %v", r)
		}
	}()
	p.run(20, func(i int) {
		if i == 7 {
			panic("task 7")
		}
	})
	t.Error("no panic")
}

// TestPoolSeveralAtOnce: a worker that is free again takes the task of a caller whose parallel-for began before another
// one's that has ended; more callers than places all end.
func TestPoolSeveralAtOnce(t *testing.T) {
	p := newPool(2)
	defer p.close()
	var all sync.WaitGroup
	held, free, begun, done := make(chan struct{}, 2), make(chan struct{}), make(chan struct{}), make(chan struct{})
	all.Go(func() { // holds the worker
		p.run(2, func(int) {
			held <- struct{}{}
			<-free
		})
	})
	<-held
	<-held
	all.Go(func() {
		p.run(2, func(i int) {
			if i == 1 {
				close(done)
				return
			}
			close(begun)
			select {
			case <-done:
			case <-time.After(20 * time.Second):
				t.Error("the free worker does not see the task that is left")
			}
		})
	})
	<-begun
	p.run(2, func(int) {})
	close(free)
	all.Wait()
	var sum atomic.Int64
	n := int64(3 * len(p.open))
	for c := range n {
		all.Go(func() {
			for range 100 {
				p.run(5, func(i int) { sum.Add(c + int64(i)) })
			}
		})
	}
	all.Wait()
	if want := 100 * (5*n*(n-1)/2 + 10*n); sum.Load() != want {
		t.Errorf("tasks add up to %d, want %d", sum.Load(), want)
	}
}

func BenchmarkPoolEmpty(b *testing.B) {
	p := newPool(2)
	defer p.close()
	b.ReportAllocs()
	for b.Loop() {
		p.run(2, func(int) {})
	}
}

func TestPoolTasksTakeNoMemory(t *testing.T) {
	p := newPool(2)
	defer p.close()
	var sum atomic.Int64
	task := func(i int) { sum.Add(int64(i)) }
	if n := testing.AllocsPerRun(20, func() { p.run(1000, task) }); n > 8 {
		t.Errorf("%g pieces of memory for 1000 tasks", n)
	}
}
