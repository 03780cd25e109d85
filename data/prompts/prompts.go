package prompts

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/config"
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

	Image Images `json:"image,omitempty"` // the pictures that it is made of (pictures.go)

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
		return nil, fmt.Errorf("no prompts %q are embedded; there are %s", name, strings.Join(slices.Sorted(maps.Keys(embedded)), ", "))
	}
	list, err := sourceOf(assets.AtHome(name)).read()
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
	if line, err = intoMeta(line); err != nil {
		return p, at(n, "%w", err)
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

// ofRecord are the fields of a record.
var ofRecord = []string{"prompt", "meta", "weights", "negative", "width", "height", "frames", "image", "images"}

// elsewhere are fields of other programs' records, and their counterparts.
var elsewhere = map[string]string{"source_image": `"image"`, "input_image": `"image"`, "edit_image": `"image"`, "source": `"image"`, "image_path": `"image"`,
	"num_frames": `"frames"`, "neg_prompt": `"negative"`, "uncond": `"negative"`, "resolution": `"width" and "height"`, "size": `"width" and "height"`}

// intoMeta moves a record's further fields into meta, as columns of other files go there: lists of benchmarks have
// their own ("tag", "include"). A name that is nearly one of a record's stays, and is refused as a misspelt one.
func intoMeta(line []byte) ([]byte, error) {
	var row map[string]json.RawMessage
	if err := json.Unmarshal(line, &row); err != nil || row["prompt"] == nil {
		return line, nil // the decoder has the mistake
	}
	meta, moved := map[string]json.RawMessage{}, false
	if m := row["meta"]; m != nil && json.Unmarshal(m, &meta) != nil {
		return line, nil
	}
	if meta == nil { // it is null
		meta = map[string]json.RawMessage{}
	}
	for name, value := range row {
		if lower := strings.ToLower(name); slices.Contains(ofRecord, lower) || config.Near(lower, ofRecord) != "" {
			continue
		}
		if here, ok := elsewhere[strings.ToLower(name)]; ok {
			return nil, fmt.Errorf("%q is %s here\nhint: rename it; or put it into meta, where rewards alone read it", name, here)
		}
		if _, there := meta[name]; there {
			return nil, fmt.Errorf("%q is both a field and in meta\nhint: one of them is the value; delete the other", name)
		}
		meta[name], moved = value, true
		delete(row, name)
	}
	if !moved {
		return line, nil
	}
	all, err := json.Marshal(meta)
	if err != nil {
		return nil, err
	}
	row["meta"] = all
	return json.Marshal(row)
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

// A folder in the layout of the hub's data sets has Parquet files, in data/ or beside its README, whose names begin
// with their split: data/train-00000-of-00002.parquet. Prompts are those of split train, or of the only one;
// FOLDER@SPLIT names another, FOLDER#COLUMN the column with the prompts, FOLDER@SPLIT#COLUMN both.

// A source is a name of prompts, taken apart.
type source struct {
	path, split, column string
}

// sourceOf takes a name apart, unless a file is called so.
func sourceOf(name string) source {
	if _, err := os.Stat(name); err == nil {
		return source{path: name}
	}
	s := source{path: name}
	if i := strings.LastIndexByte(s.path, '#'); i > 0 {
		s.path, s.column = s.path[:i], s.path[i+1:]
	}
	if i := strings.LastIndexByte(s.path, '@'); i > 0 && !strings.ContainsAny(s.path[i:], `/\`) {
		if info, err := os.Stat(s.path[:i]); err == nil && info.IsDir() {
			s.path, s.split = s.path[:i], s.path[i+1:]
		}
	}
	return s
}

// dataset reads a folder. Names of pictures begin in the folder around it.
func (s source) dataset() ([]Prompt, error) {
	files, err := s.files()
	if err != nil {
		return nil, err
	}
	var list []Prompt
	for _, file := range files {
		shown := filepath.ToSlash(filepath.Join(filepath.Base(s.path), file))
		some, err := parquetPrompts(filepath.Join(s.path, filepath.FromSlash(file)), shown, s.column)
		if err != nil {
			return nil, fmt.Errorf("%s:%w", filepath.Join(s.path, filepath.FromSlash(file)), err)
		}
		list = append(list, some...)
	}
	return list, nil
}

// configurations are folders beside data/: a data set of one configuration may have its files there.
func (s source) configurations() (dirs []string) {
	entries, err := os.ReadDir(s.path)
	if err != nil {
		return nil // said where the folder itself is read
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() != "data" && !strings.HasPrefix(e.Name(), ".") {
			dirs = append(dirs, e.Name())
		}
	}
	return dirs
}

// files are those of the split, from the folder, in their order.
func (s source) files() ([]string, error) {
	splits := map[string][]string{}
	for _, dir := range append([]string{"data", "."}, s.configurations()...) {
		entries, err := os.ReadDir(filepath.Join(s.path, dir))
		if err != nil && dir == "." {
			return nil, err
		}
		for _, e := range entries {
			if strings.EqualFold(filepath.Ext(e.Name()), ".parquet") {
				split, _, _ := strings.Cut(strings.TrimSuffix(e.Name(), filepath.Ext(e.Name())), "-")
				splits[split] = append(splits[split], filepath.ToSlash(filepath.Join(dir, e.Name())))
			}
		}
		if len(splits) > 0 {
			break
		}
	}
	var names []string
	for name := range splits {
		names = append(names, name)
	}
	slices.Sort(names)
	wanted := s.split
	switch {
	case len(names) == 0:
		return nil, fmt.Errorf("%s: prompts are .txt, .jsonl, .csv or .parquet files, or folders of data sets with data/*.parquet, which this is not", s.path)
	case wanted == "" && len(names) == 1:
		wanted = names[0]
	case wanted == "":
		wanted = "train"
	}
	if len(splits[wanted]) == 0 {
		return nil, fmt.Errorf("%s has no split %q\nhint: there are %s; FOLDER@SPLIT names one", s.path, wanted, strings.Join(names, ", "))
	}
	return splits[wanted], nil
}

// Files are those that a prompt's pictures are read from: those of meta.picture and of image, and those that are
// learned from. dir is the folder that names begin in. Drawn pictures have none; a name that no file may have is left
// out, since opening it says why.
func (p Prompt) Files(dir string) []string {
	all := slices.Clone(p.Learned)
	beside, err := p.pictures()
	if err != nil {
		beside = nil
	}
	for _, name := range slices.Concat(beside, p.Sources()) {
		if isDrawn(name) {
			continue
		}
		if at, embedded, err := placeOf(name); err != nil {
			continue
		} else if embedded {
			name = at.file
		}
		if name = filepath.FromSlash(name); filepath.IsLocal(name) {
			all = append(all, filepath.Join(dir, name))
		}
	}
	return all
}

// CheckRecord refuses a line of JSON of which two readers could understand different things: bytes that
// are not UTF-8, which become other characters, and keys that are there twice.
func CheckRecord(line []byte) error {
	if !utf8.Valid(line) {
		return errors.New("the line is not UTF-8")
	}
	if key := doubled(line); key != "" {
		return fmt.Errorf("%q is there twice in one object\nhint: which of the two is meant cannot be known; delete one", key)
	}
	return nil
}

// doubled is a key that an object of a JSON text has twice, in it or below it; "" where none has. Of two
// equal keys a decoder takes the last without a word, and of a record it reads "Prompt" as "prompt".
func doubled(text []byte) string {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	type level struct {
		keys map[string]bool // of an object; nil of a list
		key  bool            // whether a key comes next
	}
	var open []level
	for {
		token, err := d.Token()
		if err != nil { // the end, or an error that the reader of the record reports
			return ""
		}
		if n := len(open) - 1; n >= 0 && open[n].keys != nil {
			if name, ok := token.(string); ok && open[n].key {
				same := name
				if n == 0 {
					same = strings.ToLower(name)
				}
				if open[n].keys[same] {
					return name
				}
				open[n].keys[same], open[n].key = true, false
				continue
			}
			open[n].key = true // after the value that begins here
		}
		switch token {
		case json.Delim('{'):
			open = append(open, level{map[string]bool{}, true})
		case json.Delim('['):
			open = append(open, level{})
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
		}
	}
}
