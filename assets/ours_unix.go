//go:build unix

package assets

import (
	"io/fs"
	"os"
	"syscall"
)

// ours reports whether this user owns the file of info, and nobody else may write to it.
func ours(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid() && info.Mode().Perm()&0o022 == 0
}
