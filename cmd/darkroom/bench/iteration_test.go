//go:build !nocuda && linux && (amd64 || arm64)

package bench

import (
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cuda/double"
)

// TestBenchFreesTheDevice: while processes of their own are measured, the command itself holds nothing of the device.
func TestBenchFreesTheDevice(t *testing.T) {
	c := double.New(t)
	c.Set(13000, 1, 90, 1<<30)
	before := c.Used()
	on := target{device: "cuda:0"}
	if err := on.settle(); err != nil {
		t.Fatal(err)
	}
	if got := c.Used(); got != before || on.name == "" {
		t.Errorf("%q: %d bytes of the device are held", on.name, got-before)
	}
	command := iterationCommand()
	command.SetArgs([]string{"--device", "cuda:0", "--repeat", "1", "--parts", "vae:bf16", "--against", "/nowhere"})
	command.SilenceErrors, command.SilenceUsage = true, true
	if err := command.Execute(); err == nil { // it fails before a child is started, after the device was opened
		t.Error("/nowhere was read")
	}
	if got := c.Used(); got != before {
		t.Errorf("%d bytes of the device are left behind", got-before)
	}
}
