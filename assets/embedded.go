//go:build !device

package assets

import "embed"

//go:embed all:tiny-sd3 all:tiny-clip all:tiny-vlm all:tiny-kontext all:tiny-wan all:tiny-wan-64 all:tiny-wan-64-noisy all:tiny-mask2former
var models embed.FS
