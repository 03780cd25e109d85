package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

func main() {
	o := options{}
	as := flag.String("as", "", "the shape; --list shows all")
	list := flag.Bool("list", false, "list the shapes")
	dtype := flag.String("dtype", "bf16", "how weights are stored: bf16 or f32")
	flag.StringVar(&o.out, "out", "", "the folder to write; it must not exist")
	flag.Uint64Var(&o.seed, "seed", 1, "what weights are drawn by")
	flag.Int64Var(&o.shard, "shard", 2<<30, "bytes of a shard at most")
	flag.IntVar(&o.layers, "layers", 0, "layers of the denoiser, for a smaller cut; 0: all")
	flag.BoolVar(&o.bare, "bare", false, "no weights: darkroom plan needs none")
	flag.Parse()
	if *list {
		for _, s := range shapes() {
			fmt.Printf("%-16s %s\n", s.name, s.says)
		}
		return
	}
	if err := run(*as, *dtype, o); err != nil {
		fmt.Fprintln(os.Stderr, "shapes:", err)
		os.Exit(1)
	}
}

// options say how a folder is written.
type options struct {
	out    string
	seed   uint64
	shard  int64
	layers int
	bare   bool
	dtype  safetensors.DType
}

func run(as, dtype string, o options) error {
	all := shapes()
	i := slices.IndexFunc(all, func(s shape) bool { return s.name == as })
	if i < 0 {
		var names []string
		for _, s := range all {
			names = append(names, s.name)
		}
		return fmt.Errorf("no shape %q; there are %s", as, strings.Join(names, ", "))
	}
	switch dtype {
	case "bf16":
		o.dtype = safetensors.BF16
	case "f32":
		o.dtype = safetensors.F32
	default:
		return fmt.Errorf("--dtype %s; bf16 and f32 are possible", dtype)
	}
	if o.out == "" {
		return fmt.Errorf("--out names the folder to write")
	}
	if _, err := os.Stat(o.out); err == nil {
		return fmt.Errorf("%s is there already", o.out)
	}
	return all[i].cut(o.layers).write(o, func(part string, parameters int) {
		fmt.Fprintf(os.Stderr, "%s: %d parameters\n", part, parameters)
	})
}
