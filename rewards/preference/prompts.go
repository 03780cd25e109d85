package preference

import (
	_ "embed" // the published texts
	"fmt"
	"strings"
)

//go:embed prompts/videoreward_detailed.txt
var detailed string

//go:embed prompts/videoreward_detailed_special.txt
var detailedSpecial string

//go:embed prompts/hpsv3.txt
var hpsv3 string

//go:embed prompts/editreward_following.txt
var editFollowing string

//go:embed prompts/editreward_quality.txt
var editQuality string

// Tokens that stand for the answers. They are added after the tokenizer's own, in this order.
var (
	VideoTokens   = []string{"<|VQ_reward|>", "<|MQ_reward|>", "<|TA_reward|>"}
	PictureTokens = []string{"<|Reward|>"}
)

// axis is a dimension as VideoAlign's short prompts name it.
type axis struct{ name, what string }

func axisOf(dimensions []string) (axis, error) {
	switch strings.Join(dimensions, ",") {
	case "VQ":
		return axis{"visual quality", "the quality of the video in terms of clearness, resolution, brightness, and color"}, nil
	case "MQ":
		return axis{"motion quality", "the quality of the motion in terms of consistency, smoothness, and completeness"}, nil
	case "TA":
		return axis{"text-to-video alignment", "the alignment between the text prompt and the video content and motion"}, nil
	case "Overall":
		return axis{"Overall Performance", "the overall performance of the video in terms of visual quality, text-to-video alignment, and motion quality"}, nil
	}
	if len(dimensions) < 2 {
		return axis{}, fmt.Errorf("dimension %q is not known; VQ, MQ, TA and Overall are", strings.Join(dimensions, ""))
	}
	var names []string
	for _, d := range dimensions {
		one, err := axisOf([]string{d})
		if err != nil {
			return axis{}, err
		}
		names = append(names, one.name)
	}
	return axis{"overall performance(" + strings.Join(names, ", ") + ")", "the overall performance of the video"}, nil
}

// VideoPrompt is VideoReward's question about a clip of a prompt. Published checkpoints have the template
// detailed_special.
func VideoPrompt(template, prompt string, dimensions ...string) (string, error) {
	switch template {
	case "none":
		return prompt, nil
	case "detailed":
		return strings.Replace(detailed, "{prompt}", prompt, 1), nil
	case "detailed_special":
		return strings.Replace(detailedSpecial, "{prompt}", prompt, 1), nil
	}
	a, err := axisOf(dimensions)
	if err != nil {
		return "", err
	}
	used := "The text prompt used for generation is \"" + prompt + "\".\n"
	switch template {
	case "simple":
		return "\nPlease evaluate the " + a.name + " of a generated video. Consider " + a.what + ".\n" + used, nil
	case "video_score":
		return "\nSuppose you are an expert in judging and evaluating the quality of AI-generated videos,\n" +
			"please watch the frames of a given video and see the text prompt for generating the video,\n" +
			"then give scores based on its " + a.name + ", i.e., " + a.what + ".\n" +
			"Output a float number from 1.0 to 5.0 for this dimension,\n" +
			"the higher the number is, the better the video performs in that sub-score,\n" +
			"the lowest 1.0 means Bad, the highest 5.0 means Perfect/Real (the video is like a real video).\n" + used, nil
	}
	return "", fmt.Errorf("template %q is not known; none, simple, video_score, detailed and detailed_special are", template)
}

// PicturePrompt is HPSv3's question about a picture of a prompt.
func PicturePrompt(prompt string) string { return strings.Replace(hpsv3, "{prompt}", prompt, 1) }

// EditPrompts are the two questions of EditReward about an edit that a text asked for.
func EditPrompts(prompt string) [2]string {
	return [2]string{strings.Replace(editFollowing, "{prompt}", prompt, 1), strings.Replace(editQuality, "{prompt}", prompt, 1)}
}

// PlainPicturePrompt is upstream's question without a reward token: by a slip without instruction and prompt.
func PlainPicturePrompt() string { return "\nPlease provide the overall ratings of this image: \n" }
