package main

import (
	"os/exec"

	"github.com/darkroom-rl/darkroom/video"
)

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
