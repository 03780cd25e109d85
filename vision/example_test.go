package vision_test

import (
	"bytes"
	"fmt"
	"image/color"
	"log"

	"github.com/darkroom-rl/darkroom/vision"
)

// A picture is written with its settings, read within limits, and made a tower's input.
func Example() {
	m := vision.NewFilled(64, 48, color.RGBA{255, 128, 0, 255})
	var file bytes.Buffer
	if err := vision.EncodePNG(&file, m, vision.Setting{Key: "prompt", Value: "orange"}); err != nil {
		log.Fatal(err)
	}
	back, err := vision.Decode(file.Bytes(), vision.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(back.Width, back.Height, back.Pix[:3])
	// Output: 64 48 [255 128 0]
}
