// Opsbeside times operations of Darkroom and of PyTorch in turn, call by call (A B A B), so that other work on the
// machine disturbs both alike, and writes the table to docs/measured.md, below the CPU's name.
//
//	make bench-beside PYTHON=peer/bin/python
//	go run ./internal/opsbeside -python peer/bin/python -families gemm -page ''
//
// The other program needs PyTorch alone: python3 -m venv peer && peer/bin/pip install torch
package main

import (
	"bufio"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"time"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/choice"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/cpu/peak"
	"github.com/darkroom-rl/darkroom/kernels/kerneltest/bench"
	"github.com/darkroom-rl/darkroom/outside/machine"
)

//go:embed peer.py
var program string

type options struct {
	python, page, rows, from string
	families                 []string
	threads                  []int
	rounds                   int
}

func main() {
	var o options
	families, threads := "", ""
	flag.StringVar(&o.python, "python", "peer/bin/python", "a Python with torch")
	flag.StringVar(&o.page, "page", "docs/measured.md", "the page whose table is written anew; '' prints it alone")
	flag.StringVar(&o.rows, "rows", "", "a file for all rows, as JSON")
	flag.StringVar(&o.from, "from", "", "a file of -rows that is written to the page; nothing is measured")
	flag.StringVar(&families, "families", strings.Join(bench.Families(), ","), "of operations")
	flag.StringVar(&threads, "threads", fmt.Sprintf("1,%d", runtime.NumCPU()), "of both programs")
	flag.IntVar(&o.rounds, "rounds", 15, "timed turns of each program")
	flag.Parse()
	o.families = strings.Split(families, ",")
	for text := range strings.SplitSeq(threads, ",") {
		n := 0
		if _, err := fmt.Sscan(text, &n); err != nil || n < 1 {
			fmt.Fprintf(os.Stderr, "opsbeside: -threads %s: write numbers, as 1,2\n", threads)
			os.Exit(2)
		}
		o.threads = append(o.threads, n)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := compare(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "opsbeside:", err)
		os.Exit(1)
	}
}

func compare(ctx context.Context, o options) error {
	if o.from != "" {
		var t table
		text, err := os.ReadFile(o.from)
		if err = errors.Join(err, json.Unmarshal(text, &t)); err != nil {
			return err
		}
		return t.into(o.page)
	}
	p, err := start(ctx, o.python)
	if err != nil {
		return fmt.Errorf("%w\nhint: -python names one; the comment of main.go says what it needs", err)
	}
	defer p.stop()
	path, err := isa.Choose()
	if err != nil {
		return err
	}
	how := cpu.Options{Path: path}
	if !isa.Forced() {
		how.Mix = choice.Measure().Mix(path)
	}
	var rows []row
	for _, n := range o.threads {
		how.Threads = n
		b := cpu.NewWith(how)
		err := bench.Each(ctx, b, o.families, func(of bench.Row, run func()) error {
			of.Threads = n
			r, ok, err := p.beside(of, run, o.rounds)
			if ok && err == nil {
				rows = append(rows, r)
				fmt.Fprintln(os.Stderr, r)
			}
			return err
		})
		b.Close()
		if err != nil {
			return err
		}
	}
	t := table{CPU: machine.CPUModel(), Path: path.String(), Torch: p.version, At: time.Now().UTC(), Load: load(), Rows: rows}
	if o.rows != "" {
		text, err := json.MarshalIndent(t, "", "  ")
		if err = errors.Join(err, os.WriteFile(o.rows, append(text, '\n'), 0o644)); err != nil {
			return err
		}
	}
	t.write(os.Stdout)
	if o.page == "" {
		return nil
	}
	return t.into(o.page)
}

// load is the machine's load average of the last minutes; "" where the system does not tell.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	return strings.Join(strings.Fields(string(text))[:min(3, len(strings.Fields(string(text))))], ", ")
}

// peer is the other program.
type peer struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
	version string
	began   time.Time
}

func start(ctx context.Context, python string) (*peer, error) {
	p := &peer{began: time.Now(), cmd: exec.CommandContext(ctx, python, "-c", program)}
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	out, err2 := p.cmd.StdoutPipe()
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	p.in, p.out = in, bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	var hello struct{ Version string }
	if err := p.read(&hello); err != nil {
		p.stop()
		return nil, err
	}
	p.version = hello.Version
	return p, nil
}

func (p *peer) stop() {
	_ = p.in.Close() // it ends
	_ = p.cmd.Wait()
}

// ask sends a line and reads the answer to it.
func (p *peer) ask(question map[string]any, answer any) error {
	text, err := json.Marshal(question)
	if err != nil {
		return err
	}
	if _, err := p.in.Write(append(text, '\n')); err != nil {
		return err
	}
	return p.read(answer)
}

func (p *peer) read(answer any) error {
	if !p.out.Scan() {
		return cmp.Or(p.out.Err(), errors.New("the other program has ended"))
	}
	return json.Unmarshal(p.out.Bytes(), answer)
}

// turn is how long the calls of one turn take at least: a shorter time is mostly that of the clock and of starting
// threads.
const turn = 2 * time.Millisecond

// beside times one operation in both programs in turn; false where the other one has none like it.
func (p *peer) beside(of bench.Row, run func(), rounds int) (row, bool, error) {
	var forms struct{ Forms int }
	if err := p.ask(map[string]any{"op": of.Op, "shape": of.Shape, "dtype": of.DType, "threads": of.Threads}, &forms); err != nil || forms.Forms == 0 {
		return row{}, false, err
	}
	r := row{Op: of.Op, Shape: of.Shape, DType: of.DType, Threads: of.Threads}
	clock := func() time.Duration { return time.Since(p.began) }
	own := of.Threads == 1 && runtime.GOOS == "linux" // the thread's own time: waiting for a core does not count
	if own {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		clock = peak.ThreadTime
	}
	run()
	begin := time.Now()
	run()
	calls := max(1, int(turn/max(time.Since(begin), 1)))
	var ours, theirs []float64
	for i := range rounds + 2 {
		begin := clock()
		for range calls {
			run()
		}
		mine := 1e3 * (clock() - begin).Seconds() / float64(calls)
		var other struct{ MS float64 }
		if err := p.ask(map[string]any{"calls": calls, "own": own}, &other); err != nil {
			return r, false, err
		}
		if i >= 2 { // the first turns warm up
			ours, theirs = append(ours, mine), append(theirs, other.MS)
		}
	}
	r.Ours, r.Theirs = summarise(ours), summarise(theirs)
	return r, true, nil
}
