package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/cpu/peak"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
)

func doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine offers and what is missing",
		Long: `Say what this machine offers: the CPU and the set of kernels chosen for it (and
why not a faster one), what it was measured to do at best, memory, GPUs, and the
optional programs found on PATH.`,
		Example: "  darkroom doctor\n  DARKROOM_CPU=avx2 darkroom doctor --json",
		Args:    noArgs,
	}
	probe := cmd.Flags().Bool("probe", true, "measure the peaks (one or two seconds)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		m := examine()
		if *probe && m.Path.Error == "" {
			m.Peaks = probePeaks()
		}
		if err := emit(cmd, m, m.write); err != nil {
			return err
		}
		if m.Path.Error != "" {
			return usagef("%s", m.Path.Error)
		}
		return nil
	}
	return cmd
}

// A machine is what doctor found.
type machine struct {
	Build  build        `json:"build"`
	CPU    cpuInfo      `json:"cpu"`
	Path   pathInfo     `json:"path"`
	Peaks  []peak.Table `json:"peaks,omitempty"` // with one thread, and with all
	Memory memoryInfo   `json:"memory"`
	GPUs   []string     `json:"gpus"` // models
	CUDA   cuda.Report  `json:"cuda"`
	Extras []finding    `json:"extras"`
}

type cpuInfo struct {
	Model    string   `json:"model"`
	Cores    int      `json:"cores"`   // logical ones that the system shows
	Threads  int      `json:"threads"` // that Darkroom will use
	Features []string `json:"features"`
}

type pathInfo struct {
	Chosen string   `json:"chosen"`
	Best   string   `json:"best"`
	Forced string   `json:"forced,omitempty"` // DARKROOM_CPU
	Why    []string `json:"why,omitempty"`    // not a faster one
	Error  string   `json:"error,omitempty"`
}

// Bytes; 0 where the system does not say.
type memoryInfo struct {
	Total     uint64 `json:"total"`
	Available uint64 `json:"available"`
}

func examine() machine {
	m := machine{
		Build:  readBuild(),
		CPU:    cpuInfo{Model: cpuModel(), Cores: runtime.NumCPU(), Threads: cpu.Threads(), Features: []string{}},
		Path:   examinePath(),
		Memory: memory(),
		GPUs:   findGPUs(os.DirFS("/")),
		CUDA:   cuda.Probe(),
		Extras: append(findTools(), findLibraries(os.DirFS("/"))...),
	}
	for _, f := range isa.Features() {
		if f.Present {
			m.CPU.Features = append(m.CPU.Features, f.Name)
		}
	}
	return m
}

// examinePath says which kernels will run, and what stands in the way of faster ones.
func examinePath() pathInfo {
	chosen, err := isa.Choose()
	p := pathInfo{Chosen: chosen.String(), Best: isa.Best().String(), Forced: os.Getenv("DARKROOM_CPU")}
	if err != nil {
		p.Chosen, p.Error = "none", err.Error()
		return p
	}
	if chosen != isa.Best() {
		p.Why = append(p.Why, fmt.Sprintf("DARKROOM_CPU=%s asks for it; %s would be faster", p.Forced, p.Best))
	}
	if len(isa.Features()) == 0 {
		p.Why = append(p.Why, "this binary holds no assembly (build tag noasm, or an architecture that has none yet): correct, but slow")
	}
	named := isa.Best() // one reason a path is enough: what follows from it is no news
	for _, f := range isa.Features() {
		if f.Path > named && !f.Present {
			p.Why = append(p.Why, fmt.Sprintf("not %s: this machine lacks %s", f.Path, f.Name))
			named = f.Path
		}
	}
	return p
}

func (m machine) write(w io.Writer) {
	t := table{}
	t.add("build", m.Build.String())
	t.add("cpu", m.CPU.Model)
	t.add("", fmt.Sprintf("%d cores, %d threads used", m.CPU.Cores, m.CPU.Threads))
	if len(m.CPU.Features) > 0 {
		t.add("", strings.Join(m.CPU.Features, " "))
	}
	t.add("path", m.Path.Chosen)
	if m.Path.Error != "" {
		t.add("", m.Path.Error)
	}
	for _, why := range m.Path.Why {
		t.add("", why)
	}
	t.add("memory", fmt.Sprintf("%s, %s free", size(m.Memory.Total), size(m.Memory.Available)))
	for _, model := range m.GPUs {
		t.add("gpu", model)
	}
	if len(m.GPUs) == 0 {
		t.add("gpu", "no NVIDIA GPU found")
	}
	switch {
	case m.CUDA.Missing != "":
		t.add("cuda", "none: "+m.CUDA.Missing)
	default:
		t.add("cuda", "driver of CUDA "+m.CUDA.Driver)
		for _, d := range m.CUDA.Devices {
			t.add("", d.String())
		}
		t.add("", "products of bf16: "+m.CUDA.Products)
		if m.CUDA.Attention != "" {
			t.add("", "attention and our own products of bf16: "+m.CUDA.Attention)
		}
	}
	t.write(w)
	writePeaks(w, m.Peaks)
	fmt.Fprintln(w)
	extras := table{header: []string{"OPTIONAL", "FOUND", "ENABLES"}}
	for _, f := range m.Extras {
		extras.add(f.Name, cmp.Or(f.Path, "no"), f.Enables)
	}
	extras.write(w)
}

// size is an amount of memory for people.
func size(n uint64) string {
	if n == 0 {
		return "unknown"
	}
	return bytesText(int64(n))
}
