package amxemu

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

// variable is set in the traced process.
const variable = "DARKROOM_TEST_TRACED"

// Traced says whether this process is one that Run started: tile instructions work.
func Traced() bool { return testing.Testing() && os.Getenv(variable) == "1" }

// Run runs the test of the given name in a traced process, and fails if it does. It
// skips where the system forbids tracing.
func Run(t *testing.T, test string, args ...string) {
	t.Helper()
	out, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, append([]string{"-test.run=^" + test + "$", "-test.v"}, args...)...)
	cmd.Env = append(os.Environ(), variable+"=1")
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	code, steps, err := trace(cmd)
	text, _ := os.ReadFile(out.Name())
	switch {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.ENOSYS):
		t.Skipf("this system forbids tracing: %v", err)
	case err != nil:
		t.Fatalf("%v\n%s", err, text)
	case code != 0:
		t.Fatalf("the traced test failed, exit %d\n%s", code, text)
	}
	t.Logf("%d tile instructions\n%s", steps, text)
	if steps == 0 {
		t.Fatal("no tile instruction was met")
	}
}

// trace runs cmd to its end, with a tile state for each thread.
func trace(cmd *exec.Cmd) (code, steps int, err error) {
	runtime.LockOSThread() // the tracer is a thread
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	pid := cmd.Process.Pid
	defer func() {
		if err != nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	}()
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &ws, 0, nil); err != nil {
		return 0, 0, err
	}
	const exitKill = 1 << 20
	if err := syscall.PtraceSetOptions(pid, syscall.PTRACE_O_TRACECLONE|exitKill); err != nil {
		return 0, 0, err
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return 0, 0, err
	}
	defer mem.Close()
	threads := map[int]*Tiles{pid: {}}
	if err := syscall.PtraceCont(pid, 0); err != nil {
		return 0, 0, err
	}
	for {
		tid, err := syscall.Wait4(-1, &ws, syscall.WALL, nil)
		if err != nil {
			return 0, steps, err
		}
		switch {
		case ws.Exited() || ws.Signaled():
			delete(threads, tid)
			if tid == pid {
				if ws.Signaled() {
					return 0, steps, fmt.Errorf("the traced process died: %v", ws.Signal())
				}
				return ws.ExitStatus(), steps, nil
			}
			continue
		case !ws.Stopped():
			continue
		}
		signal := int(ws.StopSignal())
		switch {
		case threads[tid] == nil: // a new thread
			threads[tid], signal = &Tiles{}, 0
		case ws.StopSignal() == syscall.SIGTRAP:
			signal = 0
		case ws.StopSignal() == syscall.SIGILL:
			n, err := threads[tid].run(tid, mem)
			steps += n
			if err != nil {
				return 0, steps, err
			}
			if n > 0 {
				signal = 0
			}
		}
		if err := syscall.PtraceCont(tid, signal); err != nil && err != syscall.ESRCH {
			return 0, steps, err
		}
	}
}

// run carries out the tile instructions that a stopped thread is at.
func (t *Tiles) run(tid int, mem *os.File) (steps int, err error) {
	var regs syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(tid, &regs); err != nil {
		return 0, err
	}
	r := registers{regs.Rax, regs.Rcx, regs.Rdx, regs.Rbx, regs.Rsp, regs.Rbp, regs.Rsi, regs.Rdi,
		regs.R8, regs.R9, regs.R10, regs.R11, regs.R12, regs.R13, regs.R14, regs.R15}
	for ; ; steps++ {
		var code [16]byte
		if err := (file{mem}).read(code[:], regs.Rip); err != nil {
			return steps, err
		}
		n, err := t.step(code[:], &r, file{mem})
		if err == errNotTiles {
			break
		}
		if err != nil {
			return steps, fmt.Errorf("at %#x, % x: %w", regs.Rip, code, err)
		}
		regs.Rip += uint64(n)
	}
	return steps, syscall.PtraceSetRegs(tid, &regs)
}

// file is a process's memory.
type file struct{ *os.File }

func (f file) read(b []byte, at uint64) error {
	_, err := f.ReadAt(b, int64(at))
	return err
}

func (f file) write(b []byte, at uint64) error {
	_, err := f.WriteAt(b, int64(at))
	return err
}
