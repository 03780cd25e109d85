//go:build amd64 && !noasm && !linux

package isa

// allowTiles refuses: only Linux's way of asking for tile data is known here.
func allowTiles() bool { return false }
