//go:build nocuda || !linux || !(amd64 || arm64)

package cuda

import "embed"

// A program without CUDA carries no kernels.
var images embed.FS
