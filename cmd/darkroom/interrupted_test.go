//go:build unix

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
)

// A process is darkroom train in a folder with killed.toml.
type process struct {
	*exec.Cmd
	log *bytes.Buffer
}

// trainIn is a command of this program in a folder, below a shell's limits if there are some.
func trainIn(dir, limits string, args ...string) process {
	cmd := exec.Command(os.Args[0])
	cmd.Args = append([]string{"darkroom", "train", "killed.toml", "--out", "run"}, args...) // by this name the test binary is the program
	if limits != "" {
		link := filepath.Join(dir, "darkroom")
		_ = os.Symlink(os.Args[0], link) // there already the second time
		cmd = exec.Command("sh", append([]string{"-c", limits + `; exec "$0" "$@"`, link}, cmd.Args[1:]...)...)
	}
	cmd.Dir = dir
	p := process{cmd, &bytes.Buffer{}}
	cmd.Stderr = p.log
	return p
}

// ended is the exit code, -1 of a signal. One that does not end in time is killed.
func (p process) ended(t *testing.T, within time.Duration) int {
	t.Helper()
	late := time.AfterFunc(within, func() { _ = p.Process.Kill() })
	err := p.Wait()
	var exit *exec.ExitError
	switch {
	case !late.Stop():
		t.Fatalf("still there after %v\n%s", within, p.log)
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	t.Fatal(err)
	return 0
}

// ends runs to the end.
func (p process) ends(t *testing.T) int {
	t.Helper()
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p.ended(t, 5*time.Minute)
}

// lines is how many iterations the ledger has.
func lines(dir string) int {
	text, _ := os.ReadFile(filepath.Join(dir, "run", "ledger.jsonl")) // none yet
	return bytes.Count(text, []byte("\n"))
}

// TestFirstInterrupt: the first Ctrl-C finishes the iteration and saves it, the exit code says so,
// and the run goes on from there.
func TestFirstInterrupt(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds; left out by -short")
	}
	dir := experimentOf(t, "pictures", 1000)
	p := trainIn(dir, "")
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); lines(dir) < 2; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 3*time.Minute {
			_ = p.Process.Kill()
			t.Fatalf("no iteration after %v\n%s", time.Since(began), p.log)
		}
	}
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := p.ended(t, 3*time.Minute); code != exits.Interrupted || !strings.Contains(p.log.String(), "interrupted, and saved") {
		t.Fatalf("exit code %d\n%s", code, p.log)
	}
	done := lines(dir)
	if _, err := os.Stat(filepath.Join(dir, "run", "checkpoints", fmt.Sprintf("%06d", done))); err != nil {
		t.Errorf("after %d iterations: %v", done, err)
	}
	p = trainIn(dir, "", "--resume", "--set", fmt.Sprintf("run.iterations=%d", done+1))
	if code := p.ends(t); code != 0 || lines(dir) != done+1 || !strings.Contains(p.log.String(), fmt.Sprintf("going on after iteration %d", done)) {
		t.Errorf("exit code %d, %d lines\n%s", code, lines(dir), p.log)
	}
}

// TestNobodyReads: a run goes on to its end without a reader of its output.
func TestNobodyReads(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds; left out by -short")
	}
	dir := experimentOf(t, "pictures", 2)
	p := trainIn(dir, "")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.Stderr = write
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	read.Close() // nobody reads its output from the first word on
	if code := p.ended(t, 5*time.Minute); code != 0 || lines(dir) != 2 {
		t.Errorf("exit code %d, %d iterations", code, lines(dir))
	}
	if _, err := os.Stat(filepath.Join(dir, "run", "result.json")); err != nil {
		t.Error(err)
	}
}

// TestSecondInterrupt: in the middle of an iteration the first Ctrl-C waits for its end, and the
// second leaves at once, also where a shell that starts commands in the background has Ctrl-C ignored; the run goes on
// from its checkpoint.
func TestSecondInterrupt(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds; left out by -short")
	}
	for name, before := range map[string]string{"terminal": "", "background": `trap "" INT`} {
		t.Run(name, func(t *testing.T) { secondInterrupt(t, before) })
	}
}

func secondInterrupt(t *testing.T, before string) {
	asked, stuck := make(chan bool, 100), atomic.Bool{}
	stuck.Store(true)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- true
		for stuck.Load() && r.Context().Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		fmt.Fprint(w, `{"scores": [1, 2, 3]}`)
	}))
	defer server.Close()
	defer stuck.Store(false)
	dir := experimentOf(t, "pictures", 2)
	more := []string{"--set", fmt.Sprintf("reward=[{name='http', url='%s'}]", server.URL), "--set", "evaluate.prompts=''", "--set", "evaluate.every=0"}
	p := trainIn(dir, before, more...)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-asked:
	case <-time.After(3 * time.Minute):
		_ = p.Process.Kill()
		t.Fatalf("the reward was not asked\n%s", p.log)
	}
	over := make(chan int, 1)
	_ = p.Process.Signal(os.Interrupt) // it waits
	go func() { over <- p.ended(t, 3*time.Minute) }()
	select {
	case code := <-over:
		t.Fatalf("the first Ctrl-C ended it with %d in the middle of an iteration\n%s", code, p.log)
	case <-time.After(500 * time.Millisecond):
	}
	_ = p.Process.Signal(syscall.SIGINT) // it leaves
	select {
	case code := <-over:
		if code != exits.Interrupted || !strings.Contains(p.log.String(), "ended at once, with no iteration saved: --resume") {
			t.Errorf("exit code %d\n%s", code, p.log)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the second Ctrl-C did not end it")
	}
	stuck.Store(false)
	if p := trainIn(dir, "", append(more, "--resume")...); p.ends(t) != 0 || lines(dir) != 2 {
		t.Errorf("%d lines\n%s", lines(dir), p.log)
	}
}

// TestNoRoom: a checkpoint that cannot be written ends the run with a remedy, the one before stays, and with room the
// run goes on to the bytes of one that always had it.
func TestNoRoom(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds; left out by -short")
	}
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skipf("needs a shell's limit of file sizes: %v", err)
	}
	whole, dir := experimentOf(t, "pictures", 4), experimentOf(t, "pictures", 4)
	const large = "model.lora.rank=64" // so that the state is the largest file
	if p := trainIn(whole, "", "--set", large); p.ends(t) != 0 {
		t.Fatal(p.log)
	}
	if p := trainIn(dir, "", "--set", large, "--set", "run.iterations=2"); p.ends(t) != 0 {
		t.Fatal(p.log)
	}
	info, err := os.Stat(filepath.Join(dir, "run", "checkpoints", "000002", "state.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	// In blocks of 512 bytes or of 1024, by the shell: less than the state either way.
	p := trainIn(dir, fmt.Sprintf("ulimit -f %d", info.Size()/1100), "--set", large, "--resume")
	if code := p.ends(t); code != exits.Failed || !strings.Contains(p.log.String(), "saving the checkpoint of iteration 3") || !strings.Contains(p.log.String(), "--resume goes on") {
		t.Fatalf("exit code %d\n%s", code, p.log)
	}
	if _, err := os.Stat(filepath.Join(dir, "run", "checkpoints", "000002", "SHA256SUMS")); err != nil {
		t.Errorf("the checkpoint before: %v", err)
	}
	if p := trainIn(dir, "", "--set", large, "--resume"); p.ends(t) != 0 {
		t.Fatal(p.log)
	}
	a, b := files(t, filepath.Join(whole, "run")), files(t, filepath.Join(dir, "run"))
	for name := range a {
		if !bytes.Equal(a[name], b[name]) {
			t.Errorf("%s differs from that of the run which always had room", name)
		}
	}
}

// TestNotWritable: a folder that cannot be made or written is reported before anything is computed.
func TestNotWritable(t *testing.T) {
	dir := experimentOf(t, "pictures", 1)
	if err := os.WriteFile(filepath.Join(dir, "run"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	p := trainIn(dir, "")
	if code := p.ends(t); code != exits.Failed || !strings.Contains(p.log.String(), "the run's folder cannot be made") || !strings.Contains(p.log.String(), "--out names another") {
		t.Errorf("exit code %d\n%s", code, p.log)
	}
	bound := "" // by permissions, which root is not
	if os.Geteuid() == 0 {
		if _, err := exec.LookPath("setpriv"); err != nil {
			t.Skipf("root may write everywhere, and cannot be bound by permissions: %v", err)
		}
		bound = `exec setpriv --bounding-set -dac_override,-dac_read_search "$0" "$@"`
	}
	if err := os.Remove(filepath.Join(dir, "run")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "run"), 0o555); err != nil {
		t.Fatal(err)
	}
	p = trainIn(dir, bound)
	if code := p.ends(t); code != exits.Failed || !strings.Contains(p.log.String(), "cannot be written") {
		t.Errorf("exit code %d\n%s", code, p.log)
	}
}

// TestHangup: a terminal that goes away ends a command as Ctrl-C does; under nohup it goes on.
func TestHangup(t *testing.T) {
	for _, c := range []struct {
		name, before string
		signals      []os.Signal // the last one ends it
	}{{"hangup", "", []os.Signal{syscall.SIGHUP}}, {"nohup", `trap "" HUP; `, []os.Signal{syscall.SIGHUP, syscall.SIGTERM}}} {
		if c.before == "" && signal.Ignored(syscall.SIGHUP) {
			t.Log("skipped: hangups are ignored here, and so by every program that is started (nohup)")
			continue
		}
		link := t.TempDir() + "/darkroom" // by this name the test binary is the program
		if err := os.Symlink(os.Args[0], link); err != nil {
			t.Fatal(err)
		}
		p := exec.Command("sh", "-c", c.before+`exec "$0" score --reward scene --serve localhost:0`, link)
		errs, err := p.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		late := time.AfterFunc(time.Minute, func() { _ = p.Process.Kill() })
		if said, err := bufio.NewReader(errs).ReadString('\n'); !strings.Contains(said, "answers at") {
			t.Errorf("%s: %q, %v", c.name, said, err)
		}
		for _, s := range c.signals {
			_ = p.Process.Signal(s) // if it has ended, Wait says how
			time.Sleep(50 * time.Millisecond)
		}
		err = p.Wait()
		if !late.Stop() || err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
