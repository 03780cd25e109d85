package edition

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// TestCompressed: an adapter is not merged into a folder whose weights are compressed.
func TestCompressed(t *testing.T) {
	from := t.TempDir()
	if err := safetensors.Write(filepath.Join(from, "model.safetensors"), []safetensors.Tensor{
		{Name: "up.weight", DType: safetensors.F8E4M3, Shape: []int{2, 2}, Data: make([]byte, 4)},
		safetensors.FromF32("up.scale_weight", []int{1}, []float32{1}),
	}, nil); err != nil {
		t.Fatal(err)
	}
	err := Copy{From: from, To: t.TempDir()}.Changed(".", nil)
	if err == nil || !strings.Contains(err.Error(), "compressed (up.scale_weight)") || !strings.Contains(err.Error(), "hint: ") {
		t.Error(err)
	}
}
