//go:build unix

package console

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminalWidth is how many characters a terminal's line has; 0: it does not say.
func terminalWidth(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
