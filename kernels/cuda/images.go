package cuda

import (
	"bytes"
	"compress/bzip2"
	"fmt"
	"io"
)

//go:generate bash gen/build.sh

// Images are the kernels compiled ahead: machine code for some architectures, and PTX that a
// driver compiles for the others. gen/build.sh makes them; images.sum records the sources.

// imagesFor are the images to try for a compute capability, in order.
func imagesFor(major int) []string {
	switch major {
	case 8:
		return []string{"sm_80", "ptx"}
	case 9:
		return []string{"sm_90", "ptx"}
	case 10:
		return []string{"sm_100", "ptx"}
	}
	return []string{"ptx"}
}

// readImage unpacks an image; a zero byte follows it, as PTX needs.
func readImage(name string) ([]byte, error) {
	packed, err := images.ReadFile("images/" + name + ".bz2")
	if err != nil {
		return nil, fmt.Errorf("kernels %s: %w", name, err)
	}
	image, err := io.ReadAll(bzip2.NewReader(bytes.NewReader(packed)))
	if err != nil {
		return nil, fmt.Errorf("kernels %s: %w", name, err)
	}
	return append(image, 0), nil
}
