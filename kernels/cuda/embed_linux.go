//go:build !nocuda && (amd64 || arm64)

package cuda

import "embed"

//go:embed images/*.bz2
var images embed.FS
