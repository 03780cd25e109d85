//go:build !nocuda && !device && (amd64 || arm64)

package cuda

import "embed"

//go:embed images/*.xz
var images embed.FS
