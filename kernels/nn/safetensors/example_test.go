package safetensors_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

func Example() {
	dir, err := os.MkdirTemp("", "weights")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	weight := safetensors.FromF32("proj.weight", []int{2, 2}, []float32{1, 2, 3, 4})
	if err := safetensors.Write(filepath.Join(dir, "model.safetensors"), []safetensors.Tensor{weight}, nil); err != nil {
		log.Fatal(err)
	}
	set, err := safetensors.OpenFolder(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer set.Close()
	t, err := set.Tensor("proj.weight") // no copy: t.Data lies in the mapped file
	if err != nil {
		log.Fatal(err)
	}
	w, err := t.Float32(nil) // widened, exactly
	fmt.Println(t.Shape, w, err)
	// Output: [2 2] [1 2 3 4] <nil>
}
