package prompts

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// allocated is how many bytes f takes in all.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestDeclaredLengths: a small file takes little memory, whatever four of its bytes declare.
func TestDeclaredLengths(t *testing.T) {
	whole, err := os.ReadFile(dataset + "/data/train-00000-of-00002.parquet")
	if err != nil {
		t.Fatal(err)
	}
	draw := rand.New(rand.NewPCG(5, 2))
	refused := 0
	for i := range 400 {
		broken := slices.Clone(whole)
		from := (i % 2) * (len(broken) - 2000)
		for range 1 + draw.IntN(4) {
			broken[from+draw.IntN(len(broken)-from)] = byte(draw.IntN(256))
		}
		if i%40 == 0 { // the footer's length
			binary.LittleEndian.PutUint32(broken[len(broken)-8:], 1<<31+draw.Uint32N(1<<31))
		}
		path := write(t, "a.parquet", string(broken))
		var list []Prompt
		took := allocated(func() {
			if list, err = Open(path); err != nil {
				refused++
			}
			for _, p := range list {
				_, _ = p.Pictures(filepath.Dir(path))
			}
		})
		if took > 64<<20 {
			t.Errorf("file %d of %d bytes took %d MiB: %v", i, len(broken), took>>20, err)
		}
	}
	if refused == 0 || refused == 400 {
		t.Errorf("%d of 400 changed files are refused, and the test tells nothing", refused)
	}
}

// TestDeclaredStructures: lists, texts and pages that declare more than is there.
func TestDeclaredStructures(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		says string
	}{
		"a list":      {"\x19\xfc\xff\xff\xff\x7f\x00", "a list of 268435455 is declared"},
		"a text":      {"\x18\xff\xff\xff\xff\x07ab\x00", "2147483647 bytes are declared"},
		"a map":       {"\x1b\xff\xff\xff\x7f\x88\x00", "a list of 268435455 is declared"},
		"no end":      {"\x15\x02", "unexpected EOF"},
		"a long":      {"\x16\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00", "more than 64 bits"},
		"deep":        {strings.Repeat("\x1c", 40), "more than 16 deep"},
		"no kind":     {"\x1e\x00", "none of Thrift's"},
		"well-formed": {"\x15\x02\x19\x25\x02\x04\x1c\x11\x00\x11\x00", ""},
	} {
		err := newWalker(bytes.NewReader([]byte(c.text)), int64(len(c.text))).structure(nil)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	for name, c := range map[string]struct {
		page
		says string
	}{
		"compressed": {page{1 << 30, 10, 1}, "1073741824 bytes are declared, and 1000 are there"},
		"plain":      {page{500, 1 << 31, 1}, "2147483648 bytes compressed to 500"},
		"values":     {page{500, 600, 1 << 30}, "1073741824 values are declared"},
		"honest":     {page{500, 600, 10}, ""},
	} {
		err := c.check(1000)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}
