//go:build !nocuda && linux && (amd64 || arm64)

package iteration

import (
	"context"
	"os"
	"testing"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/cuda/double"
)

// onIdle runs a part on a device that computes nothing.
func onIdle(t *testing.T, p Part, w Work) any {
	t.Helper()
	double.New(t).Idle()
	be, err := cuda.OpenAs(0, os.Getenv(cuda.ModeVariable))
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	r, err := p.Run(context.Background(), w, be, Process{Peak: func() int { return 0 }, Reset: func() {}, CPU: func() float64 { return 0 },
		Dry: func() pipeline.Dry { return cpu.NewDry(cpu.Options{}) }})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// An iteration's requests to a device, at real sizes: the program waits once a step, for the network's output, and
// sends only changes since the last step. A download for each row of the output, or the text sent again at every
// step, would cost more than the network's own time.
func TestAskedOfADevice(t *testing.T) {
	w := Usual()
	w.Heads, w.Layers, w.Repeat = 2, 2, 1
	latents := int64(w.Micro * 16 * w.Latent * w.Latent)
	small := int64(1 << 12) // times
	r := onIdle(t, "grpo:bf16", w).(*Iterations)
	for name, c := range map[string]struct {
		asked *kernels.Traffic
		sent  int64
	}{"sampling": {r.Sampling.Device, 2*latents + small}, "training": {r.Training.Device, (2+2)*latents + 1<<17}} {
		if a := c.asked; a.Waits != 1 || a.Downloads != 1 || a.DownloadBytes != 4*latents {
			t.Errorf("%s: %+v; one wait is needed, for an output of %d bytes", name, *a, 4*latents)
		}
		if c.asked.UploadBytes > c.sent {
			t.Errorf("%s: %d bytes are sent, more than the %d that are new", name, c.asked.UploadBytes, c.sent)
		}
	}
	// Whole iterations: a wait for each run of the network, one for the gradient's norm, and the bench's own.
	runs := w.Group / w.Micro * (w.Steps + w.Window)
	if a := r.Mix.Device; a.Waits > runs+2 {
		t.Errorf("an iteration waits %d times for %d runs of the network", a.Waits, runs)
	}
	w.Layers++
	more := onIdle(t, "grpo:bf16", w).(*Iterations)
	for name, c := range map[string][3]int{"sampling": {r.Sampling.Device.Launches, more.Sampling.Device.Launches, mostSampling},
		"training": {r.Training.Device.Launches, more.Training.Device.Launches, mostTraining}} {
		if n := c[1] - c[0]; n > c[2] {
			t.Errorf("%s: a block takes %d launches; it took %d", name, n, c[2])
		}
	}
}

// Launches of a block with adapters on eight products, forward, and forward and backward.
const (
	mostSampling = 37
	mostTraining = 102
)
