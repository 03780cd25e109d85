package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTable(t *testing.T) {
	if got := summarise([]float64{4, 1, 2, 3, 5, 6, 7, 8}); got != (times{1, 5, 0.8}) {
		t.Errorf("times are %+v", got)
	}
	of := func(op string, threads int, ours, theirs float64) row {
		return row{op, []int{2, 3}, "float32", threads, times{ours, ours, 0.1}, times{theirs, theirs, 0.2}}
	}
	all := table{CPU: "a CPU", Path: "avx2", Torch: "2.15", At: time.Unix(0, 0).UTC(), Load: "1, 2, 3",
		Rows: []row{of("linear", 1, 1, 4), of("linear", 1, 2, 2), of("softmax", 2, 2, 1)}}
	own, other := fmt.Sprintf(opening, "a CPU, path avx2"), fmt.Sprintf(opening, "a CPU, path bf16")
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("before\n"+other+"theirs\n"+closing+"\n"+own+"old\n"+closing+"\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // again: the same page
		if err := all.into(page); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, has := range []string{"before\n" + other + "theirs\n" + closing + "\n" + own + "a CPU, best path `avx2`, PyTorch 2.15,\n1970-01-01, load 1, 2, 3.", "| linear | float32 | 1 | 2 | 2.00 | 1.00 |",
		"| softmax | 2 x 3 | float32 | 2 | 2.000, 2.000 (10) | 1.000, 1.000 (20) | 0.50 |", closing + "\nafter\n"} {
		if !strings.Contains(string(text), has) {
			t.Errorf("the page lacks %q:\n%s", has, text)
		}
	}
	if strings.Contains(string(text), "old") || strings.Count(string(text), own) != 1 {
		t.Errorf("the page is\n%s", text)
	}
	all.Path = "avx512" // not there yet: it comes before the others
	if err := all.into(page); err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile(page); err != nil || !strings.HasPrefix(string(text), "before\n"+fmt.Sprintf(opening, "a CPU, path avx512")+"a CPU, best path `avx512`") ||
		strings.Count(string(text), closing) != 3 {
		t.Errorf("the page is (%v)\n%s", err, text)
	}
	if err := os.WriteFile(page, []byte("nothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := all.into(page); err == nil {
		t.Error("a page without its lines is written")
	}
}
