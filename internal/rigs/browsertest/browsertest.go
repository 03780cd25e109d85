// Package browsertest opens pages in a real browser, in tests: headless Chromium, where there is
// one.
package browsertest

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// Browser is a headless Chromium, spoken to by its own protocol (DevTools) over a pipe: nothing listens on a port, and
// no package is needed.
type Browser struct {
	t        testing.TB
	in       io.Writer
	session  string
	mu       sync.Mutex
	last     int
	waiting  map[int]chan answer
	messages []string // of the console
}

type answer struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Params json.RawMessage `json:"params"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// names of the program, in the order in which they are looked for.
var names = []string{"chromium", "chromium-browser", "google-chrome"}

// program is the browser's; without one, or the flag -browser, the test is skipped.
func program(t testing.TB) string {
	t.Helper()
	if !*wanted {
		t.Skip("-browser opens pages in Chromium: .ci/run browser")
	}
	for _, name := range names {
		if found, err := exec.LookPath(name); err == nil {
			return found
		}
	}
	t.Skipf("pages are opened in a browser where there is one: none of %s is on PATH", strings.Join(names, ", "))
	return ""
}

var wanted = flag.Bool("browser", false, "open pages in Chromium")

// Start starts the browser; it ends with the test. Without the flag -browser, or a browser, the test is skipped.
func Start(t testing.TB) *Browser {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the browser is spoken to by inherited pipes, which Windows names otherwise")
	}
	path := program(t)
	profile, err := os.MkdirTemp("", "browsertest")
	must(t, err)
	ours, theirs, err := os.Pipe()
	must(t, err)
	reads, writes, err := os.Pipe()
	must(t, err)
	cmd := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir="+profile, "about:blank")
	cmd.ExtraFiles = []*os.File{reads, theirs} // its descriptors 3 and 4
	if err := cmd.Start(); err != nil {
		t.Skipf("%s does not run here, so no page was opened: %v", path, err)
	}
	theirs.Close()
	reads.Close()
	b := &Browser{t: t, in: writes, waiting: map[int]chan answer{}}
	go b.read(ours)
	t.Cleanup(func() {
		writes.Close() // ends it
		done := make(chan struct{})
		go func() { _ = cmd.Wait(); close(done) }() // how it ends says nothing about the page
		select {
		case <-done:
		case <-time.After(5 * time.Second):
			_ = cmd.Process.Kill() // it may have ended since
			<-done
		}
		ours.Close()
		os.RemoveAll(profile)
	})
	b.attach()
	return b
}

// attach opens a tab.
func (b *Browser) attach() {
	b.t.Helper()
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var session struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &session)
	b.session = session.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.call(domain+".enable", nil, nil)
	}
}

// read reads the browser's messages until it ends.
func (b *Browser) read(from io.Reader) {
	r := bufio.NewReaderSize(from, 1<<20)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			b.mu.Lock()
			for id, c := range b.waiting {
				close(c)
				delete(b.waiting, id)
			}
			b.mu.Unlock()
			return
		}
		var a answer
		if json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), &a) != nil {
			continue
		}
		b.mu.Lock()
		if c := b.waiting[a.ID]; c != nil && a.Method == "" {
			c <- a
			delete(b.waiting, a.ID)
		}
		switch a.Method {
		case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded":
			b.messages = append(b.messages, string(a.Params))
		}
		b.mu.Unlock()
	}
}

// patience is how long the browser may take for one answer on a busy machine.
const patience = 60 * time.Second

func (b *Browser) call(method string, params any, result any) {
	b.t.Helper()
	if err := b.try(method, params, result); err != nil {
		b.t.Fatalf("the browser: %s: %v", method, err)
	}
}

func (b *Browser) try(method string, params any, result any) error {
	b.mu.Lock()
	b.last++
	id, c := b.last, make(chan answer, 1)
	b.waiting[id] = c
	b.mu.Unlock()
	message := map[string]any{"id": id, "method": method}
	if params != nil {
		message["params"] = params
	}
	if b.session != "" {
		message["sessionId"] = b.session
	}
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if _, err := b.in.Write(append(text, 0)); err != nil {
		return err
	}
	select {
	case a, ok := <-c:
		switch {
		case !ok:
			return errors.New("it ended")
		case a.Error != nil:
			return errors.New(a.Error.Message)
		case result != nil:
			return json.Unmarshal(a.Result, result)
		}
		return nil
	case <-time.After(patience):
		return fmt.Errorf("no answer in %v", patience)
	}
}

// Size makes the window so large, as a phone where mobile says so, and light or dark.
func (b *Browser) Size(width, height int, mobile, dark bool) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}, nil)
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// Open goes to an address.
func (b *Browser) Open(address string) {
	b.t.Helper()
	b.call("Page.navigate", map[string]any{"url": address}, nil)
}

// Eval is a value of JavaScript in the page; a promise is waited for.
func (b *Browser) Eval(script string, result any) {
	b.t.Helper()
	if err := b.eval(script, result); err != nil {
		b.t.Fatalf("in the page: %s: %v", script, err)
	}
}

func (b *Browser) eval(script string, result any) error {
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	if err := b.try("Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true, "awaitPromise": true, "userGesture": true}, &r); err != nil {
		return err
	}
	if e := r.ExceptionDetails; e != nil {
		return errors.New(e.Text + " " + e.Exception.Description)
	}
	if result == nil || len(r.Result.Value) == 0 {
		return nil
	}
	return json.Unmarshal(r.Result.Value, result)
}

// Until waits for a condition of the page, and says how long that took.
func (b *Browser) Until(condition string, limit time.Duration) time.Duration {
	b.t.Helper()
	began := time.Now()
	for {
		var holds bool
		err := b.eval("Boolean("+condition+")", &holds)
		took := time.Since(began)
		switch {
		case err == nil && holds:
			return took
		case took > limit:
			b.t.Fatalf("after %v the page has not: %s (%v)\nconsole: %s", limit, condition, err, strings.Join(b.Messages(), "\n"))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Key presses a key.
func (b *Browser) Key(key string) {
	b.t.Helper()
	for _, kind := range []string{"keyDown", "keyUp"} {
		params := map[string]any{"type": kind, "key": key}
		if len(key) == 1 && kind == "keyDown" {
			params["text"] = key
		}
		b.call("Input.dispatchKeyEvent", params, nil)
	}
}

// Move moves the pointer.
func (b *Browser) Move(x, y float64) {
	b.t.Helper()
	b.call("Input.dispatchMouseEvent", map[string]any{"type": "mouseMoved", "x": x, "y": y}, nil)
}

// Messages are the console's output so far.
func (b *Browser) Messages() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.messages...)
}

// Shot writes the whole page, or at most so much of its height, as a PNG file, where the folder is not "".
func (b *Browser) Shot(folder, name string, most int) {
	b.t.Helper()
	if folder == "" {
		return
	}
	var size struct{ W, H float64 }
	b.Eval("({W: document.documentElement.clientWidth, H: document.documentElement.scrollHeight})", &size)
	b.shot(folder, name, map[string]any{"captureBeyondViewport": true,
		"clip": map[string]any{"x": 0, "y": 0, "width": size.W, "height": min(size.H, float64(most)), "scale": 1}})
}

// View writes the window, as Shot does the page.
func (b *Browser) View(folder, name string) {
	b.t.Helper()
	if folder != "" {
		b.shot(folder, name, map[string]any{})
	}
}

func (b *Browser) shot(folder, name string, params map[string]any) {
	b.t.Helper()
	var shot struct{ Data string }
	b.call("Page.captureScreenshot", params, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	must(b.t, err)
	must(b.t, os.MkdirAll(folder, 0o755))
	must(b.t, os.WriteFile(filepath.Join(folder, name+".png"), png, 0o644))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Draws fails unless the page has this number of plots after the browser has read it, and its console
// stays empty. Without the flag -browser, or a browser, the test is skipped.
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
