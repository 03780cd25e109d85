//go:build !nocuda && linux && (amd64 || arm64)

package cuda_test

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/cuda/double"
	"github.com/darkroom-rl/darkroom/kernels/cuda/driver"
)

// TestOpenSays: what is missing is said in words that help.
func TestOpenSays(t *testing.T) {
	c := double.New(t)
	for name, x := range map[string]struct {
		version, devices int
		fail             string
		code             int
		says             string
	}{
		"too old":        {11040, 1, "", 0, "CUDA 11.4; 12.0 or later"},
		"no device":      {12040, 0, "", 0, "finds no device"},
		"stub":           {12040, 1, "cuInit", 34, "toolkit's stub"},
		"other index":    {12040, 1, "", 0, "no device 3"},
		"no kernels":     {12040, 1, "cuModuleLoadData", 222, "CUDA 12.0 (525) or later"},
		"no room at all": {12040, 1, "cuMemAlloc_v2", 2, "cuMemAlloc_v2"},
	} {
		t.Run(name, func(t *testing.T) {
			c.Set(x.version, x.devices, 120, 1<<30) // capability 12.0: PTX alone, so one load
			if x.fail != "" {
				c.Fail(x.fail, 1, x.code)
			}
			index := 0
			if name == "other index" {
				index = 3
			}
			b, err := cuda.Open(index)
			if err == nil {
				b.Close()
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), x.says) {
				t.Errorf("%v; want %q in it", err, x.says)
			}
		})
	}
	t.Run("probe", func(t *testing.T) {
		c.Set(12040, 2, 90, 1<<30)
		if r := cuda.Probe(); len(r.Devices) != 2 || r.Driver != "12.4" || r.Missing != "" || r.Devices[1].Major != 9 {
			t.Errorf("%+v", r)
		}
		c.Set(11080, 2, 90, 1<<30)
		if r := cuda.Probe(); len(r.Devices) != 0 || !strings.Contains(r.Missing, "11.8") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("absent", func(t *testing.T) {
		t.Setenv(driver.LibraryVariable, "/nowhere/libcuda.so.1")
		if _, err := cuda.Open(0); err == nil || !strings.Contains(err.Error(), "no NVIDIA driver") {
			t.Errorf("%v", err)
		}
		if r := cuda.Probe(); !strings.Contains(r.Missing, "no NVIDIA driver") {
			t.Errorf("%+v", r)
		}
	})
}

// TestImages: machine code is tried first, and PTX where the driver has no use for it (the double
// takes PTX alone).
func TestImages(t *testing.T) {
	c := double.New(t)
	for _, capability := range []int{80, 90, 100, 75, 120} {
		c.Set(12040, 1, capability, 1<<30)
		b, err := cuda.Open(0)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), "kernels ptx") {
			t.Errorf("%d: %s", capability, b)
		}
		b.Close()
	}
}

// TestOpenBesideLost: a device opens on a thread that has the context of another one, which was lost.
func TestOpenBesideLost(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := double.New(t)
	c.Set(12040, 2, 80, 1<<30)
	lost, err := cuda.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	c.Lose(1, "", 0, 719)
	b, err := cuda.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if lost.Close() == nil {
		t.Error("the lost device closed without an error")
	}
}

// TestFailure: an operation that fails panics with its name, its device and what the driver said.
func TestFailure(t *testing.T) {
	c := double.New(t)
	c.Set(12040, 1, 80, 64<<20)
	try := func(f func()) (err error) {
		defer kernels.Recover(&err)
		f()
		return nil
	}
	open := func() *cuda.Backend {
		b, err := cuda.Open(0)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	b := open()
	says := func(err error, words ...string) {
		t.Helper()
		if !errors.As(err, new(*cuda.Error)) {
			t.Errorf("%v is no *cuda.Error", err)
			return
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%v; want %q in it", err, w)
			}
		}
	}
	says(try(func() { b.Alloc(1 << 30) }), "cuda:0: Alloc", "OUT_OF_MEMORY (2)", "of 0.1 GiB are free", "smaller batch")
	if e := (*cuda.Error)(nil); !errors.As(try(func() { b.Alloc(1 << 30) }), &e) || !e.MemoryIsOut() {
		t.Error("memory is out, and the error does not tell a pool so")
	}
	x := b.Alloc(256)
	s := kernels.Span{Buf: x, Len: 64, DType: kernels.F32}
	c.Fail("cuLaunchKernel", 1, 701)
	says(try(func() { b.Fill(s, 1) }), "cuda:0: Fill", "cuLaunchKernel", "(701)")
	// What waits in the pool is given back before memory is out.
	big := b.Alloc(40 << 20)
	b.Free(big)
	if err := try(func() { b.Free(b.Alloc(50 << 20)) }); err != nil {
		t.Error(err)
	}
	// A kernel that writes past its operand: the context is lost, and the words say so.
	wide := kernels.Span{Buf: x, Len: 160, DType: kernels.F32}
	b.Fill(wide, 1)
	says(try(b.Sync), "cuda:0: Sync", "ILLEGAL_ADDRESS", "started again")
	if err := b.Close(); err == nil {
		t.Error("closed a lost context without a word")
	}
}

// TestMemory: everything comes back.
func TestMemory(t *testing.T) {
	c := double.New(t)
	before := c.Used()
	b, err := cuda.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	kept := b.Alloc(1000)
	for range 3 {
		b.Free(b.Alloc(1 << 20))
	}
	after := c.Used()
	b.Free(b.Alloc(1<<20 - 5)) // the same class
	if got := c.Used(); got != after {
		t.Errorf("a piece of a class that waits was taken anew: %d bytes, then %d", after, got)
	}
	// Larger than both halves of the staging memory, and of an odd size.
	data := make([]byte, 9<<20+13)
	for i := range data {
		data[i] = byte(i * i >> 7)
	}
	buf := b.Alloc(len(data))
	s := kernels.Span{Buf: buf, Len: len(data), DType: kernels.U8}
	sent := bytes.Clone(data)
	b.Upload(s, sent)
	clear(sent) // the upload has taken its bytes
	back := make([]byte, len(data))
	b.Download(back, s)
	if !bytes.Equal(back, data) {
		t.Error("what was uploaded is not what comes back")
	}
	_ = kept
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if got := c.Used(); got != before {
		t.Errorf("%d bytes of device memory are left behind", got-before)
	}
}
