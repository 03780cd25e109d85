//go:build amd64 && !noasm

package isa

import "syscall"

// allowTiles asks Linux for the right to use AMX tile data, once per process.
// Without it the first tile instruction raises SIGILL. Any refusal means "no AMX".
func allowTiles() bool {
	const archPrctl, reqXCompPerm, tileData = 158, 0x1023, 18
	_, _, errno := syscall.RawSyscall(archPrctl, reqXCompPerm, tileData, 0)
	return errno == 0
}
