//go:build !nocuda && linux && (amd64 || arm64)

package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cuda/double"
	"github.com/darkroom-rl/darkroom/kernels/cuda/driver"
)

// adamw are the arguments of a run that is short.
func adamw(device string) []string {
	return []string{"../../internal/golden/math", "--op", "optim.adamw", "--device", device}
}

// TestDevice: cases compute on the device that is asked for.
func TestDevice(t *testing.T) {
	c := double.New(t)
	for _, device := range []string{"cpu", "cuda:0"} { // in this order: the failure waits for a launch
		used := device != "cpu"
		c.Fail("cuLaunchKernel", 1, 701) // the first launch says that there was one
		var stdout, stderr bytes.Buffer
		code := execute(context.Background(), adamw(device), &stdout, &stderr)
		if failed := strings.Contains(stdout.String(), "cuLaunchKernel"); failed != used || failed == (code == exitDone) {
			t.Errorf("--device %s: exit code %d\n%s%s", device, code, stdout.String(), stderr.String())
		}
	}
	var stdout, stderr bytes.Buffer
	if code := execute(context.Background(), adamw("cuda:0"), &stdout, &stderr); code != exitDone {
		t.Errorf("exit code %d\n%s%s", code, stdout.String(), stderr.String())
	}
}

// TestNoDevice: the error names the obstacle and a remedy.
func TestNoDevice(t *testing.T) {
	t.Setenv(driver.LibraryVariable, "/nowhere/libcuda.so.1")
	for _, device := range []string{"cuda:0", "cuda:x", "tpu"} {
		var stdout, stderr bytes.Buffer
		code := execute(context.Background(), adamw(device), &stdout, &stderr)
		if code != exitUsage || !strings.Contains(stderr.String(), "cpu") {
			t.Errorf("--device %s: exit code %d\n%s", device, code, stderr.String())
		}
	}
}
