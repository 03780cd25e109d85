package pipeline_test

import (
	"fmt"
	"log"
	"os"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// A folder in diffusers' layout sets the network, the times and the rows of sampling.
func Example() {
	root, err := os.MkdirTemp("", "models")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(root)
	dir, err := assets.Folder("embed:tiny-sd3", root) // or any of your own
	if err != nil {
		log.Fatal(err)
	}
	be, err := cpu.New()
	if err != nil {
		log.Fatal(err)
	}
	defer be.Close()
	p, err := pipeline.Open(dir, pipeline.Options{Pool: tensor.NewPool(be), Precision: pipeline.BF16})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	at, err := p.Shape(64, 64)
	if err != nil {
		log.Fatal(err)
	}
	schedule, err := p.Schedule(4, at)
	if err != nil {
		log.Fatal(err)
	}
	rows, err := p.Rows(schedule, 0)
	fmt.Printf("%d rows from %.3f to %.3f, %v\n", len(rows), rows[0].From, rows[3].To, err)
	// Output: 4 rows from 1.000 to 0.000, <nil>
}
