package main

import (
	"io/fs"
	"path"
	"strings"
)

// gpuInfo is what can be known of NVIDIA GPUs without loading a library: doctor
// must work, and say so, where loading would fail.
type gpuInfo struct {
	Devices   []string `json:"devices"`   // models that the kernel driver names
	Libraries []string `json:"libraries"` // libcuda and its optional friends, where found
}

// findGPUs looks below root (the file system's root, but for tests).
func findGPUs(root fs.FS) gpuInfo {
	g := gpuInfo{Devices: []string{}, Libraries: []string{}}
	infos, _ := fs.Glob(root, "proc/driver/nvidia/gpus/*/information") // only a bad pattern is an error
	for _, f := range infos {
		g.Devices = append(g.Devices, gpuModel(root, f))
	}
	dirs := []string{
		"usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib",
		"usr/lib/wsl/lib", "usr/local/cuda/lib64", "usr/local/nvidia/lib64",
	}
	for _, lib := range []string{"libcuda.so.1", "libcublasLt.so.*", "libcudnn.so.*", "libnccl.so.*"} {
		for _, d := range dirs {
			if hits, _ := fs.Glob(root, path.Join(d, lib)); len(hits) > 0 {
				g.Libraries = append(g.Libraries, "/"+hits[0])
				break
			}
		}
	}
	return g
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

func (g gpuInfo) lines() []string {
	var s []string
	s = append(s, g.Devices...)
	if len(g.Devices) == 0 {
		s = append(s, "no NVIDIA GPU found; computing on the CPU")
	}
	if len(g.Devices) > 0 && (len(g.Libraries) == 0 || !strings.Contains(g.Libraries[0], "libcuda.so")) {
		s = append(s, "libcuda.so.1 not found: the driver's user part is not installed")
	}
	return append(s, g.Libraries...)
}
