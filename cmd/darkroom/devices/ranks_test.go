//go:build !nocuda && linux && (amd64 || arm64)

package devices

import (
	"fmt"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/cmd/internal/device"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/cuda/double"
	"github.com/darkroom-rl/darkroom/kernels/cuda/nccl"
	"github.com/darkroom-rl/darkroom/trainer/run"
)

// TestRanks: devices that are different are joined by NCCL where it is found; others, and where it is
// not, through host memory, which is said.
func TestRanks(t *testing.T) {
	c := double.New(t)
	c.Set(13000, 2, 120, 1<<30)
	for _, x := range []struct {
		devices, nccl string
		fault         func()
		wire, note    string
	}{
		{"cpu,cpu", "off", nil, "", ""},
		{"cuda:0,cuda:1", "off", nil, "", "through host memory: no NCCL"},
		{"cuda:1,cuda:0", "", nil, "2 ranks, over NCCL 2.21.5", ""},
		// It joins, and cannot carry: /dev/shm of a container is too small, say.
		{"cuda:0,cuda:1", "", func() { c.Fail("ncclAllGather", 1, 2) }, "", "through host memory: a trial over 2 ranks, over NCCL 2.21.5 failed"},
	} {
		if c.NCCL(22105); x.nccl != "" {
			t.Setenv(nccl.LibraryVariable, x.nccl)
		}
		if x.fault != nil {
			x.fault()
		}
		names := strings.Split(x.devices, ",")
		r, err := OpenRanks(names, 0)
		if err != nil {
			t.Errorf("%s: %v", x.devices, err)
			continue
		}
		wire := ""
		if r.wire != nil {
			wire = r.wire.String()
		}
		o := r.Into(run.Options{})
		if wire != x.wire || (r.Note == "") != (x.note == "") || !strings.Contains(r.Note, x.note) || len(o.Further) != len(names)-1 || o.Backend == nil {
			t.Errorf("%s: wire %q, note %q, %d further backends", x.devices, wire, r.Note, len(o.Further))
		}
		if onDevice := names[0] != "cpu"; onDevice && (o.Free() <= 0 || o.Free() >= 1<<30) {
			t.Errorf("%s: a run is told of %d free bytes; a device has 1 GiB", x.devices, o.Free())
		}
		if err := r.Close(nil); err != nil {
			t.Errorf("%s: %v", x.devices, err)
		}
	}
	double.Products(t)
	r, err := OpenRanks([]string{"cuda:0", "cuda:1"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if o := r.Into(run.Options{}); o.Class != Arithmetic(r.All[1]) || o.Class == cuda.CPUArithmetic {
		t.Errorf("arithmetics of two cards of one kind: %q and %q", o.Class, Arithmetic(r.All[1]))
	}
	exact, err := device.OpenCUDA("cuda:0", "exact")
	if err != nil {
		t.Fatal(err)
	}
	if got := Arithmetic(exact); got != cuda.CPUArithmetic {
		t.Errorf("exact kernels have the arithmetic %q", got)
	}
	exact.Close()
	for _, be := range r.All {
		if s := fmt.Sprint(be.(device.CUDA).Backend); !strings.Contains(s, "by cuBLASLt") {
			t.Errorf("several devices that could use cuBLASLt: %s", s)
		}
	}
	if err := r.Close(nil); err != nil {
		t.Error(err)
	}
	if _, err := OpenRanks([]string{"cuda:0", "cuda:7"}, 0); err == nil || !strings.Contains(err.Error(), "no device 7") {
		t.Errorf("%v", err)
	}
	if n := c.Used(); n != 0 {
		t.Errorf("%d bytes of device memory are left behind", n)
	}
}
