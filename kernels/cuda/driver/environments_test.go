package driver

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestInEnvironments: a library is found where pip and conda put it, in the environments that are active.
func TestInEnvironments(t *testing.T) {
	venv, conda := t.TempDir(), t.TempDir()
	var want []string
	for _, file := range []string{filepath.Join(venv, "lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2"), filepath.Join(conda, "lib/libnccl.so.2")} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		want = append(want, file)
	}
	t.Setenv("VIRTUAL_ENV", venv)
	t.Setenv("CONDA_PREFIX", conda)
	if got := InEnvironments("nvidia/nccl/lib/libnccl.so.2", "libnccl.so.2"); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	t.Setenv("VIRTUAL_ENV", "")
	if got := InEnvironments("nvidia/nccl/lib/libnccl.so.2", "libnccl.so.2"); !slices.Equal(got, want[1:]) {
		t.Errorf("%v, want %v", got, want[1:])
	}
}
