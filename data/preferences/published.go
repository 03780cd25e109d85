package preferences

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/outside/regular"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/eval"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Published collections of preferences, as they are published:
//
//	HPDv2                 .json: rows of prompt, image_path and human_preference (1 for the better one), or rank
//	ImageReward           .json: rows of prompt, generations and ranking; equal places are ties. ImageRewardDB's .json
//	                      and .parquet: a row a picture, of prompt_id, prompt, rank and image or image_path
//	Pick-a-Pic            .parquet: caption, jpg_0, jpg_1, label_0, label_1 (0.5 each: a tie); without has_label left out
//	GenAI-Bench           .parquet: prompt, left_image, right_image, vote_type; edits: instruct_prompt, source_image,
//	                      left_output_image, right_output_image; clips: left_video, right_video, names of files
//	Multimodal RewardBench  .json: rows of ID, Text, Image, Output1, Output2 and Better, by Category
//	VideoGen-RewardBench  .csv: prompt, path_A, path_B, and A, B or same in Overall, or in the column of FILE.csv#COLUMN
//
// Of n ranked pictures all n(n-1)/2 pairs are asked about, and places count from the best. Files lie beside the list,
// in a folder of the list's name, or in images, as far as the names go. Of a folder, all tables (.parquet) in it or in
// its folder data are read, or else its list: test.json, where there are several. Pairs are of the kind that names the
// two models, or the category, where the rows have them.

// A Layout is a form in which collections are published.
type Layout struct{ Name, Title string }

// Layouts are those that are read, by the names that files may have before them, such as hpdv2:test.json.
func Layouts() []Layout {
	return []Layout{
		{hpdv2, "HPDv2"},
		{imageReward, "ImageReward, ImageRewardDB"},
		{pickaPic, "Pick-a-Pic"},
		{genAIBench, "GenAI-Bench"},
		{videoGen, "VideoGen-RewardBench"},
		{multimodal, "Multimodal RewardBench"},
	}
}

const (
	hpdv2       = "hpdv2"
	imageReward = "imagereward"
	pickaPic    = "pickapic"
	genAIBench  = "genai_bench"
	videoGen    = "videogen_rewardbench"
	multimodal  = "mm_rewardbench"
)

// named divides a layout's name from a file's.
func named(name string) (layout, path string) {
	before, after, ok := strings.Cut(name, ":")
	if ok && slices.ContainsFunc(Layouts(), func(l Layout) bool { return l.Name == before }) {
		return before, after
	}
	return "", name
}

// layoutNames are the names of layouts, for people.
func layoutNames() string {
	var names []string
	for _, l := range Layouts() {
		names = append(names, l.Name)
	}
	return strings.Join(names, ", ")
}

// mostRows bounds a list of JSON or CSV, in bytes.
const mostRows = 1 << 30

// publishedPairs reads a collection; ok says whether the file is of a kind that they are published in.
func publishedPairs(name string) (set eval.Set, ok bool, err error) {
	file, column, chosen := strings.Cut(name, "#")
	set = eval.Set{Name: filepath.Base(name), Of: eval.Pictures}
	if at, failed := os.Stat(file); failed == nil && at.IsDir() {
		return folderPairs(file, column)
	}
	switch ext := strings.ToLower(filepath.Ext(file)); {
	case ext == ".json" && !chosen:
		err = listPairs(file, &set)
	case ext == ".parquet" && !chosen:
		err = tablePairs(file, &set)
	case ext == ".csv":
		if !chosen {
			column = "Overall"
		}
		set.Of, set.Layout = eval.Moving, videoGen
		set.Pairs, err = clipPairs(file, column)
	default:
		return set, false, nil
	}
	if err == nil && len(set.Pairs) == 0 {
		err = fmt.Errorf("%s holds no pairs", name)
	}
	return set, true, err
}

// ranked is a row of HPDv2 or ImageReward.
type ranked struct {
	Prompt      string    `json:"prompt"`
	ImagePath   []string  `json:"image_path"`
	Preference  []float64 `json:"human_preference"`
	Rank        []float64 `json:"rank"`
	Generations []string  `json:"generations"`
	Ranking     []float64 `json:"ranking"`
}

// rated is a row of ImageRewardDB: a picture.
type rated struct {
	PromptID       string  `json:"prompt_id"`
	Prompt         string  `json:"prompt"`
	Classification string  `json:"classification"`
	ImagePath      string  `json:"image_path"`
	Rank           float64 `json:"rank"`

	sample eval.Sample
}

// ratedPairs are those of pictures of one prompt, as prompts first come.
func ratedPairs(rows []rated) (all []eval.Pair) {
	var prompts []string
	of := map[string][]rated{}
	for _, r := range rows {
		if of[r.PromptID] == nil {
			prompts = append(prompts, r.PromptID)
		}
		of[r.PromptID] = append(of[r.PromptID], r)
	}
	for _, id := range prompts {
		for a, first := range of[id] {
			for _, second := range of[id][a+1:] {
				all = append(all, eval.Pair{Prompt: first.Prompt, Kind: first.Classification, A: first.sample, B: second.sample, Better: nearer(first.Rank, second.Rank)})
			}
		}
	}
	return all
}

// order is the files of a row, and the place of each: the smaller, the better.
func (r ranked) order() (files []string, places []float64, err error) {
	switch {
	case r.Generations != nil && r.Ranking != nil:
		files, places = r.Generations, r.Ranking
	case r.ImagePath != nil && r.Preference != nil:
		files = r.ImagePath
		for _, x := range r.Preference {
			places = append(places, -x)
		}
	case r.ImagePath != nil && r.Rank != nil:
		files, places = r.ImagePath, r.Rank
	default:
		return nil, nil, errors.New("neither image_path with human_preference or rank (HPDv2), nor generations with ranking (ImageReward)")
	}
	if len(files) != len(places) {
		return nil, nil, fmt.Errorf("%d pictures and %d places", len(files), len(places))
	}
	return files, places, nil
}

// folderPairs are those of a folder's tables, or of its list.
func folderPairs(folder, column string) (set eval.Set, ok bool, err error) {
	var files []string
	for _, pattern := range []string{"*.parquet", "data/*.parquet", "*.json", "*.csv"} {
		found, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return set, true, err
		}
		if tables := filepath.Ext(pattern) == ".parquet"; len(found) > 0 && (tables || len(files) == 0) {
			files = append(files, found...)
			if !tables {
				break
			}
		}
	}
	tests := []string{"test.json", "metadata-test.parquet"}
	if i := slices.IndexFunc(files, func(f string) bool { return slices.Contains(tests, filepath.Base(f)) }); i >= 0 {
		files = files[i : i+1]
	}
	switch {
	case len(files) == 0:
		return set, true, Unopened{fmt.Errorf("%s: no table or list of preferences lies there\nhint: Pick-a-Pic's and GenAI-Bench's .parquet, HPDv2's test.json, VideoGen-RewardBench's .csv", folder)}
	case len(files) > 1 && filepath.Ext(files[0]) != ".parquet":
		return set, true, Unopened{fmt.Errorf("%s: several lists lie there: %s\nhint: name one", folder, strings.Join(files, ", "))}
	}
	all, last := eval.Set{Name: filepath.Base(folder)}, ""
	for _, f := range files {
		if column != "" {
			f += "#" + column
		}
		one, _, err := publishedPairs(f)
		if err != nil {
			return all, true, err
		}
		if len(all.Pairs) > 0 && (all.Of != one.Of || all.Layout != one.Layout) {
			return all, true, Unopened{fmt.Errorf("%s: %s is %s, and %s before it is %s\nhint: name one of them", folder, filepath.Base(f), one.Layout, filepath.Base(last), all.Layout)}
		}
		all.Of, all.Layout, last = one.Of, one.Layout, f
		all.Pairs = append(all.Pairs, one.Pairs...)
	}
	return all, true, nil
}

// between is the kind of a pair: its two models, whichever was shown first.
func between(a, b string) string {
	if a == "" || b == "" {
		return ""
	}
	return min(a, b) + " and " + max(a, b)
}

// listPairs are those of a list of JSON.
func listPairs(name string, set *eval.Set) error {
	text, err := regular.Read(name, mostRows)
	if err != nil {
		return Unopened{err}
	}
	var replies []answered
	if err := json.Unmarshal(text, &replies); err == nil && len(replies) > 0 && replies[0].Better != "" {
		set.Of, set.Layout = eval.Replies, multimodal
		set.Pairs, err = answeredPairs(name, replies)
		return err
	}
	var pictures []rated
	if err := json.Unmarshal(text, &pictures); err == nil && len(pictures) > 0 && pictures[0].PromptID != "" && pictures[0].ImagePath != "" {
		set.Layout = imageReward
		for i, r := range pictures {
			if pictures[i].sample, err = pictureBeside(name, r); err != nil {
				return fmt.Errorf("%s: row %d: %w", name, i+1, err)
			}
		}
		set.Pairs = ratedPairs(pictures)
		return nil
	}
	return rankedPairs(name, text, set)
}

// pictureBeside is a picture of ImageRewardDB: in the folder that its path begins in, or beside the list.
func pictureBeside(list string, r rated) (eval.Sample, error) {
	s, err := fileSample(list, r.ImagePath, r.Prompt)
	if err == nil {
		return s, nil
	}
	if beside, failed := fileSample(list, path.Base(r.ImagePath), r.Prompt); failed == nil {
		beside.Name = r.ImagePath
		return beside, nil
	}
	return s, err
}

// answered is a row of Multimodal RewardBench.
type answered struct {
	ID, Text, Image, Output1, Output2, Better, Category string
}

// part is the category, of which the publication divides two by the row's name.
func (r answered) part() string {
	has := func(beginning string) bool { return strings.HasPrefix(strings.ToLower(r.ID), beginning) }
	switch {
	case r.Category == "safety" && has("pairs"):
		return "safety/bias"
	case r.Category == "safety":
		return "safety/toxicity"
	case r.Category == "reasoning" && has("math"):
		return "reasoning/math"
	case r.Category == "reasoning":
		return "reasoning/coding"
	}
	return r.Category
}

func answeredPairs(name string, rows []answered) (all []eval.Pair, err error) {
	for i, r := range rows {
		p := eval.Pair{Prompt: r.Text, Kind: r.part()}
		switch r.Better {
		case "Output1":
			p.Better = eval.First
		case "Output2":
			p.Better = eval.Second
		default:
			return nil, fmt.Errorf("%s: row %d: Better is %q: it is Output1 or Output2", name, i+1, r.Better)
		}
		var picture eval.Sample
		if r.Image != "" {
			if picture, err = fileSample(name, r.Image, r.Text); err != nil {
				return nil, fmt.Errorf("%s: row %d: %w", name, i+1, err)
			}
		}
		for to, said := range map[*eval.Sample]string{&p.A: r.Output1, &p.B: r.Output2} {
			*to = eval.Sample{Name: said, Open: func() (item rewards.Item, err error) {
				if picture.Open != nil {
					if item, err = picture.Open(); err != nil {
						return item, err
					}
				}
				item.Prompt, item.Transcript = r.Text, &rewards.Transcript{Turns: []rewards.Turn{{Text: said}}}
				if item.Image != nil {
					item.Transcript.Shown = []*vision.Image{item.Image}
				}
				return item, nil
			}}
		}
		all = append(all, p)
	}
	return all, nil
}

func rankedPairs(name string, text []byte, set *eval.Set) error {
	var rows []ranked
	if err := json.Unmarshal(text, &rows); err != nil {
		return fmt.Errorf("%s: not a list of rows with preferences: %w\nhint: HPDv2's and ImageReward's lists are read as published; a .jsonl has a pair a line", name, err)
	}
	for i, r := range rows {
		fails := func(err error) error { return fmt.Errorf("%s: row %d: %w", name, i+1, err) }
		files, places, err := r.order()
		if err != nil {
			return fails(err)
		}
		if set.Layout = hpdv2; r.Generations != nil {
			set.Layout = imageReward
		}
		samples := make([]eval.Sample, len(files))
		for k, file := range files {
			if samples[k], err = fileSample(name, file, r.Prompt); err != nil {
				return fails(err)
			}
		}
		for a := range samples {
			for b := a + 1; b < len(samples); b++ {
				set.Pairs = append(set.Pairs, eval.Pair{Prompt: r.Prompt, A: samples[a], B: samples[b], Better: nearer(places[a], places[b])})
			}
		}
	}
	return nil
}

// nearer is which of two has the smaller place.
func nearer(a, b float64) eval.Better {
	switch {
	case a < b:
		return eval.First
	case a > b:
		return eval.Second
	}
	return eval.Tie
}

// fileSample is a picture or a clip of a list's folder.
func fileSample(list, file, prompt string) (s eval.Sample, err error) {
	dir, at := filepath.Dir(list), ""
	for _, below := range []string{".", strings.TrimSuffix(filepath.Base(list), filepath.Ext(list)), "images"} {
		var failed error
		if at, failed = safetensors.Locate(filepath.Join(dir, below), file); failed == nil {
			return eval.Sample{Name: file, Open: func() (rewards.Item, error) {
				item := rewards.Item{Prompt: prompt}
				err := item.Open(at)
				return item, err
			}}, nil
		} else if err == nil {
			err = failed
		}
	}
	return s, err
}

// clipPairs are those of a table of clips, by the preferences of a column.
func clipPairs(name, column string) (all []eval.Pair, err error) {
	text, err := regular.Read(name, mostRows)
	if err != nil {
		return nil, Unopened{err}
	}
	rows := csv.NewReader(strings.NewReader(strings.TrimPrefix(string(text), "\ufeff")))
	head, err := rows.Read()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	at := map[string]int{}
	for _, key := range []string{"prompt", "path_A", "path_B", column} {
		if at[key] = slices.Index(head, key); at[key] < 0 {
			return nil, fmt.Errorf("%s: there is no column %q\nhint: VideoGen-RewardBench's table is read as published (prompt, path_A, path_B, Overall); FILE.csv#COLUMN names the preferences; there are %s", name, key, strings.Join(head, ", "))
		}
	}
	cell := func(row []string, column string) string {
		if at := slices.Index(head, column); at >= 0 {
			return row[at]
		}
		return ""
	}
	others, err := rows.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for i, row := range others {
		p := eval.Pair{Prompt: row[at["prompt"]], Kind: between(cell(row, "A_model"), cell(row, "B_model"))}
		switch said := strings.TrimSpace(row[at[column]]); said {
		case "A":
			p.Better = eval.First
		case "B":
			p.Better = eval.Second
		case "same":
			p.Better = eval.Tie
		default:
			return nil, fmt.Errorf("%s: row %d: %s is %q: it is A, B or same", name, i+1, column, said)
		}
		if p.A, err = fileSample(name, row[at["path_A"]], p.Prompt); err == nil {
			p.B, err = fileSample(name, row[at["path_B"]], p.Prompt)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: row %d: %w", name, i+1, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// votes are GenAI-Bench's.
var votes = map[any]eval.Better{"leftvote": eval.First, "rightvote": eval.Second, "tievote": eval.Tie, "bothbad_vote": eval.Tie}

// tablePairs are those of a table whose pictures lie in it. It stays open, since pictures are read when they are asked
// about.
func tablePairs(name string, set *eval.Set) error {
	t, err := prompts.OpenTable(name)
	if err != nil {
		return Unopened{err}
	}
	var pictures []rated
	var reading sync.Mutex // of one row at a time
	n := 0
	err = t.Each(false, func(place prompts.Place, row pytext.Ordered) error {
		number := n
		n++
		sample := func(column, called, prompt string, sources ...string) eval.Sample {
			return eval.Sample{Name: called, Open: func() (rewards.Item, error) {
				reading.Lock()
				defer reading.Unlock()
				_, row, err := t.Row(number, true)
				if err != nil {
					return rewards.Item{}, err
				}
				item := rewards.Item{Prompt: prompt}
				for _, c := range append([]string{column}, sources...) {
					m, err := pictureIn(row.Values[c])
					if err != nil {
						return item, fmt.Errorf("%s:%d: %s: %w", name, number+1, c, err)
					}
					if item.Image == nil {
						item.Image = m
					} else {
						item.Sources = append(item.Sources, m)
					}
				}
				return item, nil
			}}
		}
		has := func(keys ...string) bool {
			return !slices.ContainsFunc(keys, func(k string) bool { return !slices.Contains(row.Keys, k) })
		}
		var p eval.Pair
		for _, models := range [][2]string{{"model_0", "model_1"}, {"left_model", "right_model"}} {
			first, _ := row.Values[models[0]].(string)
			second, _ := row.Values[models[1]].(string)
			if p.Kind == "" {
				p.Kind = between(first, second)
			}
		}
		voted := func(prompt string) error {
			better, known := votes[row.Values["vote_type"]]
			if !known {
				return fmt.Errorf("vote_type is %v: it is leftvote, rightvote, tievote or bothbad_vote", row.Values["vote_type"])
			}
			p.Prompt, _ = row.Values[prompt].(string)
			p.Better, set.Layout = better, genAIBench
			return nil
		}
		cell := func(column string) string { return fmt.Sprintf("%s#%d/%s", place.File, place.Row, column) }
		switch {
		case has("caption", "jpg_0", "jpg_1", "label_0", "label_1"):
			if said, known := row.Values["has_label"].(bool); known && !said {
				return nil
			}
			first, one := row.Values["label_0"].(pytext.Number)
			second, two := row.Values["label_1"].(pytext.Number)
			if !one || !two {
				return errors.New("label_0 or label_1 is no number")
			}
			p.Prompt, _ = row.Values["caption"].(string)
			p.Better, set.Layout = nearer(-first.Value, -second.Value), pickaPic
			for k, to := range []*eval.Sample{&p.A, &p.B} {
				column := fmt.Sprint("jpg_", k)
				called, ok := row.Values[fmt.Sprintf("image_%d_uid", k)].(string)
				if !ok {
					called = cell(column)
				}
				*to = sample(column, called, p.Prompt)
			}
		case has("prompt", "left_image", "right_image", "vote_type"):
			if err := voted("prompt"); err != nil {
				return err
			}
			p.A = sample("left_image", cell("left_image"), p.Prompt)
			p.B = sample("right_image", cell("right_image"), p.Prompt)
		case has("instruct_prompt", "source_image", "left_output_image", "right_output_image", "vote_type"):
			if err := voted("instruct_prompt"); err != nil {
				return err
			}
			p.A = sample("left_output_image", cell("left_output_image"), p.Prompt, "source_image")
			p.B = sample("right_output_image", cell("right_output_image"), p.Prompt, "source_image")
		case has("prompt", "left_video", "right_video", "vote_type"):
			if err := voted("prompt"); err != nil {
				return err
			}
			set.Of = eval.Moving
			for column, to := range map[string]*eval.Sample{"left_video": &p.A, "right_video": &p.B} {
				file, _ := row.Values[column].(string)
				if file == "" || strings.Contains(file, "://") {
					return fmt.Errorf("%s is %.100q: it is the name of a file\nhint: fetch the clips, and write their names into the table", column, file)
				}
				if *to, err = fileSample(name, file, p.Prompt); err != nil {
					return err
				}
			}
		case has("prompt_id", "prompt", "rank") && (has("image") || has("image_path")):
			r := rated{}
			rank, ok := row.Values["rank"].(pytext.Number)
			if !ok {
				return errors.New("rank is not a number")
			}
			r.Rank, set.Layout = rank.Value, imageReward
			r.Prompt, _ = row.Values["prompt"].(string)
			r.Classification, _ = row.Values["classification"].(string)
			r.ImagePath, _ = row.Values["image_path"].(string)
			if r.PromptID, _ = row.Values["prompt_id"].(string); r.PromptID == "" {
				return errors.New("prompt_id is empty")
			}
			if r.sample = sample("image", cell("image"), r.Prompt); !has("image") {
				if r.sample, err = pictureBeside(name, r); err != nil {
					return err
				}
			}
			pictures = append(pictures, r)
			return nil
		default:
			return fmt.Errorf("neither Pick-a-Pic's columns (caption, jpg_0, jpg_1, label_0, label_1) nor GenAI-Bench's (prompt, left_image, right_image, vote_type) nor ImageRewardDB's (prompt_id, prompt, rank, image or image_path): there are %s", strings.Join(row.Keys, ", "))
		}
		set.Pairs = append(set.Pairs, p)
		return nil
	})
	set.Pairs = append(set.Pairs, ratedPairs(pictures)...)
	if err != nil {
		err = errors.Join(err, t.Close())
	}
	return err
}

// pictureIn is the picture of a cell: its bytes, or the hub's pair of bytes and path.
func pictureIn(cell any) (*vision.Image, error) {
	if pair, ok := cell.(pytext.Ordered); ok {
		cell = pair.Values["bytes"]
	}
	data, ok := cell.([]byte)
	if !ok {
		return nil, errors.New("there is no picture")
	}
	return vision.Decode(data, vision.Limits{})
}
