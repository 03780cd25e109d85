package doctor

import (
	"io/fs"
	"os/exec"
	"path"
	"strings"

	"github.com/darkroom-rl/darkroom/video"
)

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
