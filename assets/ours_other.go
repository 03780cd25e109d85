//go:build !unix

package assets

import "io/fs"

// ours is true: temporary folders are each user's own here.
func ours(fs.FileInfo) bool { return true }
