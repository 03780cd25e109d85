package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/cuda/double"
	"github.com/darkroom-rl/darkroom/kernels/cuda/driver"
)

// TestDevice: a picture made on a CUDA device is the picture made on the CPU, byte for byte.
func TestDevice(t *testing.T) {
	double.Library(t)
	t.Setenv(cuda.ModeVariable, "exact")
	if r := cuda.Probe(); r.Missing != "" {
		t.Skip(r.Missing)
	}
	dir := t.TempDir()
	picture := func(device string) []byte {
		out := filepath.Join(dir, strings.ReplaceAll(device, ":", "")+".png")
		var stdout, stderr bytes.Buffer
		args := []string{"sample", "--model", "embed:tiny-sd3", "--prompt", "a red square", "--seed", "3", "--steps", "1", "--device", device, "--out", out}
		if code := execute(context.Background(), args, nil, &stdout, &stderr); code != exits.Done {
			t.Fatalf("--device %s: exit code %d\n%s", device, code, stderr.String())
		}
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if !bytes.Equal(picture("cpu"), picture("cuda:0")) {
		t.Error("the pictures differ")
	}
}

// TestNoDevice: the error names the obstacle and a remedy.
func TestNoDevice(t *testing.T) {
	t.Setenv(driver.LibraryVariable, noDriver)
	out := filepath.Join(t.TempDir(), "a")
	for _, args := range [][]string{
		{"sample", "--model", "embed:tiny-sd3", "--prompt", "a", "--out", out + ".png"},
		{"export", "--lora", "b", "--as", "merged", "--model", "embed:tiny-sd3", "--out", out},
		{"bench", "gemm"},
		{"bench", "iteration", "--latent", "8"},
		{"bench", "decode"},
		{"train", "--out", out},
		{"ablate", "--vary", "optim.lr=1e-3,1e-2", "--out", out},
		{"plan", "../../assets/configs/quickstart.toml", "--probe"},
		{"score", "--reward", "aesthetic", "--prompt", "a", "testdata/none.png"},
	} {
		for _, device := range []string{"cuda:0", "cuda:x", "tpu"} {
			var stdout, stderr bytes.Buffer
			if code := execute(context.Background(), append(args, "--device", device), nil, &stdout, &stderr); code != exits.Wrong || !strings.Contains(stderr.String(), "cpu") {
				t.Errorf("%s --device %s: exit code %d\n%s", args[0], device, code, stderr.String())
			}
		}
	}
}
