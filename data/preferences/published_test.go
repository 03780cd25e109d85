package preferences

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/darkroom-rl/darkroom/rewards/eval"
)

// TestPublishedPairs: five collections are read as they are published, with the pictures and clips that lie beside them
// or in them.
func TestPublishedPairs(t *testing.T) {
	dir := t.TempDir()
	picture := func(width int) []byte {
		var file bytes.Buffer
		if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, width, 4))); err != nil {
			t.Fatal(err)
		}
		return file.Bytes()
	}
	file := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for width, name := range []string{"", "train/1.jpg", "train/2.jpg", "images/3.webp", "images/4.webp", "images/5.webp"} {
		if name != "" {
			file(name, picture(width))
		}
	}
	file("hpd/4.png", picture(4))
	file("hpd/5.png", picture(5))
	clip := fmt.Appendf(nil, "YUV4MPEG2 W16 H16 F8:1 Ip C420jpeg\nFRAME\n%sFRAME\n%s", strings.Repeat("a", 384), strings.Repeat("b", 384))
	file("videos/a.y4m", clip)
	file("videos/b.y4m", clip)
	type cell struct {
		Bytes []byte `parquet:"bytes"`
		Path  string `parquet:"path"`
	}
	type pick struct {
		Caption  string  `parquet:"caption"`
		First    []byte  `parquet:"jpg_0"`
		Second   []byte  `parquet:"jpg_1"`
		Name     string  `parquet:"image_0_uid"`
		Other    string  `parquet:"image_1_uid"`
		Label0   float64 `parquet:"label_0"`
		Label1   float64 `parquet:"label_1"`
		HasLabel bool    `parquet:"has_label"`
	}
	type vote struct {
		Prompt string `parquet:"prompt"`
		Left   cell   `parquet:"left_image"`
		Right  cell   `parquet:"right_image"`
		Vote   string `parquet:"vote_type"`
	}
	picked, voted := filepath.Join(dir, "pick.parquet"), filepath.Join(dir, "genai.parquet")
	if err := parquet.WriteFile(picked, []pick{{"a cat", picture(1), picture(2), "x", "y", 1, 0, true}, {"a cat", picture(2), picture(3), "y", "z", 0.5, 0.5, true}, {"a dog", nil, nil, "", "", 0, 0, false}}); err != nil {
		t.Fatal(err)
	}
	if err := parquet.WriteFile(voted, []vote{{"a cat", cell{picture(1), "l"}, cell{picture(2), "r"}, "rightvote"}, {"a dog", cell{picture(3), "l"}, cell{picture(4), "r"}, "bothbad_vote"}}); err != nil {
		t.Fatal(err)
	}
	type edit struct {
		Prompt string `parquet:"instruct_prompt"`
		Source cell   `parquet:"source_image"`
		Left   cell   `parquet:"left_output_image"`
		Right  cell   `parquet:"right_output_image"`
		Vote   string `parquet:"vote_type"`
	}
	type film struct {
		Prompt string `parquet:"prompt"`
		Left   string `parquet:"left_video"`
		Right  string `parquet:"right_video"`
		Vote   string `parquet:"vote_type"`
	}
	type rate struct {
		Image  cell   `parquet:"image"`
		ID     string `parquet:"prompt_id"`
		Prompt string `parquet:"prompt"`
		Rank   int64  `parquet:"rank"`
	}
	edited, played, filmed, ratedTable := filepath.Join(dir, "edits.parquet"), filepath.Join(dir, "played.parquet"), filepath.Join(dir, "filmed.parquet"), filepath.Join(dir, "rated.parquet")
	if err := errors.Join(
		parquet.WriteFile(edited, []edit{{"make it red", cell{picture(1), "s"}, cell{picture(2), "l"}, cell{picture(3), "r"}, "leftvote"}}),
		parquet.WriteFile(played, []film{{"a cat", "videos/a.y4m", "videos/b.y4m", "leftvote"}}),
		parquet.WriteFile(filmed, []film{{"a cat", "https://x/a.mp4", "videos/b.y4m", "leftvote"}}),
		parquet.WriteFile(ratedTable, []rate{{cell{picture(1), "a"}, "1", "a cat", 1}, {cell{picture(2), "b"}, "2", "a dog", 1}, {cell{picture(3), "c"}, "1", "a cat", 4}}),
	); err != nil {
		t.Fatal(err)
	}
	mixed := filepath.Join(dir, "mixed")
	if err := errors.Join(os.Mkdir(mixed, 0o755), parquet.WriteFile(filepath.Join(mixed, "a.parquet"), []rate{{cell{picture(1), "a"}, "1", "a cat", 1}, {cell{picture(3), "c"}, "1", "a cat", 4}}),
		parquet.WriteFile(filepath.Join(mixed, "b.parquet"), []vote{{"a cat", cell{picture(1), "l"}, cell{picture(2), "r"}, "rightvote"}})); err != nil {
		t.Fatal(err)
	}
	file("images/train/train_1/6.webp", picture(6))
	file("images/train/train_1/7.webp", picture(7))
	table := "path_A,path_B,prompt,VQ,Overall\nvideos/a.y4m,videos/b.y4m,\"a cat, running\",B,A\n"
	for _, c := range []struct{ name, of, want string }{
		{file("train.json", []byte(`[{"prompt": "a cat", "image_path": ["1.jpg", "2.jpg"], "human_preference": [0, 1], "user_hash": "u"}]`)), eval.Pictures, "a cat: 1.jpg 1 < 2.jpg 2"},
		{file("test.json", []byte(`[{"prompt": "a cat", "image_path": ["images/3.webp", "4.webp"], "rank": [0, 1], "raw_annotations": []}]`)), eval.Pictures, "a cat: images/3.webp 3 > 4.webp 4"},
		{file("reward.json", []byte(`[{"id": "1", "prompt": "a dog", "generations": ["images/3.webp", "images/4.webp", "images/5.webp"], "ranking": [2, 1, 2]}]`)), eval.Pictures,
			"a dog: images/3.webp 3 < images/4.webp 4; a dog: images/3.webp 3 = images/5.webp 5; a dog: images/4.webp 4 > images/5.webp 5"},
		{picked, eval.Pictures, "a cat: x 1 > y 2; a cat: y 2 = z 3"},
		{voted, eval.Pictures, "a cat: genai.parquet#0/left_image 1 < genai.parquet#0/right_image 2; a dog: genai.parquet#1/left_image 3 = genai.parquet#1/right_image 4"},
		{file("videogen.csv", []byte(table)), eval.Moving, "a cat, running: videos/a.y4m 2 > videos/b.y4m 2"},
		{file("mmrb.json", []byte(`[{"ID": "1", "Text": "what is it?", "Image": "images/3.webp", "Output1": "a cat", "Output2": "a dog", "Better": "Output2", "Category": "vqa"}]`)), eval.Replies,
			"what is it?: a cat 3 < a dog 3"},
		{edited, eval.Pictures, "make it red: edits.parquet#0/left_output_image 2 of 1 > edits.parquet#0/right_output_image 3 of 1"},
		{"genai_bench:" + played, eval.Moving, "a cat: videos/a.y4m 2 > videos/b.y4m 2"},
		{ratedTable, eval.Pictures, "a cat: rated.parquet#0/image 1 > rated.parquet#2/image 3"},
		{"imagereward:" + file("images/train/train_1/train_1.json", []byte(`[{"image_path": "images/train/train_1/6.webp", "prompt_id": "1", "prompt": "a cat", "classification": "Animals", "rank": 2}, {"image_path": "images/train/train_1/7.webp", "prompt_id": "1", "prompt": "a cat", "classification": "Animals", "rank": 1}]`)), eval.Pictures,
			"a cat: images/train/train_1/6.webp 6 < images/train/train_1/7.webp 7"},
		{filepath.Dir(file("hpd/test.json", []byte(`[{"prompt": "a cat", "image_path": ["4.png", "5.png"], "human_preference": [1, 0]}]`))), eval.Pictures, "a cat: 4.png 4 > 5.png 5"},
		{file("videogen.csv", []byte(table)) + "#VQ", eval.Moving, "a cat, running: videos/a.y4m 2 < videos/b.y4m 2"},
	} {
		set, err := Read(c.name)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		size := func(s eval.Sample) string {
			item, err := s.Open()
			switch {
			case err != nil:
				return err.Error()
			case item.Transcript != nil:
				return fmt.Sprint(item.Transcript.Last(), " ", item.Image.Width)
			case item.Clip != nil:
				return fmt.Sprint(s.Name, " ", len(item.Clip.Frames))
			case len(item.Sources) > 0:
				return fmt.Sprint(s.Name, " ", item.Image.Width, " of ", item.Sources[0].Width)
			}
			return fmt.Sprint(s.Name, " ", item.Image.Width)
		}
		var got []string
		for _, p := range set.Pairs {
			got = append(got, fmt.Sprintf("%s: %s %c %s", p.Prompt, size(p.A), "=><"[p.Better], size(p.B)))
		}
		if all := strings.Join(got, "; "); all != c.want || set.Of != c.of {
			t.Errorf("%s: %s of %s, want %s", c.name, all, set.Of, c.want)
		}
	}
	for name, want := range map[string]string{
		"pickapic:" + voted:      "genai_bench's layout, and not pickapic's",
		"hpd:" + voted:           `"hpd" is not a layout of collections: these are hpdv2, imagereward, pickapic`,
		"hpdv2:" + eval.SceneSet: "pairs of one's own, and not hpdv2's layout",
		filmed:                   "left_video is",
		mixed:                    "mixed: b.parquet is genai_bench, and a.parquet before it is imagereward",
		file("none.json", []byte(`[{"prompt": "a cat", "image_path": ["1.jpg"]}]`)):                                          "none.json: row 1: neither image_path with human_preference",
		file("better.json", []byte(`[{"Text": "a", "Output1": "b", "Output2": "c", "Better": "both"}]`)):                     `row 1: Better is "both"`,
		filepath.Dir(file("empty/readme.txt", nil)):                                                                          "no table or list of preferences",
		file("few.json", []byte(`[{"prompt": "a cat", "generations": ["images/3.webp"], "ranking": [1, 2]}]`)):               "row 1: 1 pictures and 2 places",
		file("gone.json", []byte(`[{"prompt": "a cat", "generations": ["no.webp", "images/3.webp"], "ranking": [1, 2]}]`)):   "no.webp",
		file("out.json", []byte(`[{"prompt": "a cat", "generations": ["../no.webp", "images/3.webp"], "ranking": [1, 2]}]`)): "outside itself",
		file("line.json", []byte(`{"prompt": "a cat"}`)):                                                                     "a .jsonl has a pair a line",
		file("other.csv", []byte("prompt,path_A,path_B\n")):                                                                  `there is no column "Overall"`,
		file("wrong.csv", []byte(strings.ReplaceAll(table, "B,A\n", "B,left\n"))):                                            `row 1: Overall is "left"`,
		"../prompts/testdata/dataset/data/train-00000-of-00002.parquet":                                                      "neither Pick-a-Pic's columns",
	} {
		if _, err := Read(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
