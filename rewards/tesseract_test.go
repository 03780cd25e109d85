package rewards

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/vision"
)

const tesseractHead = "level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext\n"

// fakeTesseract stands in for the program in tests: it answers in the way that a variable says.
func fakeTesseract(mode string) {
	arguments := strings.Join(os.Args[2:], " ")
	switch {
	case mode == "fails":
		fmt.Fprintln(os.Stderr, "Error opening data file eng.traineddata")
		os.Exit(1)
	case mode == "hangs":
		time.Sleep(time.Minute)
	case mode == "floods":
		for range 1 << 10 {
			if _, err := fmt.Print(strings.Repeat("x", 1<<16)); err != nil {
				os.Exit(1)
			}
		}
	case mode == "nonsense":
		fmt.Println("hello")
	case os.Args[1] == "--version":
		fmt.Println("tesseract 5.3.0\n leptonica-1.82.0")
	case arguments == "stdout -l eng --oem 1 --psm 6 tsv":
		if _, err := vision.Open(os.Args[1], vision.Limits{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Print(tesseractHead + "1\t1\t0\t0\t0\t0\t0\t0\t9\t9\t-1\t\n" +
			"5\t1\t1\t1\t1\t1\t1\t2\t3\t4\t90.5\tHello\n5\t1\t1\t1\t1\t2\t5\t2\t3\t4\t69.5\tWorld\n5\t1\t1\t1\t2\t1\t1\t8\t3\t4\t50\tagain\n")
	default:
		fmt.Fprintln(os.Stderr, "called with", arguments)
		os.Exit(1)
	}
}

// fakeMode is the variable.
const fakeMode = "DARKROOM_TEST_TESSERACT"

func TestTesseract(t *testing.T) {
	t.Setenv(fakeMode, "well")
	reader := Tesseract{Program: os.Args[0]}
	if v, err := reader.Version(t.Context()); v != "tesseract 5.3.0" || err != nil {
		t.Error(v, err)
	}
	lines, err := reader.Read(t.Context(), vision.New(9, 9))
	if err != nil || !slices.Equal(lines, []Line{{"Hello World", 0.8}, {"again", 0.5}}) {
		t.Errorf("%+v, %v", lines, err)
	}
	s, err := OCR{reader, OCRRule{Formula: "flow_grpo"}}.Score(t.Context(), Item{Prompt: `a "Hello World" sign`, Image: vision.New(9, 9)})
	if err != nil || s.Value != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestTesseractBroken(t *testing.T) {
	for mode, want := range map[string]string{"fails": "eng.traineddata", "hangs": "did not answer within", "floods": "more than 16777216 bytes", "nonsense": `no column "level"`} {
		t.Setenv(fakeMode, mode)
		limit := 30 * time.Second
		if mode == "hangs" {
			limit = 300 * time.Millisecond
		}
		lines, err := Tesseract{Program: os.Args[0], Timeout: limit}.Read(t.Context(), vision.New(9, 9))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", mode, lines, err)
		}
	}
	if _, err := (Tesseract{Program: "no such tesseract"}).Read(t.Context(), vision.New(1, 1)); err == nil || !strings.Contains(err.Error(), "is not installed") {
		t.Error(err)
	}
}

// FuzzTesseractTable: whatever a program writes is read or refused.
func FuzzTesseractTable(f *testing.F) {
	f.Add(tesseractHead + "5\t1\t1\t1\t1\t1\t1\t2\t3\t4\t90.5\tHello\n")
	f.Add(tesseractHead)
	f.Add("")
	f.Add(tesseractHead + "5\t1")
	f.Fuzz(func(t *testing.T, table string) {
		words, err := tesseractWords(table)
		if n := len(linesOf(words)); err == nil && n > len(words) {
			t.Errorf("%d lines of %d words", n, len(words))
		}
	})
}
