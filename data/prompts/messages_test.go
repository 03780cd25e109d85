package prompts

import (
	"bytes"
	"image"
	"image/png"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/golden"

	"github.com/parquet-go/parquet-go"

	"github.com/darkroom-rl/darkroom/data/sft"
)

// A verlRow is a row as verl's examples write them.
type verlRow struct {
	Source string        `parquet:"data_source"`
	Prompt []verlMessage `parquet:"prompt,list"`
	Images []verlPicture `parquet:"images,list"`
	Model  verlTruth     `parquet:"reward_model"`
	Extra  verlExtra     `parquet:"extra_info"`
}

type (
	verlMessage struct {
		Content string `parquet:"content"`
		Role    string `parquet:"role"`
	}
	verlPicture struct {
		Bytes []byte  `parquet:"bytes,optional"`
		Path  *string `parquet:"path,optional"`
	}
	verlTruth struct {
		Truth string `parquet:"ground_truth"`
		Style string `parquet:"style"`
	}
	verlExtra struct {
		Index int64 `parquet:"index"`
	}
)

// metaText is a value of a prompt's meta as it was written.
func metaText(p Prompt, key string) string {
	raw, _ := p.Meta.Get(key)
	return string(raw)
}

func picturePNG(t *testing.T, width int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewRGBA(image.Rect(0, 0, width, 8))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestMessages: verl's rows in a Parquet file, as its examples write them, and the same shape in a .jsonl: the
// conversation for the template, its pictures, and the meta for rewards.
func TestMessages(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "train.parquet")
	var rows []verlRow
	for _, n := range []int{2, 1, 0} {
		rows = append(rows, verlRow{Source: "hiyouga/geometry3k", Prompt: []verlMessage{{Content: strings.Repeat("<image>", n) + "Find x.", Role: "user"}},
			Images: make([]verlPicture, n), Model: verlTruth{"268", "rule"}, Extra: verlExtra{Index: int64(n)}})
		for i := range n {
			rows[len(rows)-1].Images[i].Bytes = picturePNG(t, 10*n+i)
		}
	}
	if err := parquet.WriteFile(file, rows); err != nil {
		t.Fatal(err)
	}
	list, err := Open(file)
	if err != nil || len(list) != len(rows) {
		t.Fatalf("%d prompts, %v", len(list), err)
	}
	for i, want := range [][]int{{20, 21}, {10}, nil} {
		pictures, err := list[i].Pictures(dir)
		var widths []int
		for _, m := range pictures {
			widths = append(widths, m.Width)
		}
		row, ok := list[i].Messages()
		c, wrong := sft.ReadPrompt(row)
		if err != nil || wrong != nil || !ok || !slices.Equal(widths, want) || len(c.Messages) != 1 || len(c.Pictures) != len(want) || list[i].Text != "Find x." {
			t.Errorf("row %d: pictures of widths %v, %v; %q, %v, text %q", i, widths, err, row, wrong, list[i].Text)
		}
		if err := list[i].HasPictures(dir); err != nil {
			t.Error(err)
		}
	}
	for key, want := range map[string]string{"answer": `"268"`, "domain": `"hiyouga/geometry3k"`, "reward_model.style": `"rule"`, "extra_info.index": "2"} {
		if got := metaText(list[0], key); got != want {
			t.Errorf("meta.%s is %s, want %s", key, got, want)
		}
	}
	if _, err := Open(golden.Folder("data") + "/verl_geo3k/train.parquet"); err == nil || !strings.Contains(err.Error(), "train.parquet:2: other pictures than marks: 1 pictures, and 2 marks") {
		t.Errorf("a row with a mark that has no picture: %v", err)
	}

	lines := write(t, "a.jsonl", `{"prompt": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How many?"}, {"role": "assistant", "content": "Of what?"}, {"role": "user", "content": [{"type": "text", "text": "Cats."}]}], "solution": "3", "tools": [{"name": "zoom"}], "level": 2}`+"\n"+`{"prompt": "plain", "meta": {"answer": "4"}}`)
	if list, err = Open(lines); err != nil {
		t.Fatal(err)
	}
	row, _ := list[0].Messages()
	c, err := sft.ReadPrompt(row)
	if err != nil || len(c.Messages) != 4 || c.Messages[0].Role != "system" || len(c.Tools) != 1 || list[0].Text != "Cats." || metaText(list[0], "answer") != `"3"` || metaText(list[0], "level") != "2" {
		t.Errorf("%+v, %v of %+v", c, err, list[0])
	}
	if _, ok := list[1].Messages(); ok || list[1].Text != "plain" {
		t.Errorf("a plain prompt is %+v", list[1])
	}
	for line, says := range map[string]string{
		`{"prompt": [{"role": "user", "content": "<image>a"}], "images": ["a.png", "b.png"]}`: "2 pictures, and 1 marks",
		`{"prompt": [{"role": "assistant", "content": "a"}]}`:                                 `ends with a turn of "assistant"`,
		`{"prompt": []}`:               "has no message",
		`{"prompt": [{"role": "me"}]}`: `a turn of "me"`,
		`{"prompt": [{"role": "user", "content": [{"type": "image", "image": "https://x/a.png"}]}]}`: "nothing is fetched",
	} {
		if _, err := Open(write(t, "b.jsonl", line)); err == nil || !strings.Contains(err.Error(), "b.jsonl:1: ") || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want %q", line, err, says)
		}
	}
}
