package run

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// someRows are trained always: those whose way through the program no other test of this package takes.
var someRows = []string{"GFPO", "PPO", "ReMax", "KTO", "CHORD", "T-GRPO", "Visual-RFT", "R1-VL (StepGRPO)", "Guidance distillation", "Subject-driven RPO",
	"Layout by a detector", "Swiss tournaments of pairwise judges", "Gated rewards", "Reward ensembles"}

// untrained are the rows with needs that no test meets, each with the test that holds it elsewhere.
var untrained = map[string]string{
	"ImageReward":                      "weights of its own; its network is held by recorded cases",
	"veRL: rollouts by vLLM or SGLang": "an engine; trainer/conversations plays with one that errs",
	"FlashRL: quantised rollouts":      "an engine; trainer/conversations plays with one that errs",
}

// TestCoverage: every row of docs/coverage.md that a file can ask for is trained for an iteration on a small model of
// its kind, and moves the weights where the samples' rewards differ.
func TestCoverage(t *testing.T) {
	if testing.Short() {
		t.Skip("trains small models; left out by -short")
	}
	rows, moved := 0, 0
	server := httptest.NewServer(http.HandlerFunc(serves))
	defer server.Close()
	for _, c := range experiment.Coverage() {
		if c.Why != "" {
			continue
		}
		if why := untrained[c.System]; why != "" {
			t.Logf("%s is not trained: it needs %s", c.System, why)
			continue
		}
		if !*long && !slices.Contains(someRows, c.System) {
			continue
		}
		t.Run(c.System, func(t *testing.T) {
			rows++
			dir := t.TempDir()
			r, err := train(t, rowOf(t, c, server.URL), dir, false, 2, -1)
			if err != nil || r.Status != ledger.Finished {
				t.Fatalf("%+v, %v", r, err)
			}
			for _, l := range ledgerOf(t, dir) {
				if len(l.Updates) > 0 && l.Updates[0].Gradient > 0 {
					moved++
				} else {
					t.Logf("no gradient: %s", l.Passed)
				}
			}
		})
	}
	t.Logf("%d rows were trained, %d with a gradient", rows, moved)
	if !*long {
		t.Log("-long trains every row (make coverage)")
	}
	if rows >= len(someRows) && 10*moved < 7*rows {
		t.Errorf("of %d rows %d moved their weights", rows, moved)
	}
}

// serves is whatever a row has behind a URL: a server of rewards, a detector, a judge, a tool and an environment.
func serves(w http.ResponseWriter, r *http.Request) {
	var asked struct{ Items []json.RawMessage }
	text, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(text, &asked)
	n := len(text) % 7 // of the question, so that samples differ and a run has its bytes
	switch {
	case strings.HasPrefix(r.URL.Path, "/unified"):
		fmt.Fprintf(w, `{"choices": [{"message": {"content": "Alignment Score (1-5): %d\nCoherence Score (1-5): 3\nStyle Score (1-5): 3"}}]}`, 1+n%5)
	case strings.HasPrefix(r.URL.Path, "/think"):
		fmt.Fprintf(w, `{"choices": [{"message": {"content": "<answer>Image %d is better</answer>"}}]}`, 1+n%2)
	case strings.HasPrefix(r.URL.Path, "/question"):
		fmt.Fprintf(w, `{"choices": [{"message": {"content": "%d"}}]}`, n%2)
	case strings.HasPrefix(r.URL.Path, "/tool"):
		fmt.Fprint(w, `{"text": "a page", "reward": 0.5, "done": false}`)
	case strings.HasPrefix(r.URL.Path, "/detect"):
		fmt.Fprintf(w, `{"detections": [{"label": "cup", "box": [0, 0, %d, 9], "score": 0.9}]}`, 2+n)
	default:
		var scores []string
		for i := range asked.Items {
			scores = append(scores, fmt.Sprint(0.1*float64(i)))
		}
		fmt.Fprintf(w, `{"scores": [%s]}`, strings.Join(scores, ", "))
	}
}

// rowOf is the row as a file for a small model, with values in the place of its names in capitals and of files.
func rowOf(t *testing.T, c experiment.Covered, url string) *experiment.Experiment {
	t.Helper()
	spoken, keys := c.Area != "generators" && !c.Draws, strings.Join(c.Keys, "\n")
	has := func(word string) bool { return strings.Contains(keys, word) }
	model, form := tiny(t), "question"
	switch {
	case spoken:
		model = speaker(t)
	case has("unified"):
		form = "unified"
	case has("think"):
		form = "think"
	case has("aesthetic"): // whose towers know the embedded model's pictures
		model = whole
	}
	folder, pairs, labels := strings.TrimPrefix(model, "model.path="), "", ""
	if has(".jsonl") {
		pairs, labels = judgedFiles(t)
	}
	at := url
	if has(`"layout"`) {
		at += "/detect"
	}
	fill := strings.NewReplacer("TEACHER", folder, "pairs.jsonl", pairs, "answers.jsonl", labels, "conversations.jsonl", "embed:zoom-lessons",
		"http://localhost:8002", url+"/tool", "http://localhost:9000", at, `["python3", "-"]`, `['/bin/sh', '-c', 'read line; echo "{\"n\": 1, \"ready\": \"a shell\"}"']`,
		"episode.overlong.limit = 16384", "episode.overlong={limit=64, buffer=8}", "sampler.frames = 81", "sampler.frames = 5", "advantage.keep.of = 8", "advantage.keep.of = 2",
		`name = "ocr"`, `name = "scene"`)
	sets := []string{"run.iterations=1", "evaluate.prompts=''", "evaluate.every=0"}
	for _, k := range c.Keys {
		if has(`"judge"`) && strings.Contains(k, ".path") {
			k = `reward.0.url = "` + url + "/" + form + `"`
		}
		sets = append(sets, strings.ReplaceAll(fill.Replace(k), "FOLDER", "embed:tiny-clip"))
	}
	switch {
	case has("rollout.offline"):
		sets = append(sets, "rollout.prompts=embed:scene-pairs")
	case model == whole:
		sets = append(sets, "rollout.prompts=embed:scenes", "sampler.width=64", "sampler.height=64", "model.lora.targets=['attn.to_q']")
	case has(`"layout"`):
		sets = append(sets, "rollout.prompts="+askedOf(t, `"boxes": [{"label": "cup", "box": [0, 0, 9, 9]}]`))
	case has(`"judge"`) && spoken:
		sets = append(sets, "reward.0.judge.model=m")
	case has(`"grounding"`):
		sets = append(sets, "rollout.prompts="+askedOf(t, `"answer": "<answer>[1, 1, 9, 9]</answer>", "seen": [90, 90], "original": [90, 90]`))
	case has(`"detection"`):
		sets = append(sets, "rollout.prompts="+askedOf(t, `"answer": "<answer>[{'Position': [0, 0, 40, 40], 'Confidence': 1.0}]</answer>"`))
	case has(`"key_steps"`):
		sets = append(sets, "rollout.prompts="+askedOf(t, `"answer": "7", "key_steps": ["a", "<"]`))
	}
	if has("episode.protocol") && !has(`"darkroom"`) {
		sets = append(sets, "episode.tools=[]", "episode.tokens=2000")
	}
	if i := slices.IndexFunc(experiment.Presets(), func(p experiment.Preset) bool { return p.Name.Name == c.Preset }); i >= 0 {
		return smallOf(t, experiment.Presets()[i], sets...)
	}
	if !has("rollout.group") {
		sets = append(sets, "rollout.group=4")
	}
	sets = append(sets, model, "optim.lr=1e-3", "rollout.prompts_per_iteration=2")
	if spoken {
		return parseText(t, presetTalk, sets...)
	}
	return parseText(t, pictureOf("nowhere"), append(sets, "sampler.guidance=1", "sampler.steps=4")...)
}

// askedOf is a list of questions with a meta of their own.
func askedOf(t *testing.T, meta string) string {
	t.Helper()
	var rows []string
	for i := range 2 {
		rows = append(rows, fmt.Sprintf(`{"prompt": "what is there, %d?", "meta": {%s}}`, i, meta))
	}
	return lessonFile(t, rows...)
}
