package lessons

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/data/sft"
	"github.com/darkroom-rl/darkroom/outside/regular"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// A file is a file of conversations: a .jsonl, a row a line; a Parquet file or a folder of a data set, whose
// rows stay there until they are learned from; or a list that is part of the program.
type file struct {
	name  string
	lines []fileRow      // of a .jsonl or an embedded list
	table *prompts.Table // else
	sum   string         // changes with its content
}

// fileRow is a row as text, and the number of its line.
type fileRow struct {
	text string
	line int
}

// maxFileBytes is how many bytes a .jsonl of conversations may have.
const maxFileBytes = 1 << 30

func openFile(name string) (*file, error) {
	f := &file{name: name}
	if rows, ok := prompts.DrawnLessons(name); ok {
		for i, row := range rows {
			f.lines = append(f.lines, fileRow{row, i + 1})
		}
		f.sum = sumOf(strings.Join(rows, "\n"))
		return f, nil
	}
	if strings.HasPrefix(name, "embed:") {
		return nil, fmt.Errorf("no conversations %q are embedded; there are embed:zoom-lessons", name)
	}
	if strings.EqualFold(filepath.Ext(name), ".jsonl") {
		return f, f.readLines()
	}
	var err error
	if f.table, err = prompts.OpenTable(name); err != nil {
		if errors.Is(err, os.ErrNotExist) || strings.HasSuffix(name, ".parquet") {
			return nil, err
		}
		return nil, fmt.Errorf("%w\nhint: conversations to learn from are a .jsonl file, a row a line, a .parquet file, or a folder of a data set", err)
	}
	f.sum = f.table.Stamp()
	return f, nil
}

func (f *file) readLines() error {
	text, err := regular.Read(f.name, maxFileBytes)
	if err != nil {
		return err
	}
	f.sum = sumOf(string(text))
	for i, line := range bytes.Split(bytes.TrimPrefix(text, []byte("\ufeff")), []byte("\n")) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if !utf8.Valid(line) {
			return fmt.Errorf("%s:%d: the row is not UTF-8", f.name, i+1)
		}
		f.lines = append(f.lines, fileRow{string(line), i + 1})
	}
	return nil
}

func (f *file) close() error {
	if f.table == nil {
		return nil
	}
	return f.table.Close()
}

// row is a row's text by its number.
func (f *file) row(i int) (string, error) {
	if f.table == nil {
		return f.lines[i].text, nil
	}
	at, row, err := f.table.Row(i, false)
	return f.table.LessonRow(at, row), err
}

// each calls do with every row and the number of its line.
func (f *file) each(do func(text string, line int) error) error {
	for _, l := range f.lines {
		if err := do(l.text, l.line); err != nil {
			return fmt.Errorf("%s:%d: %w", f.name, l.line, err)
		}
	}
	if f.table == nil {
		return nil
	}
	n := 0
	return f.table.Each(false, func(at prompts.Place, row pytext.Ordered) error {
		n++
		return do(f.table.LessonRow(at, row), n)
	})
}

// prompt is a row as it stands in the run's list.
func (f *file) prompt(i int, c rowCount, judged bool) (p prompts.Prompt, err error) {
	if f.table != nil {
		return prompts.NewLessonAt(f.name, i, c.Sum, c.Question)
	}
	row := f.lines[i].text
	shown, err := shownIn(row, judged)
	if err != nil {
		return p, fmt.Errorf("%s:%d: %w", f.name, f.lines[i].line, err)
	}
	if p, err = prompts.NewLesson(f.name, row, c.Question, shown); err == nil {
		err = p.HasPictures(filepath.Dir(f.name))
	}
	if err != nil {
		return p, fmt.Errorf("%s:%d: %w", f.name, f.lines[i].line, err)
	}
	return p, nil
}

// shownIn are the names of a row's pictures.
func shownIn(row string, judged bool) ([]string, error) {
	if judged {
		all, err := sft.ReadPreference(row)
		if err != nil {
			return nil, err
		}
		return all[0].Pictures, nil
	}
	c, err := sft.ReadConversation(row)
	return c.Pictures, err
}

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
