package prompts

import (
	_ "embed"
	"strings"
)

// The lists of published experiments: animals are a part of the program, others are fetched from their sources.

// animalNames are the 398 animals among the 1,000 classes of ImageNet, in their order: names of WordNet, as
// torchvision (BSD 3-Clause) shortens them. DDPO trains on these 398.
//
//go:embed animals.txt
var animalNames string

func animals() []Prompt {
	list, err := plain(animalNames)
	if err != nil {
		panic(err) // an embedded list can be read
	}
	return list
}

// A Source is where a published list of prompts is to be had.
type Source struct {
	folder string // the paths of recipes begin with it, or are it
	Fetch  string // commands; "" without one
	Note   string // instead of a command, or beside it
}

var sources = []Source{
	{"flow_grpo/dataset/counting_edit/", "git clone --depth 1 https://github.com/yifan123/flow_grpo", "pictures: generated_images.zip of the data set jieliu/counting_edit on Hugging Face, unpacked there"},
	{"flow_grpo/", "git clone --depth 1 https://github.com/yifan123/flow_grpo", ""},
	{"Flow-Factory/", "git clone --depth 1 https://github.com/X-GenGroup/Flow-Factory", ""},
	{"DanceGRPO/", "git clone --depth 1 https://github.com/XueZeyue/DanceGRPO", ""},
	{"edit-r1-dataset/", "", "pictures and edits of yours, in the form that github.com/PKU-YuanGroup/Edit-R1 describes"},
	{"pick-a-pic/", "", "pairs of the data set yuvalkirstain/pickapic_v2 on Hugging Face, a line each: {\"prompt\", \"a\", \"b\", \"better\"}"},
	{"pictures", "", "a folder of yours: NAME.png, or .jpg, .webp, and its caption in NAME.txt beside it"},
	{"deepeyes/", "", "the data set ChenShawn/DeepEyes-Datasets-47k on Hugging Face, whose Parquet files are read as they are"},
}

// SourceOf is the source of a recipe's list.
func SourceOf(path string) (Source, bool) {
	for _, s := range sources {
		if path == s.folder || strings.HasSuffix(s.folder, "/") && strings.HasPrefix(path, s.folder) {
			return s, true
		}
	}
	return Source{}, false
}

// Hint is the way to the list, for an error.
func (s Source) Hint() string {
	switch {
	case s.Fetch == "":
		return s.Note
	case s.Note == "":
		return "'" + s.Fetch + "' fetches it"
	}
	return "'" + s.Fetch + "' fetches it; " + s.Note
}
