package console

import (
	"os"

	"golang.org/x/sys/windows"
)

// terminalWidth is how many characters a terminal's line has; 0: it does not say.
func terminalWidth(f *os.File) int {
	var info windows.ConsoleScreenBufferInfo
	if windows.GetConsoleScreenBufferInfo(windows.Handle(f.Fd()), &info) != nil {
		return 0
	}
	return int(info.Window.Right-info.Window.Left) + 1
}
