package prompts

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOpen(t *testing.T) {
	for name, text := range map[string]string{
		"a.txt":   "\ufeffa cat\r\n\n two \"dogs\" \n",
		"a.jsonl": "{\"prompt\": \"a cat\", \"meta\": null}\n\n{\"prompt\": \" two \\\"dogs\\\" \", \"meta\": {\"count\": \"2\", \"Count\": \"3\"}}",
		"a.CSV":   "count,prompt\n,a cat\n2,\" two \"\"dogs\"\" \"\n",
	} {
		list, err := Open(write(t, name, text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(list) != 2 || list[0].Text != "a cat" || list[1].Text != ` two "dogs" ` {
			t.Errorf("%s: %+v", name, list)
		}
		if list[0].Meta != "" || !strings.HasSuffix(name, ".txt") && string(list[1].Meta.Map()["count"]) != `"2"` {
			t.Errorf("%s: meta %s and %s", name, list[0].Meta, list[1].Meta)
		}
	}
}

// TestWeights: weights of rewards are read, one number per label.
func TestWeights(t *testing.T) {
	list, err := Open(write(t, "a.jsonl", `{"prompt": "a cat", "weights": {"ocr": 0, "taste": 1.5}}`))
	if err != nil || len(list) != 1 || len(list[0].Weights) != 2 || list[0].Weights["taste"] != 1.5 {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err := Open(write(t, "a.jsonl", `{"prompt": "a cat", "weights": {"ocr": "much"}}`)); err == nil {
		t.Errorf("%+v", list)
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, says string }{
		{"a.txt", "\n \n", "no prompt"},
		{"a.txt", "a\n\xff\n", "a.txt:2: the prompt is not UTF-8"},
		{"a.txt", strings.Repeat("x", mostLetter+1), "a.txt:1: a prompt of 65537 bytes"},
		{"a.jsonl", "{\"prompt\": \"a\"}\n{\"promt\": \"b\"}", "a.jsonl:2: json: unknown field \"promt\""},
		{"a.jsonl", "{\"prompt\": \"a\"} {}", "a.jsonl:1: something follows"},
		{"a.jsonl", "{\"prompt\": 3}", "a.jsonl:1:"},
		{"a.jsonl", "{\"meta\": {}}", "a.jsonl:1: the prompt is empty"},
		{"a.jsonl", "{\"prompt\": \"a\"}\n{\"prompt\": \"b\xff\"}", "a.jsonl:2: the record is not UTF-8"},
		{"a.jsonl", "{\"prompt\": \"a\", \"prompt\": \"b\"}", "a.jsonl:1: \"prompt\" is there twice"},
		{"a.jsonl", "{\"prompt\": \"a\", \"Prompt\": \"b\"}", "a.jsonl:1: \"Prompt\" is there twice"},
		{"a.jsonl", "{\"prompt\": \"a\", \"meta\": {\"x\": [{\"y\": 1, \"z\": {}, \"y\": 2}]}}", "a.jsonl:1: \"y\" is there twice"},
		{"a.csv", "prompt,x,prompt\na,b,c\n", "a.csv:1: two columns are named \"prompt\""},
		{"a.csv", "prompt,x\na,\xff\n", "a.csv:2: the column \"x\" is not UTF-8"},
		{"a.csv", "text\na\n", "a.csv:1: no column is named \"prompt\""},
		{"a.csv", "prompt,x\na\n", "a.csv:2: wrong number of fields"},
		{"a.csv", "prompt\n\"a\nb", "a.csv:"},
		{"a.csv", "", "no prompt"},
		{"a.jsonl", `{"prompt": "a"}` + "\n" + `{"prompt": "b", "width": 64}`, "a.jsonl:2: a picture of 64 x 0"},
		{"a.jsonl", `{"prompt": "b", "width": -8, "height": 8}`, "a.jsonl:1: a picture of -8 x 8"},
		{"a.jsonl", `{"prompt": "b", "width": 8, "height": 8.5}`, "a.jsonl:1: "},
		{"a.md", "a", "prompts are .txt, .jsonl, .csv or .parquet"},
	} {
		if _, err := Open(write(t, c.name, c.text)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s of %.30q: %v; want %q", c.name, c.text, err, c.says)
		}
	}
	if _, err := Open("embed:scene"); err == nil || !strings.Contains(err.Error(), "embed:animate64-heldout, embed:edits, ") {
		t.Errorf("%v", err)
	}
}

// TestFurtherFields: fields that a record has not go into meta, as those of GenEval's own list.
func TestFurtherFields(t *testing.T) {
	list, err := Open(write(t, "a.jsonl", `{"tag": "single_object", "include": [{"class": "bench", "count": 1}], "prompt": "a photo of a bench", "meta": {"x": 1}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(list[0].Meta), `{"include":[{"class":"bench","count":1}],"tag":"single_object","x":1}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if list, err = Open(write(t, "a.jsonl", `{"prompt": "a", "meta": null, "tag": "x"}`)); err != nil || string(list[0].Meta) != `{"tag":"x"}` {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := Open(write(t, "a.jsonl", `{"prompt": "a", "input_image": "a.png"}`)); err == nil || !strings.Contains(err.Error(), `"input_image" is "image" here`) {
		t.Error(err)
	}
	if _, err := Open(write(t, "a.jsonl", `{"prompt": "a", "x": 1, "meta": {"x": 2}}`)); err == nil || !strings.Contains(err.Error(), `"x" is both a field and in meta`) {
		t.Error(err)
	}
}

// TestPictured: a record may have settings of its picture.
func TestPictured(t *testing.T) {
	list, err := Open(write(t, "a.jsonl", `{"prompt": "a", "negative": "", "width": 640, "height": 384}`+"\n"+`{"prompt": "b"}`))
	if err != nil {
		t.Fatal(err)
	}
	if p := list[0]; p.Negative == nil || *p.Negative != "" || p.Width != 640 || p.Height != 384 || !p.Sized() {
		t.Errorf("%+v", p)
	}
	if p := list[1]; p.Negative != nil || p.Sized() {
		t.Errorf("%+v", p)
	}
}

// TestEmbedded: the lists share nothing, and every caption is a scene.
func TestEmbedded(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"embed:scenes", "embed:scenes-heldout"} {
		list, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list {
			if other := seen[p.Text]; other != "" {
				t.Errorf("%q stands in %s and %s", p.Text, other, name)
			}
			seen[p.Text] = name
			if s, err := scenes.Parse(p.Text); err != nil || s.Prompt != p.Text {
				t.Errorf("%q: %v", p.Text, err)
			}
		}
	}
	if len(seen) != 288 {
		t.Errorf("%d captions", len(seen))
	}
}

// TestPick: an epoch has every prompt once, and an iteration's are a function of its number.
func TestPick(t *testing.T) {
	k := rng.New(3)
	var all []int
	for i := range 5 {
		all = append(all, Pick(k, i, 4, 10)...)
	}
	for _, epoch := range [][]int{all[:10], all[10:]} {
		sorted := slices.Sorted(slices.Values(epoch))
		for i, p := range sorted {
			if p != i {
				t.Fatalf("an epoch has %v", epoch)
			}
		}
	}
	if slices.Equal(all[:10], all[10:]) {
		t.Error("both epochs have one order")
	}
	if got := Pick(k, 3, 4, 10); !slices.Equal(got, all[12:16]) {
		t.Errorf("iteration 3 alone has %v, not %v", got, all[12:16])
	}
	if got := Pick(k, 0, 7, 2); len(got) != 7 {
		t.Errorf("more prompts than there are: %v", got)
	}
}

// TestPickOnce: no iteration has a prompt twice, every epoch has each once, and iterations that lie inside
// an epoch, and after the first n of it, are those of plain epochs.
func TestPickOnce(t *testing.T) {
	repaired := 0
	for seed := range uint64(40) {
		for _, c := range []struct{ n, total int }{{1, 1}, {3, 3}, {2, 3}, {3, 4}, {4, 5}, {7, 9}, {9, 17}, {9, 20}, {5, 32}} {
			k := rng.New(seed)
			var all []int
			for i := range 6 * c.total {
				got, plain := Pick(k, i, c.n, c.total), From(k, i*c.n, c.n, c.total)
				if twice(got) {
					t.Fatalf("seed %d, %d of %d: iteration %d has %v", seed, c.n, c.total, i, got)
				}
				if twice(plain) {
					repaired++
				} else if i*c.n%c.total >= c.n && i*c.n%c.total+c.n <= c.total && !slices.Equal(got, plain) {
					t.Fatalf("seed %d, %d of %d: iteration %d has %v, not %v", seed, c.n, c.total, i, got, plain)
				}
				all = append(all, got...)
			}
			for e := range len(all) / c.total {
				if twice(all[e*c.total : (e+1)*c.total]) {
					t.Fatalf("seed %d, %d of %d: epoch %d has %v", seed, c.n, c.total, e, all[e*c.total:(e+1)*c.total])
				}
			}
		}
	}
	if repaired == 0 {
		t.Error("no iteration of plain epochs has a prompt twice, and this test tells nothing")
	}
}

func twice(list []int) bool {
	sorted := slices.Sorted(slices.Values(list))
	return len(slices.Compact(sorted)) < len(list)
}

func FuzzOpen(f *testing.F) {
	for _, s := range []string{"a\nb", `{"prompt":"a","meta":{"x":[1]}}`, "prompt,x\na,b\n", "\"", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for name, read := range kinds {
			list, err := read(text)
			for _, p := range list {
				if err == nil && strings.TrimSpace(p.Text) == "" {
					t.Errorf("%s has an empty prompt in %q", name, text)
				}
			}
		}
	})
}
