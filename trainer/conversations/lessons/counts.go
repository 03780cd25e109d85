package lessons

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/data/sft"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// How many tokens rows have. To count a row is to tokenise it and to look at its pictures, which takes as long as
// many rows do: counts are kept in a file by their inputs, so that plan, train and --resume count a file once. A file
// of counts that cannot be read or written is as good as none, and the oldest make room for new ones.

// rowCount is the count of a row.
type rowCount struct {
	Line     int    `json:"line"`
	Tokens   int    `json:"tokens"`
	Trained  int    `json:"trained"`
	Sum      string `json:"sha256"`
	Question string `json:"question"` // for people
}

// maxQuestion is how many bytes of a question are kept.
const maxQuestion = 200

// counts are the counts of a file's rows. The error names the first row that cannot be learned from.
func (t *Reader) counts(f *file, how experiment.Lessons) (all []rowCount, err error) {
	kept := t.countsFile(f, how)
	if text, err := os.ReadFile(kept); err == nil && json.Unmarshal(text, &all) == nil {
		return all, nil
	}
	all = nil
	err = f.each(func(row string, line int) error {
		c, err := t.count(row, f.name, how)
		if err != nil {
			return err
		}
		if c.Line = line; len(c.Question) > maxQuestion && f.table != nil {
			c.Question = strings.ToValidUTF8(c.Question[:maxQuestion], "")
		}
		all = append(all, c)
		return nil
	})
	if err != nil {
		return nil, err
	}
	keepCounts(kept, all)
	return all, nil
}

// count counts a row.
func (t *Reader) count(row, file string, how experiment.Lessons) (n rowCount, err error) {
	n.Sum = sumOf(row)
	if how.Answers > 0 {
		all, err := t.Judged(row, file, how.Answers)
		if err != nil {
			return n, err
		}
		for _, a := range all {
			n.Tokens, n.Trained, n.Question = max(n.Tokens, len(a.IDs)), n.Trained+a.Count(), a.question
		}
		return n, nil
	}
	l, _, err := t.read(row, file, how.Mask)
	if err != nil {
		return n, err
	}
	c, err := sft.ReadConversation(row)
	n.Tokens, n.Trained, n.Question = len(l.IDs), l.Count(), c.Question()
	return n, err
}

// countsFile is where a file's counts are kept; "" where the machine names no such place. Pictures that lie beside
// a file may change while it does not, so its folder's name counts, and their errors come again when a
// lesson is learned from.
func (t *Reader) countsFile(f *file, how experiment.Lessons) string {
	root, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	path, err := filepath.Abs(f.name)
	if err != nil {
		return ""
	}
	parts := []string{countsVersion, path, f.sum, how.Mask, fmt.Sprint(t.instructions), fmt.Sprint(t.clips)}
	if how.Answers > 0 {
		parts = append(parts, fmt.Sprint("judged ", how.Answers))
	}
	for _, name := range []string{"tokenizer.json", "vocab.json", "merges.txt", "tokenizer_config.json", "preprocessor_config.json", "video_preprocessor_config.json", "chat_template.jinja", "chat_template.json"} {
		text, err := os.ReadFile(filepath.Join(t.dir, name))
		if err != nil {
			text = nil // a folder has some of them
		}
		parts = append(parts, fmt.Sprint(name, sumOf(string(text))))
	}
	return filepath.Join(root, "darkroom", "lessons", sumOf(strings.Join(parts, "\n"))+".json")
}

// countsVersion changes with the way of counting.
const countsVersion = "2"

// keepCounts writes them beside, and then in their place.
func keepCounts(path string, all []rowCount) {
	text, err := json.Marshal(all)
	if path == "" || err != nil || os.MkdirAll(filepath.Dir(path), 0o755) != nil {
		return
	}
	next, err := os.CreateTemp(filepath.Dir(path), "counts-")
	if err != nil {
		return
	}
	forgetCounts(filepath.Dir(path))
	_, err = next.Write(text)
	if closed := next.Close(); err != nil || closed != nil || os.Rename(next.Name(), path) != nil {
		os.Remove(next.Name())
	}
}

// maxCountFiles is how many files' counts are kept, those that were made last.
const maxCountFiles = 64

// forgetCounts makes room for one more.
func forgetCounts(dir string) {
	kept, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(kept) < maxCountFiles {
		return
	}
	made := func(path string) int64 {
		info, err := os.Stat(path)
		if err != nil {
			return 0
		}
		return info.ModTime().UnixNano()
	}
	slices.SortFunc(kept, func(a, b string) int { return cmp.Compare(made(a), made(b)) })
	for _, path := range kept[:len(kept)-maxCountFiles+1] {
		os.Remove(path)
	}
}
