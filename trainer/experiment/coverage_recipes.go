package experiment

// recipeCoverage is of recipes for vision-language models.
func recipeCoverage() []Covered {
	return []Covered{
		{System: "DeepEyes", Paper: "2025", Preset: "deepeyes", Keys: []string{`reward.0.name = "accuracy"`}, Note: "beside it format and tool-bonus"},
		{System: "DeepEyesV2", Paper: "2025", Keys: []string{`episode.protocol = "deepeyes_v2"`, `episode.exec.command = ["python3", "-"]`}, Note: "its searches as [[episode.tool]] search and image_search; its cold start as objective sft"},
		{System: "Mini-o3", Paper: "2025", Preset: "mini_o3", Keys: []string{`reward.0.name = "mini_o3"`}, Note: "its counts of groups by who was right are computed by parity alone; a ledger has episode.score_called and episode.score_direct"},
		{System: "VLM-R1", Paper: "2025", Keys: []string{`reward.0.name = "accuracy"`, `reward.0.rule = "grounding"`}, Note: "its other rules: darkroom list rules"},
		{System: "Visual-RFT", Paper: "2025", Keys: []string{`reward.0.name = "accuracy"`, `reward.0.rule = "detection"`}},
		{System: "NoisyRollout", Paper: "2025", Keys: []string{"episode.noisy.share = 0.5"}},
		{System: "Pixel Reasoner", Paper: "2025", Keys: []string{`episode.protocol = "pixel_reasoner"`, `reward.0.name = "tools"`}, Note: "clips as meta.clip; its bonus for curiosity about clips counts as of pictures"},
		{System: "PyVision-RL", Paper: "2026", Keys: []string{`episode.protocol = "pyvision"`, `episode.exec.command = ["python3", "-"]`}},
		{System: "Cold start by SFT, then RL", Paper: "Vision-R1, Chain-of-Focus, 2025", Keys: []string{`loss.objective = "sft"`, `rollout.lessons = "conversations.jsonl"`, "rollout.group = 1"}, Note: "as the first [[stage]], and clip as the second"},
		{System: "GRIT", Paper: "2025", Keys: []string{`reward.0.name = "format"`, `reward.0.rule = "think_box"`}, Note: "without its reward for the number of boxes"},
		{System: "OpenThinkIMG", Paper: "2025", Keys: []string{`episode.protocol = "darkroom"`}, Note: "models behind its tools as [[episode.tool]]"},
		{System: "Skywork R1V2", Paper: "2025", Keys: []string{"rollout.buffer.iterations = 4"}, Note: "its selective sample buffer, of whole groups; MPO is there (above)"},
		{System: "R1-VL (StepGRPO)", Paper: "2025", Keys: []string{`reward.0.name = "accuracy"`, `reward.0.rule = "key_steps"`}, Note: "its sum: rule final_answer + 0.1 key_steps + format's rule steps"},
		{System: "VRAG-RL", Paper: "2025", Keys: []string{`episode.protocol = "vrag"`, `episode.tool = [{ name = "search", url = "http://localhost:8002" }]`}, Note: "rules anls and ndcg, judge.form vrag; examples/environments has its search"},
		{System: "Video-R1", Paper: "2025", Keys: []string{`reward.0.name = "accuracy"`, "episode.clips.fps = 2", "rollout.group = 12", "episode.shuffled.share = 0.34"}, Note: "clips as meta.clip; its bonus for answers of 320 to 512 tokens is not there"},
		{System: "InternVL3.5", Paper: "2025", Why: "the model cannot be read; its GSPO and MPO are there (above)"},
		{System: "GLM-4.5V", Paper: "2025", Why: "the model cannot be read; its curriculum is rollout.curriculum"},
		{System: "HunyuanOCR", Paper: "2025", Why: "the model cannot be read; its rules anls and cer are there"},
		{System: "Visual Planning", Paper: "2025", Why: "no model answers in pictures"},
	}
}
