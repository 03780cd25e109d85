package experiment

import (
	"maps"
	"slices"
)

// A RewardKind is what [[reward]] may name. judges.Open has how each is opened, and a test that both have
// the same names.
type RewardKind struct {
	Name
	Pictures, Clips, Replies bool // what it judges

	Scenes   bool // without a url, knows the program's own scenes alone
	Edits    bool // of those scenes, judges edits, of half the side and more (rewards.SceneEdit)
	Weights  bool // is a network, whose folder path names
	Sloped   bool // says how pixels change it
	Prompted bool // reads a prompt as a description, so that it takes control words
	Averages bool // is the mean over a clip's frames by itself
	Unit     bool // a score lies between 0 and 1

	toy    string // what it is where no path is written, and is no more than a stand-in for tests
	remedy string // what to write for the real one
}

// TinyCLIP is the embedded stand-in for towers.
const TinyCLIP = embedPrefix + "tiny-clip"

// embedPrefix is what names of the program's own models and prompts begin with.
const embedPrefix = "embed:"

// Toy says what the reward is where it is a stand-in that knows nothing but the program's own pictures; "" of others.
func (r Reward) Toy() string {
	k, _ := RewardNamed(r.Name)
	if r.Path == "" || r.Path == TinyCLIP {
		return k.toy
	}
	return ""
}

// Bounds are the least and the most that a score can be, where that is known.
func (r Reward) Bounds() (low, high float64, known bool) {
	k, _ := RewardNamed(r.Name)
	rules := append(slices.Collect(maps.Values(r.Rules)), r.Rule)
	switch {
	case !k.Unit || r.Relative != nil || slices.Contains(rules, "weighted"):
		return 0, 0, false
	case slices.Contains(rules, "giou"):
		return 0, 2, true
	case slices.Contains(rules, "dapo"):
		return -1, 1, true
	}
	return 0, 1, true
}

// counted is Bounds of what is combined: the score behind its scale and its gate.
func (r Reward) counted() (low, high float64, known bool) {
	low, high, known = r.Bounds()
	switch s := r.Scale; {
	case s.Kind == "batch":
		return 0, 0, false
	case s.Kind == "range" && s.Clamp && !known:
		low, high, known = 0, 1, true
	case s.Kind == "range":
		low, high = (low-s.Low)/(s.High-s.Low), (high-s.Low)/(s.High-s.Low)
		if s.Clamp {
			low, high = min(max(low, 0), 1), min(max(high, 0), 1)
		}
	}
	if r.Gate.By != "" {
		low, high = min(low, r.Gate.Else), max(high, r.Gate.Else)
	}
	return low, high, known
}

// Rewards are all there are.
func Rewards() []RewardKind {
	const towers = "an embedded toy (embed:tiny-clip), which knows nothing but the program's own drawings of 64 x 64 pixels"
	const reader = "a toy reader, which knows nothing but the words in the program's own drawings of 64 x 64 pixels"
	return []RewardKind{
		{Name: Name{Name: "layout", Card: "Objects where the prompt says: those of embedded scenes, or, by a detector at url, where meta.boxes says."}, Pictures: true, Scenes: true},
		{Name: Name{Name: "geneval", Card: "GenEval: the objects that the prompt's meta.geneval asks for, their number, colours and places, by a detector at url; path names a CLIP that says colours."}, Pictures: true, Unit: true},
		{Name: Name{Name: "scene", Card: "The embedded task: objects and words as the caption says, in crisp colours."}, Pictures: true, Scenes: true, Unit: true},
		{Name: Name{Name: "background", Card: "Share of an embedded scene's background that has the colour asked for."}, Pictures: true, Scenes: true, Unit: true},
		{Name: Name{Name: "shade", Card: "How near an embedded scene's background is to the colour asked for: 1 at it, 0 at the nearest other background's."}, Pictures: true, Scenes: true, Unit: true},
		{Name: Name{Name: "edit", Card: "Edits of embedded scenes: how well what the prompt asks for is done, times the share of everything else that is as it was, the mean of the other object's and the ground's; meta.scene is the caption of the picture before."}, Pictures: true, Scenes: true, Edits: true, Unit: true},
		{Name: Name{Name: "edit_done", Card: "The first half of edit alone: whether what the prompt asks for is done, whatever becomes of the rest; drawing everything anew games it."}, Pictures: true, Scenes: true, Edits: true, Unit: true},
		{Name: Name{Name: "edit_kept", Card: "The second half of edit alone: the share of the other object, and of the ground, that is as it was; changing nothing games it."}, Pictures: true, Scenes: true, Edits: true, Unit: true},
		{Name: Name{Name: "preserve", Card: "How much of the picture that a sample was made of is left, outside the boxes of meta.changes: structural similarity, or the mean difference; use it beside a reward for the change."}, Pictures: true},
		{Name: Name{Name: "likeness", Card: "Cosine of DINO's features of a sample and of the picture that it was made of: as a whole, patch by patch (LPIPS's form) or of a subject."}, Pictures: true, Weights: true},
		{Name: Name{Name: "direction", Card: "Whether a picture changed as the texts did: cosine of the way from source to sample with that from meta.source to meta.target, by CLIP."}, Pictures: true, Weights: true},
		{Name: Name{Name: "ocr", Card: "Words that can be read in the picture, against those asked for: drawn ones, or with path = \"tesseract\" others."}, Pictures: true, Averages: true, toy: reader, remedy: `write path = "tesseract" (Debian: tesseract-ocr)`},
		{Name: Name{Name: "clip", Card: "Cosine of CLIP's features of picture and prompt; path holds its weights, and without it an embedded toy judges the embedded models' drawings."}, Pictures: true, Averages: true, Weights: true, Sloped: true, Prompted: true, toy: towers, remedy: `for example path = "models/clip"; path = "embed:tiny-clip" takes the toy`},
		{Name: Name{Name: "aesthetic", Card: "A head on CLIP's features that predicts how much people like a picture; path holds its weights, and without it an embedded toy judges the embedded models' drawings."}, Pictures: true, Averages: true, Weights: true, Sloped: true, toy: towers, remedy: `for example path = "models/aesthetic"; path = "embed:tiny-clip" takes the toy`},
		{Name: Name{Name: "pickscore", Card: "PickScore: a CLIP trained on people's choices."}, Pictures: true, Averages: true, Weights: true, Sloped: true, Prompted: true},
		{Name: Name{Name: "hpsv2", Card: "Human Preference Score v2."}, Pictures: true, Averages: true, Weights: true, Sloped: true, Prompted: true},
		{Name: Name{Name: "imagereward", Card: "ImageReward: a BLIP that reads the prompt while it looks; path holds its weights as safetensors, med_config.json and BERT's tokenizer."}, Pictures: true, Averages: true, Weights: true, Sloped: true, Prompted: true},
		{Name: Name{Name: "hpsv3", Card: "HPSv3: a Qwen2-VL that says how much people like a picture of a prompt; path holds HPSv3.safetensors beside Qwen2-VL's settings."}, Pictures: true, Weights: true, Sloped: true, Prompted: true},
		{Name: Name{Name: "editreward", Card: "EditReward: a Qwen2.5-VL that judges an edit by the pictures before and after, whether its text was followed and how good it looks; path holds its checkpoint as safetensors beside Qwen2.5-VL's settings."}, Pictures: true, Weights: true},
		{Name: Name{Name: "videoreward", Card: "VideoReward (VideoAlign): a Qwen2-VL that judges a clip's looks, its motion and how it fits the prompt; path holds it as published, with checkpoint-N/model.pth, or as safetensors with its adapter merged."}, Clips: true, Weights: true, Prompted: true},
		{Name: Name{Name: "dino", Card: "DINO: how constant the subject of a clip is (VBench's subject_consistency); still clips game it."}, Clips: true, Weights: true},
		{Name: Name{Name: "backdrop", Card: "CLIP: how constant a clip's background is (VBench's background_consistency, whose CLIP is ViT-B/32); still clips game it."}, Clips: true, Weights: true},
		{Name: Name{Name: "jpeg", Card: "Size as a JPEG: the simplest reward there is (DDPO)."}, Pictures: true},
		{Name: Name{Name: "sharpness", Card: "Statistics of edges and colours."}, Pictures: true},
		{Name: Name{Name: "motion", Card: "True motion of a clip, 0 to 1: enough optical flow, steady, and confirmed by the frames; known tricks do not game it."}, Clips: true, Unit: true},
		{Name: Name{Name: "heading", Card: "Whether a clip moves where its prompt asks, and as fast: the caption of a moving scene, or meta.motion = [x, y] in pixels a frame; known tricks do not game it."}, Clips: true, Unit: true},
		{Name: Name{Name: "thing", Card: "Whether each frame of an embedded clip shows what its caption names: colour, shape and background, wherever it is; how it moves is heading's."}, Pictures: true, Unit: true},
		{Name: Name{Name: "magnitude", Card: "Mean optical flow of a clip, in pixels; noise and cuts game it: use it together with motion."}, Clips: true},
		{Name: Name{Name: "dynamic", Card: "VBench's dynamic degree: 1 if a clip moves, else 0; noise and cuts game it."}, Clips: true, Unit: true},
		{Name: Name{Name: "flicker", Card: "VBench's temporal flickering: 1 where nothing changes; still clips game it."}, Clips: true},
		{Name: Name{Name: "smooth", Card: "VBench's motion smoothness, interpolated by averaging; still clips game it."}, Clips: true},
		{Name: Name{Name: "warp", Card: "Minus the warping error of a clip; still clips game it."}, Clips: true},
		{Name: Name{Name: "format", Card: "An answer in the form that was asked for."}, Replies: true, Unit: true},
		{Name: Name{Name: "accuracy", Card: "An answer that is right."}, Replies: true, Unit: true},
		{Name: Name{Name: "tools", Card: "Right answers, with a bonus for groups that seldom call a tool, and a price for every further call (Pixel-Reasoner)."}, Replies: true},
		{Name: Name{Name: "look", Card: "1 where a crop shows what the prompt's meta.target says: at least four fifths of it, in at most half of the picture's sides."}, Replies: true, Unit: true},
		{Name: Name{Name: "tool-bonus", Card: "1 for a right answer after a picture that a tool gave back (the conditional part of DeepEyes's reward)."}, Replies: true, Unit: true},
		{Name: Name{Name: "calls", Card: "How near the number of calls is to the prompt's meta.calls, 1 where it has none."}, Replies: true, Unit: true},
		{Name: Name{Name: "environment", Card: "What the episode's environments say at its end ([[episode.tool]] state = true), added up."}, Replies: true},
		{Name: Name{Name: "repetition", Card: "What a reply says again: minus the share of words or tokens that came before (VLM-R1, TRL)."}, Replies: true},
		{Name: Name{Name: "language", Card: "Share of a reply that is in the language of the prompt, or that meta.language names, thoughts included (DeepSeek-R1)."}, Replies: true, Unit: true},
		{Name: Name{Name: "length", Card: "A reply's length along half a cosine: short right answers are worth more, and long wrong ones (VLM-R1)."}, Replies: true},
		{Name: Name{Name: "mini_o3", Card: "The letter, the form of every turn and the price of tools together (Mini-o3)."}, Replies: true},
		{Name: Name{Name: "judge", Card: "A vision-language model's opinion, over an OpenAI-compatible API or from a local folder."}, Pictures: true, Clips: true, Replies: true, Prompted: true},
		{Name: Name{Name: "http", Card: "A server that speaks the documented protocol."}, Pictures: true, Clips: true, Replies: true, Prompted: true},
		{Name: Name{Name: "exec", Card: "A program that speaks JSON lines."}, Pictures: true, Clips: true, Replies: true, Prompted: true},
	}
}

// RewardNamed is the reward of a name.
func RewardNamed(name string) (RewardKind, bool) {
	all := Rewards()
	i := slices.IndexFunc(all, func(r RewardKind) bool { return r.Name.Name == name })
	if i < 0 {
		return RewardKind{}, false
	}
	return all[i], true
}

// rewardsThat are the names of some rewards.
func rewardsThat(is func(RewardKind) bool) (names []string) {
	for _, r := range Rewards() {
		if is(r) {
			names = append(names, r.Name.Name)
		}
	}
	return names
}

// Framed reports whether a judge of pictures is asked about each frame of a clip.
func (r Reward) Framed() bool {
	k, _ := RewardNamed(r.Name)
	return r.Frames != "" || r.Every > 0 || k.Pictures && !k.Clips && !k.Averages
}

// Judges are what a reward judges: "pictures", "clips", "replies". What judges pictures judges a clip by its frames.
func Judges(reward string) (subjects []string) {
	k, _ := RewardNamed(reward)
	for _, s := range []struct {
		is   bool
		name string
	}{{k.Pictures, "pictures"}, {k.Clips || k.Pictures, "clips"}, {k.Replies, "replies"}} {
		if s.is {
			subjects = append(subjects, s.name)
		}
	}
	return subjects
}
