// Package browsertest opens pages in a real browser, in tests: headless Chromium, where there is
// one.
package browsertest

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Draws fails unless the page has this number of plots after the browser has read it, and its console
// stays empty. Without a browser it is skipped.
func Draws(t *testing.T, path string, plots int) {
	t.Helper()
	browser := program(t)
	cmd := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--user-data-dir="+t.TempDir(), "--dump-dom", "file://"+path)
	cmd.WaitDelay = 10 * time.Second
	var dom, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &dom, &log
	if err := cmd.Run(); err != nil {
		t.Skipf("%s does not run here, so the page was not opened: %v", browser, err)
	}
	if n := strings.Count(dom.String(), "<svg"); n != plots {
		t.Errorf("%s: %d plots of %d are drawn", path, n, plots)
	}
	if strings.Contains(log.String(), "CONSOLE") {
		t.Errorf("%s: the browser's console:\n%s", path, log.String())
	}
}
