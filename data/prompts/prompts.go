package prompts

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/darkroom-rl/darkroom/outside/regular"
)

// A Prompt is a text, with the meta and weights for rewards, and the settings of its picture.
type Prompt struct {
	Text    string             `json:"prompt"`
	Meta    Meta               `json:"meta,omitempty"`
	Weights map[string]float64 `json:"weights,omitempty"` // by the labels of rewards; others have their own

	// Of pictures: the text that guidance leads away from, nil for the sampler's, the size in pixels, 0
	// where the prompt says none, and, of a clip, how many frames it has, 0 for the sampler's.
	Negative *string `json:"negative,omitempty"`
	Width    int     `json:"width,omitempty"`
	Height   int     `json:"height,omitempty"`
	Frames   int     `json:"frames,omitempty"`

	Image Images `json:"image,omitempty"` // the pictures that it is made of (images.go)

	Learned []string `json:"-"` // files of the pictures that are learned from in place of a roll (package album)
	List    string   `json:"-"` // the name of the list that it stands in, where that was read by Lists
}

// Sized reports whether the prompt names the size of its picture.
func (p Prompt) Sized() bool { return p.Width > 0 }

// mostBytes and mostText limit a file and a prompt.
const (
	mostBytes  = 1 << 28
	mostLetter = 1 << 16
)

// Open reads a file, or an embedded list. The error names the file and the line.
func Open(name string) ([]Prompt, error) {
	if list, ok := embedded[name]; ok {
		return list(), nil
	}
	if strings.HasPrefix(name, "embed:") {
		return nil, fmt.Errorf("no prompts %q are embedded; there are embed:scenes, embed:edits and embed:zoom, each with -heldout", name)
	}
	list, err := sourceOf(name).read()
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: there is no prompt in it", name)
	}
	return list, nil
}

// read reads a file, or a folder of a data set.
func (s source) read() ([]Prompt, error) {
	kind := strings.ToLower(filepath.Ext(s.path))
	if info, err := os.Stat(s.path); err == nil && info.IsDir() {
		return s.dataset()
	}
	read, ok := kinds[kind]
	switch {
	case kind == ".parquet":
		list, err := parquetPrompts(s.path, filepath.Base(s.path), s.column)
		if err != nil {
			return nil, fmt.Errorf("%s:%w", s.path, err)
		}
		return list, nil
	case !ok:
		return nil, fmt.Errorf("%s: prompts are .txt, .jsonl, .csv or .parquet files, or folders of data sets", s.path)
	case s.column != "":
		return nil, fmt.Errorf("%s#%s: columns are of .parquet files and folders of data sets", s.path, s.column)
	}
	text, err := contents(s.path)
	if err != nil {
		return nil, err
	}
	list, err := read(text)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", s.path, err)
	}
	return list, nil
}

// contents is the text of a file, without the mark that some editors begin one with.
func contents(name string) (string, error) {
	text, err := regular.Read(name, mostBytes)
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	return unsafe.String(unsafe.SliceData(text), len(text)), err // nobody else has these bytes; a copy would double a long list
}

var kinds = map[string]func(text string) ([]Prompt, error){".txt": plain, ".jsonl": records, ".csv": columns}

// An at is an error at a line: "7: the message".
func at(line int, format string, args ...any) error {
	return fmt.Errorf("%d: "+format, append([]any{line}, args...)...)
}

func check(line int, text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return at(line, "the prompt is empty")
	case !utf8.ValidString(text):
		return at(line, "the prompt is not UTF-8")
	case len(text) > mostLetter:
		return at(line, "a prompt of %d bytes; %d are possible", len(text), mostLetter)
	}
	return nil
}

// plain reads one prompt per line, and skips empty lines.
func plain(text string) (list []Prompt, err error) {
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if strings.TrimSpace(line) == "" {
			continue
		}
		if err := check(i+1, line); err != nil {
			return nil, err
		}
		list = append(list, Prompt{Text: line})
	}
	return list, nil
}

func records(text string) (list []Prompt, err error) {
	list = make([]Prompt, 0, 1+strings.Count(text, "\n"))
	n := 0
	for line := range strings.SplitSeq(text, "\n") {
		if n++; strings.TrimSpace(line) == "" {
			continue
		}
		if !utf8.ValidString(line) { // the decoder would put U+FFFD in the place of each such byte
			return nil, at(n, "the record is not UTF-8")
		}
		p, ok := quick(line)
		if !ok {
			if p, err = record(n, []byte(line)); err != nil {
				return nil, err
			}
		}
		if err := check(n, p.Text); err != nil {
			return nil, err
		}
		if err := checkPicture(n, p); err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// record returns a line's prompt, or its mistake.
func record(n int, line []byte) (p Prompt, err error) {
	if key := doubled(line); key != "" {
		return p, at(n, "%q is there twice in one object\nhint: which of the two is meant cannot be known; delete one", key)
	}
	if isMessages(line) {
		if p, err = messagesPrompt(string(line)); err != nil {
			return p, at(n, "%w", err)
		}
		return p, nil
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	row := struct {
		*Prompt
		Images Images `json:"images"`
	}{Prompt: &p}
	if err := d.Decode(&row); err != nil {
		return p, at(n, "%w\nhint: a line is {\"prompt\": \"...\", \"meta\": {...}}, and may have \"weights\", \"negative\", \"width\", \"height\", \"frames\" and \"image\" or \"images\"; what rewards need goes into meta", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return p, at(n, "something follows the record")
	}
	switch {
	case len(row.Images) > 0 && len(p.Image) > 0:
		return p, at(n, "it has both image and images\nhint: one of them names all pictures of the row")
	case len(row.Images) > 0:
		p.Image = row.Images
	}
	return p, nil
}

// mostSide is more pixels than any picture's side has, and mostFrames are those of a clip, as [sampler] has them.
const (
	mostSide   = 1 << 14
	mostFrames = 1 << 12
)

// checkPicture checks a record's settings of its picture.
func checkPicture(line int, p Prompt) error {
	switch {
	case (p.Width == 0) != (p.Height == 0):
		return at(line, "a picture of %d x %d\nhint: a size is both \"width\" and \"height\" in pixels; without them it is what [sampler] says", p.Width, p.Height)
	case p.Width < 0 || p.Height < 0 || p.Width > mostSide || p.Height > mostSide:
		return at(line, "a picture of %d x %d: sides have 1 to %d pixels", p.Width, p.Height, mostSide)
	case p.Frames < 0 || p.Frames > mostFrames:
		return at(line, "a clip of %d frames: 1 to %d are possible", p.Frames, mostFrames)
	case p.Negative != nil && len(*p.Negative) > mostLetter:
		return at(line, "a negative text of %d bytes; %d are possible", len(*p.Negative), mostLetter)
	}
	return p.Image.check(line)
}

// columns takes other columns than prompt as texts of meta; cells that are empty are not there.
func columns(text string) (list []Prompt, err error) {
	r := csv.NewReader(strings.NewReader(text))
	names, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, at(1, "%w", err)
	}
	prompt := -1
	for i, n := range names {
		if slices.Contains(names[:i], n) {
			return nil, at(1, "two columns are named %q", n)
		}
		if n == "prompt" {
			prompt = i
		}
	}
	if prompt < 0 {
		return nil, at(1, "no column is named \"prompt\"")
	}
	for {
		cells, err := r.Read()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		var bad *csv.ParseError
		switch {
		case errors.As(err, &bad):
			return nil, at(bad.Line, "%w", bad.Err)
		case err != nil:
			return nil, at(1, "%w", err)
		}
		line, _ := r.FieldPos(0)
		if err := check(line, cells[prompt]); err != nil {
			return nil, err
		}
		p, meta := Prompt{Text: cells[prompt]}, map[string]json.RawMessage{}
		for i, cell := range cells {
			if i == prompt || cell == "" {
				continue
			}
			if !utf8.ValidString(cell) {
				return nil, at(line, "the column %q is not UTF-8", names[i])
			}
			raw, err := json.Marshal(cell)
			if err != nil {
				return nil, at(line, "%w", err)
			}
			meta[names[i]] = raw
		}
		p.Meta = MetaOf(meta)
		list = append(list, p)
	}
}
