package safetensors

import (
	"strconv"
	"strings"
	"testing"
)

// TestManyMetadata: metadata has a limit of keys, at which reading ends.
func TestManyMetadata(t *testing.T) {
	of := func(n int) []byte {
		var b strings.Builder
		b.WriteString(`{"__metadata__": {"a": "b"`)
		for i := range n - 1 {
			b.WriteString(`, "` + strconv.Itoa(i) + `": ""`)
		}
		return []byte(b.String() + "}}")
	}
	if h, err := parse(of(mostMetadata)); err != nil || len(h.Metadata) != mostMetadata {
		t.Error(err)
	}
	if _, err := parse(of(mostMetadata + 1)); err == nil || !strings.Contains(err.Error(), "more than 65536 keys") {
		t.Error(err)
	}
}
