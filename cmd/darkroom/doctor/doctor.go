// Package doctor is 'darkroom doctor': the abilities of this machine.
package doctor

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"runtime"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/device"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/cmd/internal/version"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/choice"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/cpu/peak"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/outside/machine"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/spf13/cobra"
)

// Command is 'darkroom doctor'.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine offers and what is missing",
		Long: `Say what this machine offers: the CPU and the set of kernels chosen for it (and
why not a faster one; families of operations may have another one, by measurement), what it was measured to do at best, memory, GPUs, and the
optional programs found on PATH.

--verify runs the conformance suite on each card: in exact mode, where every bit
is that of the definition, and on tensor cores, where results are near it. The
result is kept by card, driver and program. --device auto takes a card that passed.`,
		Example: "  darkroom doctor\n  darkroom doctor --verify\n  DARKROOM_CPU=avx2 darkroom doctor --json",
		Args:    exits.NoArgs,
	}
	probe := cmd.Flags().Bool("probe", true, "measure the peaks (one or two seconds)")
	verify := cmd.Flags().Bool("verify", false, "run the conformance suite on each card (a minute or two)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		m := examine()
		if *verify {
			if err := m.verify(cmd.ErrOrStderr()); err != nil {
				return err
			}
		}
		m.Path.addFamilies(*probe)
		if *probe && m.Path.Error == "" {
			m.Peaks = probePeaks()
		}
		if err := console.Emit(cmd, m, m.write); err != nil {
			return err
		}
		if m.Path.Error != "" {
			return exits.Usagef("%s", m.Path.Error)
		}
		if *verify {
			return m.failed()
		}
		return nil
	}
	return cmd
}

// A machine is doctor's findings.
type report struct {
	Build  version.Build `json:"build"`
	CPU    cpuInfo       `json:"cpu"`
	Path   pathInfo      `json:"path"`
	Peaks  []peak.Table  `json:"peaks,omitempty"` // with one thread, and with all
	Memory machine.RAM   `json:"memory"`
	GPUs   []string      `json:"gpus"` // models
	CUDA   cuda.Report   `json:"cuda"`
	Cards  []card        `json:"cards,omitempty"` // in the order of CUDA.Devices
	Extras []finding     `json:"extras"`
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
	// Families have paths of their own, unless one is forced.
	Families []familyPath `json:"families,omitempty"`
	Measured float64      `json:"measured_ms,omitempty"` // the time that it took to measure them
}

// A familyPath is the choice of a family of operations.
type familyPath struct {
	choice.Row
	Chosen string `json:"chosen"`
}

// addFamilies adds the times of families' paths and the choice: measured now, or kept ones.
func (p *pathInfo) addFamilies(measure bool) {
	if p.Error != "" || p.Forced != "" {
		return
	}
	kept, ok := device.KeptPaths()
	if measure {
		kept, ok = device.MeasurePaths(), true
	}
	if !ok {
		return
	}
	p.Measured = kept.MS
	for _, r := range kept.Table {
		p.Families = append(p.Families, familyPath{r, r.Fastest(isa.Best()).String()})
	}
}

func examine() report {
	m := report{
		Build:  version.Read(),
		CPU:    cpuInfo{Model: machine.CPUModel(), Cores: runtime.NumCPU(), Threads: cpu.Threads(), Features: []string{}},
		Path:   examinePath(),
		Memory: machine.Memory(),
		GPUs:   findGPUs(os.DirFS("/")),
		CUDA:   cuda.Probe(),
		Extras: append(findTools(), findLibraries(os.DirFS("/"))...),
	}
	m.Cards = examineCards(m.CUDA)
	for _, f := range isa.Features() {
		if f.Present {
			m.CPU.Features = append(m.CPU.Features, f.Name)
		}
	}
	return m
}

// examinePath names the kernels that will run, and the obstacles to faster ones.
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
	named := isa.Best() // one reason a path is enough: its consequences are left out
	for _, f := range isa.Features() {
		if f.Path > named && !f.Present {
			p.Why = append(p.Why, fmt.Sprintf("not %s: this machine lacks %s", f.Path, f.Name))
			named = f.Path
		}
	}
	return p
}

func (m report) write(w io.Writer) {
	t := console.Table{}
	t.Add("build", m.Build.String())
	t.Add("cpu", m.CPU.Model)
	t.Add("", fmt.Sprintf("%d cores, %d threads used", m.CPU.Cores, m.CPU.Threads))
	if len(m.CPU.Features) > 0 {
		t.Add("", strings.Join(m.CPU.Features, " "))
	}
	t.Add("path", m.Path.Chosen)
	if m.Path.Error != "" {
		t.Add("", m.Path.Error)
	}
	for _, why := range m.Path.Why {
		t.Add("", why)
	}
	t.Add("memory", fmt.Sprintf("%s, %s free", size(m.Memory.Total), size(m.Memory.Available)))
	for _, model := range m.GPUs {
		t.Add("gpu", model)
	}
	if len(m.GPUs) == 0 {
		t.Add("gpu", "no NVIDIA GPU found")
	}
	switch {
	case m.CUDA.Missing != "":
		t.Add("cuda", "none: "+m.CUDA.Missing)
	default:
		t.Add("cuda", "driver of CUDA "+m.CUDA.Driver)
		for i, d := range m.CUDA.Devices {
			t.Add("", d.String())
			for _, line := range m.Cards[i].lines() {
				t.Add("", "  "+line)
			}
		}
		t.Add("", "products of bf16: "+m.CUDA.Products)
		if m.CUDA.Attention != "" {
			t.Add("", "attention and our own products of bf16: "+m.CUDA.Attention)
		}
	}
	t.Write(w)
	m.Path.writeFamilies(w)
	writePeaks(w, m.Peaks)
	fmt.Fprintln(w)
	extras := console.Table{Header: []string{"OPTIONAL", "FOUND", "ENABLES"}}
	for _, f := range m.Extras {
		extras.Add(f.Name, cmp.Or(f.Path, "no"), f.Enables)
	}
	extras.Write(w)
}

// size is an amount of memory for people.
func size(n uint64) string {
	if n == 0 {
		return "unknown"
	}
	return console.Bytes(int64(n))
}

// probePeaks measures the chosen path with one thread and with all.
func probePeaks() []peak.Table {
	path, err := isa.Choose()
	if err != nil {
		return nil // examinePath has reported it
	}
	peaks := []peak.Table{peak.Measure(path, 1)}
	if all := cpu.Threads(); all > 1 {
		peaks = append(peaks, peak.Measure(path, all))
	}
	return peaks
}

func writePeaks(w io.Writer, peaks []peak.Table) {
	if len(peaks) == 0 {
		return
	}
	t := console.Table{Header: []string{"AT BEST"}}
	for _, p := range peaks {
		plural := "s"
		if p.Threads == 1 {
			plural = ""
		}
		t.Header = append(t.Header, fmt.Sprintf(">%d thread%s", p.Threads, plural))
	}
	for _, row := range []struct {
		name, unit string
		of         func(peak.Table) float64
	}{
		{"fp32 multiply-adds", "GF/s", func(p peak.Table) float64 { return p.F32 }},
		{"bf16 products", "GF/s", func(p peak.Table) float64 { return p.BF16 }},
		{"reading L2", "GB/s", func(p peak.Table) float64 { return p.L2 }},
		{"reading L3", "GB/s", func(p peak.Table) float64 { return p.L3 }},
		{"reading memory", "GB/s", func(p peak.Table) float64 { return p.Memory }},
	} {
		cells := []string{row.name}
		for _, p := range peaks {
			cells = append(cells, fmt.Sprintf("%.1f %s", row.of(p), row.unit))
		}
		t.Add(cells...)
	}
	fmt.Fprintln(w)
	t.Write(w)
}

// writeFamilies is the table of times. A path that another one leaves far behind is timed once.
func (p pathInfo) writeFamilies(w io.Writer) {
	if len(p.Families) == 0 {
		return
	}
	t := console.Table{Header: []string{"MS OF ONE THREAD"}}
	var paths []string
	for _, q := range isa.Paths() {
		if name := q.String(); slices.ContainsFunc(p.Families, func(f familyPath) bool { return f.MS[name] > 0 }) {
			paths = append(paths, name)
			t.Header = append(t.Header, ">"+name)
		}
	}
	t.Header = append(t.Header, "CHOSEN")
	for _, f := range p.Families {
		cells := []string{f.Family + " " + f.Math}
		for _, name := range paths {
			if ms := f.MS[name]; ms > 0 {
				cells = append(cells, fmt.Sprintf("%.3f", ms))
			} else {
				cells = append(cells, "")
			}
		}
		t.Add(append(cells, f.Chosen)...)
	}
	fmt.Fprintln(w)
	t.Write(w)
	fmt.Fprintf(w, "measured in %.0f ms\n", p.Measured)
}

// findGPUs names the NVIDIA GPUs that the kernel's driver knows, without loading
// a library: doctor must work, and say so, where loading would fail. root is the
// root of the file system, but for tests.
func findGPUs(root fs.FS) []string {
	models := []string{}
	infos, _ := fs.Glob(root, "proc/driver/nvidia/gpus/*/information") // only a bad pattern is an error
	for _, f := range infos {
		models = append(models, gpuModel(root, f))
	}
	return models
}

func gpuModel(root fs.FS, file string) string {
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return "unknown model"
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "Model" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown model"
}

// findLibraries looks for NVIDIA's libraries in the places where they are installed.
func findLibraries(root fs.FS) []finding {
	dirs := []string{
		"usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib",
		"usr/lib/wsl/lib", "usr/local/cuda/lib64", "usr/local/nvidia/lib64",
	}
	libraries := []finding{
		{Name: "libcuda.so.1", Enables: "--device cuda:0 (it comes with the driver)"},
		{Name: "libcublasLt.so.*", Enables: "products of bf16 on GPUs, where its algorithms keep a row's bits"},
		{Name: "libcudnn.so.*", Enables: "faster convolutions on GPUs (planned)"},
		{Name: "libnccl.so.*", Enables: "gradients of several GPUs (host memory without it)"},
	}
	for i, lib := range libraries {
		for _, d := range dirs {
			if hits, _ := fs.Glob(root, path.Join(d, lib.Name)); len(hits) > 0 {
				libraries[i].Path = "/" + hits[0]
				break
			}
		}
		libraries[i].Name = strings.TrimSuffix(lib.Name, ".*")
	}
	return libraries
}

// A finding is something optional, and where it was found.
type finding struct {
	Name    string `json:"name"`
	Path    string `json:"path"` // empty: not found
	Enables string `json:"enables"`
}

// findTools looks for programs on PATH.
func findTools() []finding {
	tools := []finding{
		{Name: "ffmpeg", Enables: "video files other than GIF, APNG, PNG folders and Y4M"},
		{Name: "tesseract", Enables: "words read by Tesseract: reward ocr with path = \"tesseract\""},
		{Name: "bwrap", Enables: "bubblewrap, a sandbox for programs that a model writes: [episode.exec] command"},
	}
	opencv := finding{Name: "OpenCV", Enables: "built with -tags gocv: video files without ffmpeg, optical flow by OpenCV"}
	if v := video.OpenCV(); v != "" {
		opencv.Path = "built in, " + v
	}
	for i := range tools {
		if p, err := exec.LookPath(tools[i].Name); err == nil {
			tools[i].Path = p
		}
	}
	return append(tools, opencv)
}
