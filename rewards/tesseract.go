package rewards

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/darkroom-rl/darkroom/rewards/call"
	"github.com/darkroom-rl/darkroom/vision"
)

// Card: Tesseract as a reader, where it is installed: the program is run once a picture, with its
// table of words as output; words of one line are joined by spaces, and a line is as sure as its
// words on average. It answers differently from version to version.
// Invariants (tests): a program that fails, hangs or writes nonsense is an error, not no text.
type Tesseract struct {
	Program  string        // "tesseract"
	Language string        // "eng"
	Layout   int           // page segmentation mode; 0: 6, a block of text
	Timeout  time.Duration // 60 s
}

// A TesseractWord is a word, where it is, in pixels, and how sure the program is, up to 100.
type TesseractWord struct {
	Text                     string
	Confidence               float64
	Left, Top, Width, Height int
	Block, Paragraph, Line   int
	Word                     int // of the line
}

// Version is the first line of the program's version text.
func (t Tesseract) Version(ctx context.Context) (string, error) {
	out, err := t.run(ctx, "--version")
	line, _, _ := strings.Cut(out, "\n")
	return strings.TrimSpace(line), err
}

// Read is the lines of a picture.
func (t Tesseract) Read(ctx context.Context, m *vision.Image) ([]Line, error) {
	folder, err := os.MkdirTemp("", "words-*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }() // the system's folder for such things
	path := filepath.Join(folder, "page.png")
	if err := vision.WriteFile(path, m); err != nil {
		return nil, err
	}
	_, words, err := t.Words(ctx, path)
	return linesOf(words), err
}

// Words is the table that the program writes of a file, and its words.
func (t Tesseract) Words(ctx context.Context, path string) (table string, words []TesseractWord, err error) {
	if table, err = t.run(ctx, append(t.arguments(path), "tsv")...); err != nil {
		return "", nil, err
	}
	words, err = tesseractWords(table)
	return table, words, err
}

// Text is the program's reading of a file, as it writes it.
func (t Tesseract) Text(ctx context.Context, path string) (string, error) {
	return t.run(ctx, t.arguments(path)...)
}

func (t Tesseract) arguments(path string) []string {
	language, layout := t.Language, t.Layout
	if language == "" {
		language = "eng"
	}
	if layout == 0 {
		layout = 6
	}
	return []string{path, "stdout", "-l", language, "--oem", "1", "--psm", strconv.Itoa(layout)}
}

// mostTesseract is the longest output that is read.
const mostTesseract = 16 << 20

func (t Tesseract) run(ctx context.Context, arguments ...string) (string, error) {
	program, limit := t.Program, t.Timeout
	if program == "" {
		program = "tesseract"
	}
	if limit <= 0 {
		limit = 60 * time.Second
	}
	ctx, done := context.WithTimeout(ctx, limit)
	defer done()
	c := exec.CommandContext(ctx, program, arguments...)
	c.Env = append(os.Environ(), "OMP_THREAD_LIMIT=1") // faster so, on pictures of words
	c.WaitDelay = time.Second
	said := &call.Tail{}
	c.Stderr = said
	out := &bounded{most: mostTesseract}
	c.Stdout = out
	err := c.Run()
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s did not answer within %v", program, limit)
	case out.full:
		return "", fmt.Errorf("%s writes more than %d bytes", program, out.most)
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("%s is not installed (Debian: tesseract-ocr): %w", program, err)
	case err != nil:
		return "", fmt.Errorf("%s: %w: %s", program, err, said)
	}
	return out.kept.String(), nil
}

// bounded keeps its input up to a size, and refuses more.
type bounded struct {
	kept bytes.Buffer
	most int
	full bool
}

// Write refuses input beyond the limit.
func (b *bounded) Write(p []byte) (int, error) {
	if b.full = b.kept.Len()+len(p) > b.most; b.full {
		return 0, io.ErrShortWrite
	}
	return b.kept.Write(p)
}

// tesseractColumns are those of the table that are read.
var tesseractColumns = []string{"level", "block_num", "par_num", "line_num", "word_num", "left", "top", "width", "height", "conf", "text"}

// wordLevel is the level of words in the table.
const wordLevel = 5

// tesseractWords reads the table.
func tesseractWords(table string) ([]TesseractWord, error) {
	rows := strings.Split(strings.TrimRight(table, "\r\n"), "\n")
	place := map[string]int{}
	for i, name := range strings.Split(strings.TrimRight(rows[0], "\r"), "\t") {
		place[name] = i
	}
	at := make([]int, len(tesseractColumns))
	for k, name := range tesseractColumns {
		i, ok := place[name]
		if !ok {
			return nil, fmt.Errorf("tesseract's table has no column %q: %s", name, call.Shown([]byte(rows[0])))
		}
		at[k] = i
	}
	var words []TesseractWord
	for n, row := range rows[1:] {
		cells := strings.Split(strings.TrimRight(row, "\r"), "\t")
		if len(cells) < len(place) {
			return nil, fmt.Errorf("row %d of tesseract's table has %d of %d columns", n+2, len(cells), len(place))
		}
		var numbers [9]int
		for k := range numbers {
			var err error
			if numbers[k], err = strconv.Atoi(cells[at[k]]); err != nil {
				return nil, fmt.Errorf("row %d of tesseract's table: %w", n+2, err)
			}
		}
		sure, err := strconv.ParseFloat(cells[at[9]], 64)
		if err != nil {
			return nil, fmt.Errorf("row %d of tesseract's table: %w", n+2, err)
		}
		if numbers[0] != wordLevel {
			continue
		}
		words = append(words, TesseractWord{Text: cells[at[10]], Confidence: sure, Block: numbers[1], Paragraph: numbers[2], Line: numbers[3], Word: numbers[4],
			Left: numbers[5], Top: numbers[6], Width: numbers[7], Height: numbers[8]})
	}
	return words, nil
}

// linesOf joins words.
func linesOf(words []TesseractWord) []Line {
	var lines []Line
	from := 0
	for i, w := range words {
		if i+1 < len(words) && [3]int{w.Block, w.Paragraph, w.Line} == [3]int{words[i+1].Block, words[i+1].Paragraph, words[i+1].Line} {
			continue
		}
		var texts []string
		sum := 0.0
		for _, v := range words[from : i+1] {
			texts, sum = append(texts, v.Text), sum+v.Confidence/100
		}
		lines = append(lines, Line{Text: strings.Join(texts, " "), Confidence: sum / float64(i+1-from)})
		from = i + 1
	}
	return lines
}
