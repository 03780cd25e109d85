// Onnxbeside times ONNX files in Darkroom's runner and in onnxruntime, answer by answer in turn (A B A B): other work
// on the machine disturbs both alike. Answers are compared.
//
//	make onnx-beside PYTHON=peer/bin/python
//	go run ./internal/onnxbeside -python peer/bin/python NETWORK=FILE:1x3x640x640 ...
//
// Seconds of one thread are CPU seconds of the process; of several threads, the clock's. The other program needs
// onnxruntime and numpy: python3 -m venv peer && peer/bin/pip install onnxruntime numpy
package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/darkroom-rl/darkroom/kernels/cpu/choice"
	"github.com/darkroom-rl/darkroom/outside/machine"
	"github.com/darkroom-rl/darkroom/outside/spent"
	"github.com/darkroom-rl/darkroom/vision/onnx"
)

//go:embed peer.py
var program string

// A network is a file and the shape of its input.
type network struct {
	name, file string
	shape      []int
}

func main() {
	python := flag.String("python", "peer/bin/python", "a Python with onnxruntime")
	threads := flag.Int("threads", 1, "of both programs")
	rounds := flag.Int("rounds", 11, "timed turns of each program")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := compare(ctx, *python, *threads, *rounds, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "onnxbeside:", err)
		os.Exit(1)
	}
}

func compare(ctx context.Context, python string, threads, rounds int, names []string) error {
	networks := make([]network, len(names))
	for i, name := range names {
		var err error
		if networks[i], err = parse(name); err != nil {
			return err
		}
	}
	runtime.GOMAXPROCS(threads)
	be, err := choice.Backend(threads, choice.Measure)
	if err != nil {
		return err
	}
	defer be.Close()
	for i, n := range networks {
		version, ours, theirs, worst, err := n.beside(ctx, be, python, threads, rounds)
		if err != nil {
			return fmt.Errorf("%s: %w", n.name, err)
		}
		if i == 0 {
			fmt.Printf("%s, %d of its threads, onnxruntime %s. Milliseconds of an answer: least, median.\n\n", machine.CPUModel(), threads, version)
			fmt.Print("| network | input | darkroom | onnxruntime | times as fast | largest difference |\n|---|---|---|---|---|---|\n")
		}
		fmt.Printf("| %s | %v | %.2f, %.2f | %.2f, %.2f | %.2f | %.1e |\n", n.name, n.shape, ours[0], ours[len(ours)/2], theirs[0], theirs[len(theirs)/2], theirs[0]/ours[0], worst)
	}
	return nil
}

// parse reads NAME=FILE:1x3x640x640.
func parse(text string) (n network, err error) {
	name, rest, ok := strings.Cut(text, "=")
	at := strings.LastIndex(rest, ":")
	if !ok || at < 0 {
		return n, fmt.Errorf("%q: write NAME=FILE:1x3x640x640", text)
	}
	n.name, n.file = name, rest[:at]
	for side := range strings.SplitSeq(rest[at+1:], "x") {
		k, err := strconv.Atoi(side)
		if err != nil || k < 1 {
			return n, fmt.Errorf("%q: the shape of the input is lengths with x between them", text)
		}
		n.shape = append(n.shape, k)
	}
	return n, nil
}

// answer is one of the other program.
type answer struct {
	Version      string
	Seconds, CPU float64
	Out          []float64
	Size         int
}

// beside gives milliseconds of both programs, sorted, and the largest difference of numbers that both answered.
func (n network) beside(ctx context.Context, be onnx.Backend, python string, threads, rounds int) (version string, ours, theirs []float64, worst float64, err error) {
	m, err := onnx.Open(n.file, onnx.Options{Backend: be, Threads: threads})
	if err != nil {
		return "", nil, nil, 0, err
	}
	input := make([]float32, 1)
	for _, k := range n.shape {
		input = make([]float32, len(input)*k)
	}
	for i := range input {
		input[i] = float32(float64(i*7%256) / 255)
	}
	inputs := map[string]*onnx.Tensor{m.Inputs()[0].Name: onnx.Floats(input, n.shape...)}

	side := strings.Trim(strings.ReplaceAll(fmt.Sprint(n.shape), " ", "x"), "[]")
	other := exec.CommandContext(ctx, python, "-c", program, n.file, side, fmt.Sprint(threads))
	other.Stderr = os.Stderr
	in, err := other.StdinPipe()
	out, err2 := other.StdoutPipe()
	if err := errors.Join(err, err2); err != nil {
		return "", nil, nil, 0, err
	}
	if err := other.Start(); err != nil {
		return "", nil, nil, 0, err
	}
	defer func() { err = errors.Join(err, in.Close(), other.Wait()) }()
	lines := bufio.NewReader(out)
	hello, err := read(lines)
	if err != nil {
		return "", nil, nil, 0, err
	}
	for i := range rounds + 2 {
		began, used := time.Now(), spent.CPU()
		mine, err := m.Run(ctx, inputs)
		if err != nil {
			return "", nil, nil, 0, err
		}
		seconds, cpu := time.Since(began).Seconds(), (spent.CPU() - used).Seconds()
		if _, err := io.WriteString(in, "again\n"); err != nil {
			return "", nil, nil, 0, err
		}
		a, err := read(lines)
		if err != nil {
			return "", nil, nil, 0, err
		}
		if i < 2 { // the first turns warm up
			if worst, err = differ(mine[m.Outputs()[0].Name].F, a); err != nil {
				return "", nil, nil, 0, err
			}
			continue
		}
		if threads == 1 {
			seconds, a.Seconds = cpu, a.CPU
		}
		ours, theirs = append(ours, 1e3*seconds), append(theirs, 1e3*a.Seconds)
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	return hello.Version, ours, theirs, worst, nil
}

func read(lines *bufio.Reader) (a answer, err error) {
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return a, fmt.Errorf("the other program has ended: %w", err)
	}
	return a, json.Unmarshal(line, &a)
}

// differ is the largest difference between an answer and the other program's, of which every some number is known.
func differ(mine []float32, a answer) (worst float64, err error) {
	if len(mine) != a.Size {
		return 0, fmt.Errorf("%d numbers here, %d of onnxruntime", len(mine), a.Size)
	}
	every := max(1, a.Size/4096)
	for i, v := range a.Out {
		worst = max(worst, math.Abs(float64(mine[i*every])-v))
	}
	return worst, nil
}
