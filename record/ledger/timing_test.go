package ledger

import (
	"os"
	"path/filepath"
	"testing"
)

// TestSpent: attempts that a rollback abandoned count, an iteration that a killed process repeated counts once, and
// those behind the checkpoint do not; evaluations never do.
func TestSpent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "timing.jsonl")
	text := `{"iteration":1,"seconds":{"all":10,"evaluate":3}}
{"iteration":2,"seconds":{"all":100}}
{"iteration":2,"seconds":{"all":20}}
{"iteration":3,"seconds":{"all":30}}
{"iteration":3,"attempt":1,"seconds":{"all":300}}
{"iteration":4,"attempt":1,"seconds":{"all":400}}
`
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		iteration, attempt int
		want               float64
	}{{0, 0, 0}, {2, 0, 27}, {3, 0, 57}, {2, 1, 57}, {3, 1, 357}, {4, 1, 757}} {
		if got, err := Spent(path, c.iteration, c.attempt); err != nil || got != c.want {
			t.Errorf("after iteration %d, attempt %d: %v seconds, want %v (%v)", c.iteration, c.attempt, got, c.want, err)
		}
	}
	if got, err := Spent(path+".none", 3, 0); err != nil || got != 0 {
		t.Errorf("without the file: %v, %v", got, err)
	}
}
