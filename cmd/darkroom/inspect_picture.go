package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/outside/regular"
	"github.com/darkroom-rl/darkroom/vision"
)

// isPicture goes by a file's ending.
func isPicture(path string) bool {
	return slices.Contains(pictureFiles, strings.ToLower(filepath.Ext(path)))
}

// inspectPicture says how large a picture is, and what it says of itself: one that sample wrote holds its
// prompt and settings.
func inspectPicture(path string) (*inspected, error) {
	m, err := vision.Open(path, vision.Limits{})
	if err != nil {
		return nil, err
	}
	in := &inspected{Path: path, Kind: "picture", Settings: []setting{{"width", m.Width}, {"height", m.Height}}}
	data, err := regular.Read(path, mostPicture)
	if err != nil {
		return nil, err
	}
	if !vision.IsPNG(data) { // no other form holds settings
		return in, nil
	}
	said, err := vision.ReadSettings(data)
	if err != nil {
		return in, fmt.Errorf("%s: %w", path, err)
	}
	for _, s := range said {
		in.Settings = append(in.Settings, setting{printable(s.Key), s.Value})
	}
	return in, nil
}
