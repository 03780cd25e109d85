package doctor

import (
	"slices"
	"testing"
	"testing/fstest"
)

func TestFindGPUs(t *testing.T) {
	with := fstest.MapFS{
		"proc/driver/nvidia/gpus/0000:01:00.0/information": {Data: []byte("Model: \t\t NVIDIA H100\nIRQ: 1\n")},
		"usr/lib/x86_64-linux-gnu/libcuda.so.1":            {},
		"usr/local/cuda/lib64/libcublasLt.so.12":           {},
	}
	if got := findGPUs(with); !slices.Equal(got, []string{"NVIDIA H100"}) {
		t.Errorf("GPUs: %q", got)
	}
	if got := findLibraries(with)[0]; got.Name != "libcuda.so.1" || got.Path != "/usr/lib/x86_64-linux-gnu/libcuda.so.1" {
		t.Errorf("libcuda: %+v", got)
	}
	if got := findLibraries(with)[1]; got.Name != "libcublasLt.so" || got.Path != "/usr/local/cuda/lib64/libcublasLt.so.12" {
		t.Errorf("cuBLASLt: %+v", got)
	}
	if got := findGPUs(fstest.MapFS{}); len(got) != 0 {
		t.Errorf("without a GPU: %q", got)
	}
	if got := findLibraries(fstest.MapFS{})[0].Path; got != "" {
		t.Errorf("without libcuda: %q", got)
	}
}
