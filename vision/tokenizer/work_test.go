package tokenizer

import (
	"encoding/json"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/outside/spent"
)

// TestNotUTF8: bytes that are no text are refused by their place, also where an expression would count
// them as longer than they are.
func TestNotUTF8(t *testing.T) {
	for _, name := range []string{"tok_clip", "tok_qwen2", "tok_umt5"} {
		tok, err := Open(filepath.Join(recorded, name))
		if err != nil {
			t.Fatal(err)
		}
		if e, err := tok.Encode("ab\xff  \xff a"); err == nil || !strings.Contains(err.Error(), "byte 2 is 0xff") {
			t.Errorf("%s: %v, %v", name, e, err)
		}
		if _, err := tok.Encode("\ufffd is a character"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// hostile is a tokenizer.json with these parts.
func hostile(t *testing.T, parts map[string]any) []byte {
	t.Helper()
	all := map[string]any{"model": map[string]any{"type": "BPE", "vocab": map[string]int{"a": 0}, "merges": []string{}, "unk_token": "a"}}
	for name, part := range parts {
		all[name] = part
	}
	data, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

type part = map[string]any

// TestHostileFiles: a file whose parts multiply texts, or take exponential time, is refused, or its texts
// are, within its limits of memory and time.
func TestHostileFiles(t *testing.T) {
	grow := func(n int) (all []part) {
		for range n {
			all = append(all, part{"type": "Replace", "pattern": part{"String": "a"}, "content": strings.Repeat("a", 10)})
		}
		return all
	}
	slow := part{"type": "Split", "pattern": part{"Regex": "(a|aa)+$|b"}, "behavior": "Isolated"}
	template := []part{}
	for range 10000 {
		template = append(template, part{"SpecialToken": part{"id": "x"}})
	}
	ids := make([]int, 1000)
	for name, c := range map[string]struct {
		parts map[string]any
		text  string
		says  string
	}{
		"replacements":  {part{"normalizer": part{"type": "Sequence", "normalizers": grow(20)}}, "a", "makes a text of"},
		"a long prefix": {part{"normalizer": part{"type": "Prepend", "prepend": strings.Repeat("a", 1<<20)}}, "a", "1048576 bytes"},
		"a long mark":   {part{"pre_tokenizer": part{"type": "Metaspace", "replacement": strings.Repeat("a", 1<<20)}}, "a", "1048576 bytes"},
		"a long suffix": {part{"model": part{"type": "BPE", "vocab": part{}, "merges": []string{}, "end_of_word_suffix": strings.Repeat("a", 1<<20)}}, "a", "1048576 bytes"},
		"a long text":   {part{}, strings.Repeat("a", mostText+1), "at most"},
		"a template":    {part{"post_processor": part{"type": "TemplateProcessing", "single": template, "special_tokens": part{"x": part{"ids": ids}}}}, "a", "more than 256 tokens"},
		"expressions": {part{"pre_tokenizer": part{"type": "Sequence", "pretokenizers": []part{slow, slow, slow, slow}}},
			strings.Repeat(strings.Repeat("a", 60)+"c", 10), "take"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		begun := spent.CPU()
		tok, err := Read(hostile(t, c.parts))
		if err == nil {
			_, err = tok.Encode(c.text)
		}
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), c.says) || len(err.Error()) > 1000 {
			t.Errorf("%s: %.2000v", name, err)
		}
		if took, grown := spent.CPU()-begun, after.TotalAlloc-before.TotalAlloc; took > 4*workTime || grown > 200<<20 {
			t.Errorf("%s: %v, %d MB", name, took, grown>>20)
		}
	}
	tok, err := Read(hostile(t, part{"decoder": part{"type": "Sequence", "decoders": grow(20)}}))
	if err != nil {
		t.Fatal(err)
	}
	if got := tok.Decode(make([]int32, 100)); len(got) > mostText {
		t.Errorf("a decoded text of %d bytes", len(got))
	}
}

// TestStarved: time that ran out while others had the CPU is no fault of the text; time that was used is.
func TestStarved(t *testing.T) {
	for _, c := range []struct {
		late bool
		had  time.Duration
		want bool
	}{{true, 0, true}, {true, 2 * time.Second, true}, {true, 4 * time.Second, false}, {false, 0, false}} {
		w := begin("")
		if w.late = c.late; w.starved(c.had) != (c.want && spent.Known) {
			t.Errorf("late %v after %v of a CPU: starved %v", c.late, c.had, !c.want)
		}
	}
	w := begin("a")
	w.begun = w.begun.Add(-6 * time.Second)
	if w.goesOn(); !w.late || w.err == nil {
		t.Error("work goes on after its time")
	}
}
