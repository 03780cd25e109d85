//go:build !(linux && amd64)

package amxemu

import "testing"

// Traced is false: tracing is written for Linux on amd64.
func Traced() bool { return false }

// Run skips.
func Run(t *testing.T, _ string, _ ...string) {
	t.Skip("tile instructions are emulated on Linux on amd64 only")
}
