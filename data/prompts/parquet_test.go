package prompts

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The data set of testdata was written by pyarrow, with the schema that the hub gives columns of pictures.
const dataset = "testdata/dataset"

// TestDataset: texts, other columns, and pictures, of a folder, a split and a file.
func TestDataset(t *testing.T) {
	for _, name := range []string{dataset, dataset + "@test", dataset + "@test#caption", dataset + "/data/test-00000-of-00001.parquet#caption"} {
		list, err := Open(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var texts []string
		for _, p := range list {
			texts = append(texts, p.Text)
		}
		if !slices.Equal(texts, []string{"a red cat", `a "green" dog`, "ein blauer Bär"}) {
			t.Errorf("%s: %q", name, texts)
			continue
		}
		for key, want := range map[string]string{"id": "7", "words": `["red","cat"]`, "truth.answer": `"red"`, "truth.score": "0.5", "caption": ""} {
			if got := string(list[0].Meta.Map()[key]); got != want {
				t.Errorf("%s: %s is %s, want %s", name, key, got, want)
			}
		}
		if _, there := list[1].Meta.Get("truth.answer"); there || string(list[2].Meta.Map()["truth.answer"]) != `"blau"` || list[2].Meta.Map()["truth.score"] != nil {
			t.Errorf("%s: %s and %s", name, list[1].Meta, list[2].Meta)
		}
		for i, want := range [][]int{{3, 1, 2}, nil, {5}} {
			if err := list[i].HasPictures(filepath.Dir(name)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			pictures, err := list[i].Pictures(filepath.Dir(name))
			var widths []int
			for _, m := range pictures {
				widths = append(widths, m.Width)
			}
			if err != nil || !slices.Equal(widths, want) {
				t.Errorf("%s: row %d has pictures of widths %v, want %v; %v", name, i, widths, want, err)
			}
		}
	}
}

func TestDatasetRefuses(t *testing.T) {
	empty := t.TempDir()
	for name, says := range map[string]string{
		dataset + "@validation":          `has no split "validation"`,
		dataset + "#prompt":              `no column of texts is named "prompt"`,
		dataset + "#words":               `no column of texts is named "words"`,
		dataset + "#id":                  `no column of texts is named "id"`,
		empty:                            "folders of data sets with data/*.parquet, which this is not",
		write(t, "a.parquet", "a cat\n"): "this is no Parquet file",
		write(t, "a.txt", "a cat\n") + "#caption":               "columns are of .parquet files",
		dataset + "/data/train-00002-of-2.parquet":              "no such file",
		write(t, "a.jsonl", `{"prompt": "a", "imag": "a.png"}`): "a line is",
	} {
		if list, err := Open(name); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, %v; want %q", name, list, err, says)
		}
	}
	for _, name := range []string{"parquet:../x.parquet#0/image", "parquet:x#-1/image", "parquet:x#1", "parquet:dataset/data/test-00000-of-00001.parquet#9/image", "parquet:dataset/data/test-00000-of-00001.parquet#0/words"} {
		p := Prompt{Text: "a", Meta: Meta(`{"picture": "` + name + `"}`)}
		if got, err := p.Pictures("testdata"); err == nil {
			t.Errorf("%s: %d pictures", name, len(got))
		}
	}
}

// TestBrokenParquet: a file of which some bytes are others is read, or is an error.
func TestBrokenParquet(t *testing.T) {
	whole, err := os.ReadFile(dataset + "/data/test-00000-of-00001.parquet")
	if err != nil {
		t.Fatal(err)
	}
	draw := rand.New(rand.NewPCG(1, 2))
	read := 0
	for range 300 {
		broken := slices.Clone(whole)
		for range 1 + draw.IntN(4) {
			broken[draw.IntN(len(broken))] ^= byte(1 << draw.IntN(8))
		}
		if draw.IntN(4) == 0 {
			broken = broken[:draw.IntN(len(broken))]
		}
		path := write(t, "a.parquet", string(broken))
		list, err := Open(path)
		if err != nil {
			continue
		}
		read++
		for _, p := range list {
			if pictures, err := p.Pictures(filepath.Dir(path)); err == nil && slices.Contains(pictures, nil) {
				t.Error("a picture that was read is none")
			}
		}
	}
	if read == 0 || read == 300 {
		t.Errorf("%d of 300 broken files were read, and the test tells nothing", read)
	}
}
