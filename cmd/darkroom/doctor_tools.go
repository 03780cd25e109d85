package main

import "os/exec"

// A toolFinding is an optional program and where it was found.
type toolFinding struct {
	Name    string `json:"name"`
	Path    string `json:"path"` // empty: not on PATH
	Enables string `json:"enables"`
}

func findTools() []toolFinding {
	tools := []toolFinding{
		{Name: "ffmpeg", Enables: "video files other than GIF, APNG, PNG folders and Y4M"},
		{Name: "tesseract", Enables: "the OCR reward read by Tesseract"},
	}
	for i := range tools {
		if p, err := exec.LookPath(tools[i].Name); err == nil {
			tools[i].Path = p
		}
	}
	return tools
}
