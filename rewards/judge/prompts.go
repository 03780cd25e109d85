package judge

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// The questions of published systems, word for word. {prompt} is replaced by the caption, question or instruction,
// {truth} and {answer} by the right answer and the given one; they are put in without escaping, as upstreams do, so a
// caption can try to talk to the judge.
//
//	flow_grpo_score      yifan123/flow_grpo, rewards.py: unifiedreward_score_sglang
//	mixgrpo_*            Tencent-Hunyuan/MixGRPO, unified_reward.py: QUESTION_TEMPLATE_SCORE, _SEMANTIC
//	pref_*               CodeGoat24/Pref-GRPO, fastvideo/rewards/templates.py (UnifiedReward)
//	editscore_*          VectorSpaceLab/EditScore 6e0f1b9, vie_prompts.py, with a range of 25
//	edit_r1_score        PKU-YuanGroup/Edit-R1 4217f25, reward_server/prompt_template.py
//	videoalign_special   KwaiVGI/VideoAlign, prompt_template.py: detailed_special of VQ, MQ, TA
//	vrag                 Alibaba-NLP/VRAG: the judge of answers
//	deepeyes_*           Visual-Agent/DeepEyes, vl_agent.py: judges of answers
//	hunyuan_*            Tencent-Hunyuan/HunyuanOCR, train_verl/reward/utils/prompt.py: judges of answers
//
//go:embed prompts/*.txt
var files embed.FS

// FillTemplate is a question with its blanks filled in.
func FillTemplate(template string, b Blanks) (string, error) {
	text, err := question(template)
	return b.in(text), err
}

// question is a question with its blanks.
func question(template string) (string, error) {
	text, err := fs.ReadFile(files, "prompts/"+template+".txt")
	if err != nil || strings.ContainsAny(template, `/\`) {
		return "", fmt.Errorf("no question is called %q: it is one of %s", template, strings.Join(Templates(), ", "))
	}
	return string(text), nil
}

// Blanks are the values that are put into a question.
type Blanks struct{ Prompt, Truth, Answer, Requirement, Conversation, Source, Language string }

// Words are the names of blanks in one's own question.
func Words() []string { return []string{"prompt", "truth", "answer", "conversation"} }

// in fills the blanks of a text.
func (b Blanks) in(text string) string {
	return strings.NewReplacer("{prompt}", b.Prompt, "{truth}", b.Truth, "{answer}", b.Answer, "{requirement}", b.Requirement,
		"{conversation}", b.Conversation, "{source}", b.Source, "{language}", b.Language).Replace(text)
}

// Templates are the names of all questions.
func Templates() []string {
	entries, _ := files.ReadDir("prompts") // embedded: it is there
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".txt"))
	}
	slices.Sort(names)
	return names
}
