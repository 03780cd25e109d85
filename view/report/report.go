package report

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/darkroom-rl/darkroom/record/folder"
)

// Name is the page in a run's folder.
const Name = "report.html"

// The pictures of a page that is one file are a part of it, and so are the trails of clips, so they are bounded: few of
// each kind, and a total of bytes.
var embeddedLimits = Limits{Evaluations: 6, Iterations: 12}

const mostEmbedded = 24 << 20

// budget is the bytes left for files in a page.
type budget int

// take reports whether n bytes are left, and takes them; no budget has any number.
func (b *budget) take(n int) bool {
	if b == nil {
		return true
	}
	if n > int(*b) {
		return false
	}
	*b -= budget(n)
	return true
}

// Write rewrites a folder's page from its files. A run that is under way, or was killed, has a
// page too.
func Write(dir string) error {
	text, err := Page(dir)
	if err != nil {
		return err
	}
	return folder.WriteFile(filepath.Join(dir, Name), text)
}

// Page is the page.
func Page(dir string) ([]byte, error) {
	run, err := Read(dir)
	if err != nil {
		return nil, err
	}
	return pageOf([]*Run{run})
}

// data is the input of the script of a page in a file.
type data struct {
	Runs        []*Document  `json:"runs"`
	Differences []Difference `json:"differences,omitempty"` // of the first run's settings to the others'
	Alike       bool         `json:"alike"`                 // all are trained on the same rewards
}

// pageOf is the page of some runs.
func pageOf(runs []*Run) ([]byte, error) {
	d := data{Alike: alike(runs), Differences: differences(runs)}
	var says []string
	for i, r := range runs {
		s := NewSamples(r.Dir)
		if _, err := s.Read(); err != nil {
			return nil, err
		}
		left, limits := budget(mostEmbedded/len(runs)), embeddedLimits
		limits.Bytes = &left
		one, err := NewDocument(r, s, embedding(r.Dir, &left), limits)
		if err != nil {
			return nil, err
		}
		if one.Workers, err = workers(r.Dir); err != nil {
			return nil, err
		}
		one.ID = string(rune('a' + i%26))
		if i >= 26 {
			one.ID += string(rune('a' + i/26))
		}
		d.Runs = append(d.Runs, one)
		says = append(append(says, one.Name+", "+one.Status+": "+one.Conclusion.Text), one.Conclusion.Notes...)
	}
	text, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	title := runs[0].Name
	if len(runs) > 1 {
		title = count(len(runs), "run")
	}
	return single(title, says, text)
}

// embedding is the source of pictures that are a part of the page, up to the bytes left. Files outside the folder,
// and links, are not read.
func embedding(dir string, left *budget) Source {
	return func(name string) string {
		kind := MediaType(name)
		if kind == "" {
			return ""
		}
		text, err := inside(dir, name)
		if err != nil || !left.take(len(text)) { // one that was deleted is not shown
			return ""
		}
		return "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(text)
	}
}

// MediaType returns the type of a picture or a clip by its name; "" for other files.
func MediaType(name string) string {
	return map[string]string{".png": "image/png", ".apng": "image/apng", ".gif": "image/gif", ".jpg": "image/jpeg", ".webp": "image/webp",
		".mp4": "video/mp4", ".webm": "video/webm"}[strings.ToLower(filepath.Ext(name))]
}

// inside is a file of a run's folder.
func inside(dir, name string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.ReadFile(filepath.FromSlash(name))
}
