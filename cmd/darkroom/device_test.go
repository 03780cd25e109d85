package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/cuda/double"
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
		if code := run(context.Background(), args, nil, &stdout, &stderr); code != exitDone {
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

// TestBenchModes: a device is opened in every mode before it is timed in the first, and its rows say which is whose.
func TestBenchModes(t *testing.T) {
	double.New(t).Set(13000, 1, 90, 1<<30)
	bench := func(want int, args ...string) (out, errs string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if code := run(context.Background(), append([]string{"bench"}, args...), nil, &stdout, &stderr); code != want {
			t.Errorf("%v: exit code %d, want %d\n%s", args, code, want, stderr.String())
		}
		return stdout.String(), stderr.String()
	}
	for says, args := range map[string][]string{
		"fast":            {"--device", "cuda:0", "--mode", "own", "--mode", "fast"},
		"--device cuda:0": {"--mode", "own"},
		"write M,N,K":     {"--product", "3,x,4"},
		"2^30":            {"--product", "1000000,1000000,4"},
		"at most":         {"--product", "3,4,5,6"},
	} {
		if _, got := bench(exitUsage, args...); !strings.Contains(got, says) {
			t.Errorf("%v: %q; want %q in it", args, got, says)
		}
	}
	var report benchReport
	text, _ := bench(exitDone, "--device", "cuda:0", "--mode", "own,mma", "--mode", "own", "--product", "3,66,72", "--repeat", "1", "--json")
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	rows := map[string]int{}
	for _, r := range report.Rows {
		rows[r.Mode+fmt.Sprint(r.Shape)]++
	}
	if rows["own,mma[3 66 72]"] != 8 || rows["own[3 66 72]"] != 8 || len(rows) != 2 {
		t.Errorf("%v", rows)
	}
}

// TestNoDevice: what stands in the way is said, with what to do instead.
func TestNoDevice(t *testing.T) {
	t.Setenv(cuda.LibraryVariable, "/nowhere/libcuda.so.1")
	out := filepath.Join(t.TempDir(), "a")
	for _, args := range [][]string{
		{"sample", "--model", "embed:tiny-sd3", "--prompt", "a", "--out", out + ".png"},
		{"parity", "parity/testdata/golden/math"},
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
			if code := run(context.Background(), append(args, "--device", device), nil, &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), "cpu") {
				t.Errorf("%s --device %s: exit code %d\n%s", args[0], device, code, stderr.String())
			}
		}
	}
}
