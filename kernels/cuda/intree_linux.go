//go:build device && !nocuda && (amd64 || arm64)

package cuda

import "os"

// images are read from the repository where it travels beside the program (make device).
var images = os.DirFS("kernels/cuda")
