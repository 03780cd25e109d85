package tokenizer

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// recorded are folders of the recorded cases; package parity holds tokenizer.json to them.
const recorded = "../../internal/golden/models"

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
		`{"model": {"type": "Unigram", "vocab": [["a"]]}}`:                                                         "vocab[0]",
		`{"model": {"type": "Unigram", "vocab": [["a", 1]]}}`:                                                      "unk_id",
		`{"model": {"type": "BPE", "vocab": {}, "merges": []}, "normalizer": {"type": "Odd"}}`:                     `"Odd"`,
		`{"model": {"type": "BPE", "vocab": {}, "merges": []}, "added_tokens": [{"id": -5, "content": "x"}]}`:      "-5",
		`{"model": {"type": "BPE", "vocab": {}, "merges": []}, "pre_tokenizer": {"type": "Split", "pattern": {}}}`: "pattern",
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

func FuzzRead(f *testing.F) {
	for _, name := range []string{"tok_clip", "tok_umt5"} {
		data, err := os.ReadFile(filepath.Join(recorded, name, "tokenizer.json"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, "a <|endoftext|> ▁text")
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
