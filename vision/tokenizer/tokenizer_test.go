package tokenizer

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/internal/golden"

	"github.com/darkroom-rl/darkroom/outside/spent"
)

// recorded are folders of the recorded cases; package parity holds tokenizer.json to them.
var recorded = golden.Folder("models")

// TestOlderForms reads folders without their tokenizer.json: the same ids.
func TestOlderForms(t *testing.T) {
	for _, c := range []struct {
		name string
		open func(dir string) (*Tokenizer, error)
	}{{"tok_clip", openMerges}, {"tok_qwen2", openMerges}, {"tok_t5", openSentencePiece}, {"tok_umt5", openSentencePiece}} {
		dir := filepath.Join(recorded, c.name)
		raw, err := os.ReadFile(filepath.Join(dir, "case.json"))
		if err != nil {
			t.Fatal(err)
		}
		var rec struct {
			Args struct {
				Differs []string `json:"spm_differs"`
			}
			Table []struct {
				Text string
				IDs  []int32 `json:"ids_special"`
			}
		}
		if err := json.Unmarshal(raw, &rec); err != nil {
			t.Fatal(err)
		}
		tok, err := c.open(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rec.Table {
			if got, err := tok.Framed(row.Text); (err != nil || !slices.Equal(got, row.IDs)) && !slices.Contains(rec.Args.Differs, row.Text) {
				t.Errorf("%s: %q: %v, want %v", c.name, row.Text, got, row.IDs)
			}
		}
	}
}

// TestBPEAgainstTheDefinition looks for the best pair each time.
func TestBPEAgainstTheDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	m := newBPE(map[string]int32{})
	for _, c := range "abcd" {
		m.ids[string(c)] = int32(len(m.ids))
	}
	var merges [][2]string
	names := []string{"a", "b", "c", "d"}
	for range 40 {
		pair := [2]string{names[r.IntN(len(names))], names[r.IntN(len(names))]}
		joined := pair[0] + pair[1]
		if _, ok := m.ids[joined]; ok || len(joined) > 6 {
			continue
		}
		m.ids[joined] = int32(len(m.ids))
		names, merges = append(names, joined), append(merges, pair)
	}
	m = newBPE(m.ids)
	if err := m.learn(merges); err != nil {
		t.Fatal(err)
	}
	for range 500 {
		word := ""
		for range 1 + r.IntN(30) {
			word += string("abcd"[r.IntN(4)])
		}
		want := strings.Split(word, "")
		for {
			best, at := math.MaxInt, -1
			for i := 0; i+1 < len(want); i++ {
				if rank := slices.Index(merges, [2]string{want[i], want[i+1]}); rank >= 0 && rank < best {
					best, at = rank, i
				}
			}
			if at < 0 {
				break
			}
			want = slices.Replace(want, at, at+2, want[at]+want[at+1])
		}
		var got []string
		for _, p := range m.pieces(word, nil) {
			got = append(got, p.Text)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s: %v, want %v", word, got, want)
		}
	}
}

// TestUnigramAgainstAllCuts tries every way to cut short words.
func TestUnigramAgainstAllCuts(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	texts, scores := []string{"<unk>"}, []float64{0}
	for _, s := range []string{"a", "b", "ab", "ba", "aba", "bb", "abab"} {
		texts, scores = append(texts, s), append(scores, -r.Float64()*5)
	}
	m := newUnigram(texts, scores, 0, false)
	var best func(word string) float64
	best = func(word string) float64 {
		if word == "" {
			return 0
		}
		top := math.Inf(-1)
		for n := 1; n <= len(word); n++ {
			score, ok := m.worst-unknownPenalty, n == 1
			if id, known := m.ids[word[:n]]; known {
				score, ok = scores[id], true
			}
			if ok {
				top = max(top, score+best(word[n:]))
			}
		}
		return top
	}
	for range 200 {
		word := ""
		for range 1 + r.IntN(10) {
			word += string("abx"[r.IntN(3)])
		}
		sum := 0.0
		for _, p := range m.pieces(word, nil) {
			if p.ID == 0 {
				sum += float64(len(p.Text)) * (m.worst - unknownPenalty)
			} else {
				sum += scores[p.ID]
			}
		}
		if want := best(word); math.Abs(sum-want) > 1e-9 {
			t.Fatalf("%s: %v, the best cut has %v", word, sum, want)
		}
	}
}

// A word of a hundred thousand characters is as quick as one expects.
func TestLongWords(t *testing.T) {
	tok, err := Open(filepath.Join(recorded, "tok_qwen2"))
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("abcab", 20000)
	e, err := tok.Encode(long)
	if got := tok.Decode(e.IDs); err != nil || got != long {
		t.Errorf("a long word came back changed: %v", err)
	}
}

func TestWhatIsNotATokenizer(t *testing.T) {
	for text, want := range map[string]string{
		`[]`:                               "not a tokenizer.json",
		`{}`:                               `no "model"`,
		`{"model": {"type": "WordLevel"}}`: "BPE, Unigram and WordPiece are",
		`{"model": {"type": "WordPiece", "vocab": {"a": 0}}}`:                                                      "has no \"[UNK]\"",
		`{"model": {"type": "WordPiece", "vocab": ["a"]}}`:                                                         "model.vocab",
		`{"model": {"type": "WordPiece", "vocab": {"[UNK]": -3}}}`:                                                 "has the id -3",
		`{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["ab"]}}`:                                          "not two pieces",
		`{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}}`:                                         "lacks one of them",
		`{"model": {"type": "Unigram", "vocab": [["a"]]}}`:                                                         `model.vocab[0]: ["a"] is not a piece`,
		`{"model": {"type": "Unigram", "vocab": [["a", "1"]]}}`:                                                    "not a piece",
		`{"model": {"type": "Unigram", "vocab": [["a", 1, 2]]}}`:                                                   "not a piece",
		`{"model": {"type": "Unigram", "vocab": [["a", null]]}}`:                                                   "not a piece",
		`{"model": {"type": "Unigram", "vocab": [[1, 1]]}}`:                                                        "not a piece",
		`{"model": {"type": "Unigram", "vocab": ["a"]}}`:                                                           "not a piece",
		`{"model": {"type": "Unigram", "vocab": [null]}}`:                                                          "not a piece",
		`{"model": {"type": "Unigram", "vocab": [[]]}}`:                                                            "not a piece",
		`{"model": {"type": "Unigram", "vocab": [["a", 1]]}}`:                                                      "unk_id",
		`{"model": {"type": "BPE", "vocab": {"a": 0}}}`:                                                            `needs "merges"`,
		`{"model": {"type": "BPE", "vocab": {}, "merges": []}, "decoder": {"type": "Metaspace"}}`:                  `needs a "replacement"`,
		`{"model": {"type": "BPE", "vocab": {}, "merges": []}, "decoder": {"type": "BPEDecoder"}}`:                 `needs a "suffix"`,
		`{"model": {"type": "BPE", "vocab": {}, "merges": []}, "normalizer": {"type": "Odd"}}`:                     `"Odd"`,
		`{"model": {"type": "BPE", "vocab": {}, "merges": []}, "added_tokens": [{"id": -5, "content": "x"}]}`:      "-5",
		`{"model": {"type": "BPE", "vocab": {}, "merges": []}, "pre_tokenizer": {"type": "Split", "pattern": {}}}`: "pattern",
		`{"model": {"type": "BPE", "vocab": {}, "merges": []}, "pre_tokenizer": {"type": "Metaspace"}}`:            `needs a "replacement"`,
	} {
		if _, err := Read([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "spiece.model") {
		t.Errorf("an empty folder: %v", err)
	}
	if _, err := readSentencePiece([]byte("hello")); err == nil {
		t.Error("text was read as a sentencepiece model")
	}
}

// TestMerges: both forms of a merge, with escapes and without them, are the same.
func TestMerges(t *testing.T) {
	for _, merge := range []string{`"Ġ ab"`, `"\u0120 a\u0062"`, `[ "Ġ" ,"ab"]`, `["\u0120", "\u0061b"]`} {
		tok, err := Read([]byte(`{"model": {"vocab": {"a": 0, "b": 1, "Ġ": 2, "ab": 3, "Ġab": 4}, "merges": ["a b", ` + merge + `]}}`))
		if err != nil {
			t.Fatalf("%s: %v", merge, err)
		}
		if e, err := tok.Encode("Ġab"); err != nil || !slices.Equal(e.IDs, []int32{4}) {
			t.Errorf("%s: %v, %v", merge, e.IDs, err)
		}
	}
	for _, merge := range []string{`"a"`, `["a"]`, `["a", "b", "c"]`, `["a", "b", 7]`, `["a", ["b"]]`, `[7, "a"]`, `[]`, `null`, `7`, `["a", 7]`} {
		if _, err := Read([]byte(`{"model": {"vocab": {"a": 0}, "merges": [` + merge + `]}}`)); err == nil || !strings.HasPrefix(err.Error(), "model.merges[0]: "+merge+" is not two pieces") {
			t.Errorf("%s: %v", merge, err)
		}
	}
}

// FuzzRead begins at small seeds: the fuzzer would spend its time on shortening large ones.
func FuzzRead(f *testing.F) {
	for _, data := range []string{
		`{"model": {"type": "BPE", "unk_token": "a", "end_of_word_suffix": "</w>", "vocab": {"a": 0, "b": 1, "ab</w>": 2, "b</w>": 3}, "merges": ["a b</w>"]},
			"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": " "}, {"type": "Lowercase"}]},
			"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "\\p{L}+|."}, "behavior": "Removed", "invert": true},
			"post_processor": {"type": "RobertaProcessing", "sep": ["b", 1], "cls": ["a", 0]}, "decoder": {"type": "BPEDecoder", "suffix": "</w>"}}`,
		`{"model": {"type": "BPE", "byte_fallback": true, "fuse_unk": true, "vocab": {"a": 0, "Ġ": 1, "Ġa": 2}, "merges": [["Ġ", "a"]]},
			"added_tokens": [{"id": 3, "content": "<|endoftext|>", "special": true}], "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": true},
			"decoder": {"type": "Sequence", "decoders": [{"type": "ByteLevel"}, {"type": "Strip", "content": " ", "start": 1}]}}`,
		`{"model": {"type": "Unigram", "unk_id": 0, "byte_fallback": true, "vocab": [["<unk>", 0], ["<0x62>", -1], ["a", -2.5]]},
			"normalizer": {"type": "Sequence", "normalizers": [{"type": "Precompiled", "precompiled_charsmap": "IAAAAAAIAAAAAAAAAAAAAAERAAAAAAAAAAAAAAAAAAAAAAAAYgA="}, {"type": "Strip", "strip_left": true}]},
			"decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]}}`,
		`{"model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["▁", -1], ["a", -2.5]]},
			"normalizer": {"type": "Prepend", "prepend": "▁"}, "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
			"post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "a"}}], "special_tokens": {"a": {"ids": [2]}}},
			"decoder": {"type": "Metaspace", "replacement": "▁"}}`,
		`{"model": {"type": "WordPiece", "continuing_subword_prefix": "##", "vocab": {"[UNK]": 0, "a": 1, "##b": 2}},
			"normalizer": {"type": "BertNormalizer"}, "pre_tokenizer": {"type": "BertPreTokenizer"}, "decoder": {"type": "WordPiece", "prefix": "##"}}`,
	} {
		if _, err := Read([]byte(data)); err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(data), "a b\x01 <|endoftext|> ▁text")
	}
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		tok, err := Read(data)
		if err != nil {
			return
		}
		if ids, err := tok.Framed(text); err == nil {
			tok.Decode(ids)
		}
	})
}

func FuzzSentencePiece(f *testing.F) {
	f.Add([]byte{10, 3, 10, 1, 'a'}, "a b")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		if tok, err := readSentencePiece(data); err == nil {
			if ids, err := tok.Framed(text); err == nil {
				tok.Decode(ids)
			}
		}
	})
}

// TestNotUTF8: invalid UTF-8 is refused by its place, also where an expression would count it as longer than it is.
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

// TestStarved: time that ran out while others had the CPU is not a fault of the text; time that was used is.
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
