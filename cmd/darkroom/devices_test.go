//go:build !nocuda && linux && (amd64 || arm64)

package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/cuda/double"
	"github.com/darkroom-rl/darkroom/trainer/training"
)

// TestRanks: devices that are different are joined by NCCL where it is found; others, and where it is
// not, through host memory, which is said.
func TestRanks(t *testing.T) {
	c := double.New(t)
	c.Set(13000, 2, 120, 1<<30)
	for _, x := range []struct {
		devices, nccl, wire, note string
	}{
		{"cpu,cpu", "off", "", ""},
		{"cuda:0,cuda:1", "off", "", "through host memory: no NCCL"},
		{"cuda:1,cuda:0", "", "2 ranks, over NCCL 2.21.5", ""},
	} {
		if c.NCCL(22105); x.nccl != "" {
			t.Setenv(cuda.NCCLVariable, x.nccl)
		}
		names := strings.Split(x.devices, ",")
		r, err := openRanks(names, 0)
		if err != nil {
			t.Errorf("%s: %v", x.devices, err)
			continue
		}
		wire := ""
		if r.wire != nil {
			wire = r.wire.String()
		}
		o := r.Into(training.Options{})
		if wire != x.wire || (r.note == "") != (x.note == "") || !strings.Contains(r.note, x.note) || len(o.Further) != len(names)-1 || o.Backend == nil {
			t.Errorf("%s: wire %q, note %q, %d further backends", x.devices, wire, r.note, len(o.Further))
		}
		if err := r.Close(nil); err != nil {
			t.Errorf("%s: %v", x.devices, err)
		}
	}
	double.Products(t)
	r, err := openRanks([]string{"cuda:0", "cuda:1"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, be := range r.all {
		if s := fmt.Sprint(be.(device).Backend); !strings.Contains(s, "by cuBLASLt") {
			t.Errorf("several devices that could use cuBLASLt: %s", s)
		}
	}
	if err := r.Close(nil); err != nil {
		t.Error(err)
	}
	if _, err := openRanks([]string{"cuda:0", "cuda:7"}, 0); err == nil || !strings.Contains(err.Error(), "no device 7") {
		t.Errorf("%v", err)
	}
	if n := c.Used(); n != 0 {
		t.Errorf("%d bytes of device memory are left behind", n)
	}
}

// TestParityOnDevice: cases compute on the device that is asked for.
func TestParityOnDevice(t *testing.T) {
	c := double.New(t)
	for _, device := range []string{"cpu", "cuda:0"} { // in this order: the failure waits for a launch
		used := device != "cpu"
		c.Fail("cuLaunchKernel", 1, 701) // the first launch says that there was one
		var stdout, stderr bytes.Buffer
		code := run(context.Background(), []string{"parity", "parity/testdata/golden/math", "--op", "optim.adamw", "--device", device}, nil, &stdout, &stderr)
		if failed := strings.Contains(stdout.String(), "cuLaunchKernel"); failed != used || failed == (code == exitDone) {
			t.Errorf("--device %s: exit code %d\n%s%s", device, code, stdout.String(), stderr.String())
		}
	}
	var stdout, stderr bytes.Buffer
	if code := run(context.Background(), []string{"parity", "parity/testdata/golden/math", "--op", "optim.adamw", "--device", "cuda:0"}, nil, &stdout, &stderr); code != exitDone {
		t.Errorf("exit code %d\n%s%s", code, stdout.String(), stderr.String())
	}
}
