package score

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/darkroom-rl/darkroom/cmd/darkroom/inputs"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/outside/regular"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/evidence"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// A Line is an item with its scores.
type Line struct {
	File   string          `json:"file"`
	Prompt string          `json:"prompt,omitempty"`
	Scores map[string]Part `json:"scores"`

	item    rewards.Item
	missing error // why it cannot be judged at all
}

// Part is one reward's score, or the reason of its absence.
type Part struct {
	Value    *float64           `json:"value,omitempty"`
	Parts    map[string]float64 `json:"parts,omitempty"`
	Evidence []evidence.Reason  `json:"evidence,omitempty"`
	Missing  string             `json:"missing,omitempty"`
}

func (s *Line) add(name string, r rewards.Result) {
	if s.Scores == nil {
		s.Scores = map[string]Part{}
	}
	if r.Missing != nil {
		s.Scores[name] = Part{Missing: r.Missing.Error()}
		return
	}
	s.Scores[name] = Part{Value: &r.Value, Parts: r.Parts, Evidence: r.Evidence}
}

// readFiles reads the files of the command line; of a folder, its pictures and clips by name. A file that cannot be
// read is an item that cannot be judged.
func readFiles(files []string, prompt string) ([]Line, error) {
	var all []Line
	for _, f := range files {
		names := []string{f}
		if info, err := os.Stat(f); err == nil && info.IsDir() {
			if names, err = filesIn(f); err != nil {
				return nil, err
			}
		}
		for _, name := range names {
			s := Line{File: name, Prompt: prompt}
			s.load(name)
			all = append(all, s)
		}
	}
	return all, nil
}

func filesIn(folder string) (names []string, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if ext := strings.ToLower(filepath.Ext(e.Name())); slices.Contains(inputs.PictureFiles, ext) || slices.Contains(video.Endings(), ext) {
			names = append(names, filepath.Join(folder, e.Name()))
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("folder %s holds no pictures and no clips", folder)
	}
	return names, nil
}

// load reads the file of an item. A picture without a prompt may say its own, or have a caption beside it.
func (s *Line) load(path string) {
	s.item.Prompt = s.Prompt
	if s.missing = s.item.Open(path); s.missing != nil || s.item.Image == nil || s.Prompt != "" {
		return
	}
	data, err := regular.Read(path, inputs.MaxPicture)
	if err != nil {
		s.missing = err
		return
	}
	settings, _ := vision.ReadSettings(data) // other files say nothing of their prompt
	for _, t := range settings {
		if t.Key == "prompt" {
			s.Prompt, s.item.Prompt = t.Value, t.Value
			return
		}
	}
	s.Prompt, s.missing = caption(path)
	s.item.Prompt = s.Prompt
}

// mostCaption is the longest caption.
const mostCaption = 64 << 10

// caption is the text of the same name beside a picture, "" without one.
func caption(picture string) (string, error) {
	path := strings.TrimSuffix(picture, filepath.Ext(picture)) + ".txt"
	text, err := regular.Read(path, mostCaption)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	case !utf8.Valid(text):
		return "", fmt.Errorf("%s: its caption is not UTF-8", path)
	}
	return strings.TrimSpace(string(text)), nil
}

// readItems reads a file of lines; an error of a line has its number.
func readItems(path string) ([]Line, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, exits.Usage(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, inputs.MaxLine)
	var all []Line
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		s, err := readItem(line, path)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		if s.File == "" {
			s.File = fmt.Sprintf("%s:%d", filepath.Base(path), n)
		}
		all = append(all, s)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s holds no items", path)
	}
	return all, nil
}

func readItem(line []byte, path string) (Line, error) {
	var l struct {
		File   string         `json:"file"`
		Prompt string         `json:"prompt"`
		Meta   rewards.Meta   `json:"meta"`
		Turns  []rewards.Turn `json:"turns"`
		Image  prompts.Images `json:"image"` // its sources; those that a conversation shows
	}
	if err := prompts.CheckRecord(line); err != nil {
		return Line{}, err
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return Line{}, fmt.Errorf("not an item: %w", err)
	}
	s := Line{File: l.File, Prompt: l.Prompt, item: rewards.Item{Prompt: l.Prompt, Meta: l.Meta}}
	var err error
	if s.item.Sources, err = (prompts.Prompt{Image: l.Image}).OpenSources(filepath.Dir(path)); err != nil {
		return s, err
	}
	switch {
	case l.File != "" && l.Turns != nil:
		return s, errors.New("an item has a file or turns, not both")
	case l.File != "":
		// Files are looked for beside the list, and nowhere else: it may be a stranger's.
		at, err := safetensors.Locate(filepath.Dir(path), l.File)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			s.missing = fmt.Errorf("there is no file %s beside %s", l.File, filepath.Base(path))
		case err != nil:
			return s, err
		default:
			s.load(at)
		}
	case l.Turns != nil:
		s.item.Transcript = &rewards.Transcript{Turns: l.Turns, Shown: s.item.Sources}
	default:
		return s, errors.New(`an item needs a "file" or "turns"`)
	}
	return s, nil
}
