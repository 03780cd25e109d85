package inspect

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/cmd/internal/console"
)

func TestInspectText(t *testing.T) {
	long := setting{"k", []any{}}
	for range 40 {
		long.Value = append(long.Value.([]any), json.Number("5"))
	}
	mixed := setting{"k", append([]any{"a"}, long.Value.([]any)...)}
	for _, c := range []struct{ got, want string }{
		{console.Commas(0), "0"}, {console.Commas(999), "999"}, {console.Commas(1000), "1,000"}, {console.Commas(12345678), "12,345,678"},
		{console.Plural(1, "shard"), "1 shard"}, {console.Plural(1000, "byte"), "1,000 bytes"},
		{console.Bytes(1023), "1023 B"}, {console.Bytes(1536), "1.5 KiB"}, {console.Bytes(1<<20 - 1), "1.0 MiB"}, {console.Bytes(5 << 40), "5.0 TiB"}, {console.Bytes(5 << 50), "5120.0 TiB"},
		{console.Printable("a\x1b]0;b\u202e\n"), "a\uFFFD]0;b\uFFFD "}, {console.Printable(strings.Repeat("é", 200)), strings.Repeat("é", 100) + "... (400 bytes)"},
		{long.text(), "40 times 5"}, {mixed.text(), "a, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, ... (41 in all)"},
		{shapeText(nil), "scalar"}, {shapeText([]int{2, 0}), "2×0"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
