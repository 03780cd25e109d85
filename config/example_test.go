package config_test

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/config"
)

// All mistakes of a file are reported at once, each with its place and a hint.
func Example() {
	var options struct {
		Loss struct {
			ClipRange float64 `toml:"clip_range" range:"(0,1]" doc:"how far the ratio may go from 1"`
			Mode      string  `toml:"mode" enum:"mean,sum" doc:"how a group's losses are joined"`
		} `toml:"loss"`
	}
	d := config.Parse("run.toml", []byte("[loss]\nclip_rnage = 0.2\nmode = \"men\"\n"))
	d.Decode("", &options)
	fmt.Println(d.Err())
	// Output:
	// run.toml:2:1: unknown key "loss.clip_rnage"
	//   2 | clip_rnage = 0.2
	//     | ~~~~~~~~~~
	//   hint: did you mean "clip_range"?
	// run.toml:3:8: "loss.mode" must be one of "mean", "sum", is "men"
	//   3 | mode = "men"
	//     |        ~~~~~
	//   hint: did you mean "mean"?
}
