package driver

import (
	"encoding/binary"
	"runtime"
	"sync"
	"testing"
	"unsafe"
)

// moving is a driver whose calls move the stack of the goroutine that makes them, and let others have the old one.
type moving struct{ got []int64 }

func (m *moving) Call(name string, args ...uintptr) (int32, error) {
	if name != "cuLaunchKernel" {
		return 0, nil
	}
	grow(200)
	runtime.GC()
	var all sync.WaitGroup
	for range 2000 {
		all.Go(func() { grow(20) })
	}
	all.Wait()
	argument := uintptr(binary.LittleEndian.Uint64(foreign(args[9], 8)))
	for x := foreign(argument, int(unsafe.Sizeof(held{}))); len(x) > 0; x = x[8:] {
		m.got = append(m.got, int64(binary.LittleEndian.Uint64(x)))
	}
	return 0, nil
}

type held [40]int64

//go:noinline
func grow(n int) (x byte) {
	var frame [1 << 10]byte
	for i := range frame {
		frame[i] = byte(n)
	}
	if n > 0 {
		x = grow(n - 1)
	}
	return x + frame[n%len(frame)]
}

// TestArgumentsStay: what a kernel is given is where the driver was told,
// though the goroutine's stack is moved on the way.
func TestArgumentsStay(t *testing.T) {
	m := &moving{}
	d := New(m)
	failed := make(chan error)
	go func() { // on a small stack
		var args held
		for i := range args {
			args[i] = int64(i + 1)
		}
		failed <- d.Launch(1, Launch{Grid: [2]int{1, 1}, Threads: 32}, unsafe.Pointer(&args), int(unsafe.Sizeof(args)))
	}()
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	for i, got := range m.got {
		if got != int64(i+1) {
			t.Fatalf("number %d of a kernel's argument is %d", i, got)
		}
	}
	if d.Launch(1, Launch{Grid: [2]int{1, 1}, Threads: 32}, unsafe.Pointer(m), argumentBytes+1) == nil {
		t.Error("an argument that is larger than drivers take")
	}
}
