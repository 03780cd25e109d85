package run

import (
	"encoding/json"
	"fmt"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/rigs/brief"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/pretrain"
)

const talking = `
[run]
name = "talking"
iterations = 3
[model]
path = "nowhere"
train = ['model\..*']
[episode]
system = "" # nobody has taught the model to read what tools do
protocol = "darkroom"
tools = ["zoom"]
turns = 2
turn_tokens = 16
tokens = 300
[rollout]
prompts = "embed:zoom"
prompts_per_iteration = 2
group = 4
[[reward]]
name = "accuracy"
[[reward]]
name = "calls"
[[reward]]
name = "look"
train = false
[loss]
clip_range = 0.2
kl = { weight = 0.01, estimator = "k3" }
[optim]
lr = 1e-3
updates = 2
[evaluate]
every = 3
[checkpoint]
every = 1
keep = 2
`

// speaker names a model of moments that knows how calls and answers are written, and no more.
func speaker(t *testing.T) string {
	t.Helper()
	dir, err := madeSpeaker()
	if err != nil {
		t.Fatal(err)
	}
	return "model.path=" + dir
}

// madeSpeaker makes it once for all tests; TestMain deletes it.
var madeSpeaker = sync.OnceValues(func() (string, error) {
	r := brief.Talker(80)
	path, err := isa.Choose()
	if err != nil {
		return "", err
	}
	be := cpu.NewWith(cpu.Options{Path: path})
	defer be.Close()
	dir := ownDir("speaker")
	return dir, pretrain.Run(&r, dir, pretrain.Hooks{Backend: be, Log: func(string) {}})
})

// ownDir is a folder of this process.
func ownDir(of string) string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("darkroom-%s-%d", of, os.Getpid()))
}

func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(ownDir("speaker"))
	os.RemoveAll(ownDir("tiny"))
	os.Exit(code)
}

// fewQuestions are some tables to evaluate on.
func fewQuestions(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "held.jsonl")
	var lines []string
	for i := range 3 {
		lines = append(lines, fmt.Sprintf(`{"prompt": "Which digit is on the red card?", "meta": {"picture": "embed:cards/%d", "answer": "7", "target": [0, 0, 90, 90]}}`, 20000+i))
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	return "evaluate.prompts=" + path
}

// TestEpisodesResume: a run of a model that speaks, stopped or killed and gone on with by another number of threads,
// leaves the bytes of one that never was: transcripts too, and the buffer's samples that are learned again.
func TestEpisodesResume(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a small model and trains it: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	questions, model, dir := fewQuestions(t), speaker(t), t.TempDir()
	const buffer = "rollout.buffer={iterations=2, groups=1}"
	whole := filepath.Join(dir, "whole")
	if r, err := train(t, parseText(t, talking, questions, model, buffer), whole, false, 2, -1); err != nil || r.Status != ledger.Finished {
		t.Fatalf("%v, %v", r, err)
	}
	want := contents(t, whole)
	for stop := 1; stop < 3; stop++ {
		parts := filepath.Join(dir, fmt.Sprint("parts", stop))
		if r, err := train(t, parseText(t, talking, questions, model, buffer), parts, false, 1, stop); err != nil || r.Status != ledger.Interrupted {
			t.Fatalf("%v, %v", r, err)
		}
		for _, name := range []string{"ledger.jsonl", "samples.jsonl", ledger.TranscriptsFile} { // as a killed process leaves them
			f, err := os.OpenFile(filepath.Join(parts, name), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			f.WriteString("{\"iteration\": 99}\n{\"ite")
			f.Close()
		}
		if r, err := train(t, parseText(t, talking, questions, model, buffer), parts, true, 2, -1); err != nil || r.Status != ledger.Finished {
			t.Fatalf("%v, %v", r, err)
		}
		same(t, fmt.Sprint("stopped after ", stop), want, contents(t, parts))
	}
	if !slices.ContainsFunc(ledgerOf(t, whole), func(l ledger.Line) bool {
		return l.Selection.Reused > 0 && l.Updates[0].RatioMost == 1 && l.Updates[0].Metrics["ratio_reused"] != 1
	}) {
		t.Error("no episode is learned from again by weights that have moved")
	}
	var first ledger.Line
	n := 0
	if err := folder.ReadLines(filepath.Join(whole, "ledger.jsonl"), func(text []byte) error {
		if n++; n > 1 {
			return nil
		}
		return json.Unmarshal(text, &first)
	}); err != nil {
		t.Fatal(err)
	}
	if u := first.Updates; len(u) != 2 || u[0].RatioMean != 1 || u[0].RatioMost != 1 || u[1].RatioMost == 1 {
		t.Errorf("ratios of the first updates: %+v", u)
	}
	if v, ok := first.Value("episode.tokens"); !ok || v <= 0 || first.Window != nil {
		t.Errorf("episodes of %v tokens, window %v", v, first.Window)
	}
	if err := folder.ReadLines(filepath.Join(whole, ledger.TranscriptsFile), func(text []byte) error {
		var l ledger.TranscriptLine
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
		for i, name := range l.Saw { // the pictures at the size that the transcript says
			file, err := os.Open(filepath.Join(whole, filepath.FromSlash(name)))
			if err != nil {
				return err
			}
			seen, err := png.DecodeConfig(file)
			file.Close()
			if shot := l.Episode.Shots[i]; err != nil || seen.Width != shot.ShownWidth || seen.Height != shot.ShownHeight {
				t.Errorf("%s has %d x %d pixels, and the model saw %d x %d: %v", name, seen.Width, seen.Height, shot.ShownWidth, shot.ShownHeight, err)
			}
		}
		if l.Iteration == 1 && l.Saw == nil {
			t.Error("what the model saw in the first iteration is not kept")
		}
		return l.Episode.Check(0, nil)
	}); err != nil {
		t.Error(err)
	}
}

// TestSpokenMethods: every objective and estimator of tokens that is not refused trains.
func TestSpokenMethods(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a small model and trains it: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	model := speaker(t)
	for _, sets := range [][]string{
		{"loss.objective=gspo", "loss.clip_range=3e-4", "loss.clip_high=4e-4", "loss.aggregate=seq-mean-token-mean"},
		{"loss.objective=gspo-mean"}, {"loss.objective=cispo"}, {"loss.objective=sapo"}, {"loss.objective=gpg"}, {"loss.objective=luspo"},
		{"loss.objective=gmpo", "loss.kl.weight=0"}, {"loss.objective=vespo"}, {"loss.objective=clip-cov"}, {"loss.objective=kl-cov"},
		{"advantage.estimator=dr", "loss.aggregate=seq-mean-token-sum-norm"}, {"advantage.estimator=leave-one-out"}, {"advantage.estimator=global"},
		{"advantage.estimator=reinforce++", "loss.kl.estimator=k2"}, {"advantage.estimator=reinforce++-baseline"}, {"advantage.estimator=opo"}, {"advantage.estimator=gpg"},
		{"loss.entropy_weight=0.01", "loss.entropy_share=0.5"}, {"loss.kl.reference=old"}, {"episode.silence=true"},
		{"model.train=lora", `model.lora={ rank = 4, alpha = 8, targets = ["q_proj", "v_proj"] }`}, {"preset=dapo"}, {"preset=drgrpo"},
		{"loss.correction.weights=token"},
		{"episode.protocol=pyvision", "episode.tools=[]", `episode.exec={ command = ['/bin/sh', '-c', 'read line; echo "{\"n\": 1, \"ready\": \"a shell\"}"'] }`},
		{"episode.protocol=vrag", "episode.tools=[]", "episode.tokens=2000"}, {"episode.protocol=vrag", "episode.tools=['bbox']", "episode.tokens=2000"},
	} {
		t.Run(strings.Join(sets, " "), func(t *testing.T) {
			all := append([]string{model, "run.iterations=1", "evaluate.every=0", "evaluate.prompts=''", "optim.updates=1", "rollout.prompts_per_iteration=1"}, sets...)
			if r, err := train(t, parseText(t, talking, all...), filepath.Join(t.TempDir(), "run"), false, 2, -1); err != nil || r.Status != ledger.Finished {
				t.Errorf("%v, %v", r, err)
			}
		})
	}
}

// TestSomeCompared: of a group the samples that advantage.keep leaves out have a score and no advantage, and move
// nothing; the others are learned from (GFPO).
func TestSomeCompared(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a small model and trains it: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	model := speaker(t)
	for _, sets := range [][]string{
		{"advantage.keep={of=2, by='length'}"}, {"advantage.keep={of=3, by='efficiency'}", "advantage.estimator=global"},
		{"advantage.keep={of=2, by='length'}", "advantage.estimator=reinforce++-baseline"}, {"advantage.keep={of=2, by='length'}", "advantage.filter={by='unequal'}"},
	} {
		dir, e := filepath.Join(t.TempDir(), "run"), parseText(t, talking, append([]string{model, "evaluate.every=0", "evaluate.prompts=''", "rollout.prompts_per_iteration=4"}, sets...)...)
		if r, err := train(t, e, dir, false, 2, -1); err != nil || r.Status != ledger.Finished {
			t.Errorf("%v: %v, %v", sets, r, err)
			continue
		}
		moved := false
		for _, l := range ledgerOf(t, dir) {
			if c := l.Selection; c == nil || c.Learned > 4*e.Advantage.Keep.Of {
				t.Errorf("%v: iteration %d learned from %+v", sets, l.Iteration, c)
			}
			moved = moved || len(l.Updates) > 0 && l.Updates[0].Gradient > 0
		}
		if !moved {
			t.Errorf("%v: nothing was learned", sets)
		}
	}
}

// TestProgramNotHere: that the model's code cannot be run is said before anything is opened, with
// the remedy.
func TestProgramNotHere(t *testing.T) {
	_, err := train(t, parseText(t, talking, "episode.protocol=pyvision", "episode.tools=[]", "episode.exec={ command = ['no-such-sandbox', '-'] }", fewQuestions(t)), filepath.Join(t.TempDir(), "run"), false, 1, -1)
	if err == nil || !strings.Contains(err.Error(), "no-such-sandbox") || !strings.Contains(err.Error(), "bwrap") {
		t.Errorf("%v", err)
	}
}

// TestToldEpisodes: the instructions for tools are in the manifest, and its episodes begin with them; a prompt that
// leaves no token for an answer makes its episodes missing, and says so.
func TestToldEpisodes(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a small model and rolls it: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	text := strings.Replace(talking, "system = \"\"", "#", 1)
	dir := filepath.Join(t.TempDir(), "run")
	sets := []string{fewQuestions(t), speaker(t), "run.iterations=1", "evaluate.every=0", "evaluate.prompts=''", "episode.turns=1", "advantage.all_dead=train"}
	if r, err := train(t, parseText(t, text, append(sets, "episode.tokens=6000")...), dir, false, 2, -1); err != nil || r.Status != ledger.Finished {
		t.Fatalf("%v, %v", r, err)
	}
	var m Manifest
	written, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(written, &m); err != nil || m.Instructions == nil || !strings.Contains(m.Instructions.System, `"name": "zoom"`) {
		t.Errorf("the manifest's instructions: %+v, %v", m.Instructions, err)
	}
	told, ok := ledgerOf(t, dir)[0].Value("episode.tokens")
	if !ok || told <= 0 {
		t.Errorf("told episodes say %v tokens", told)
	}
	dir = filepath.Join(t.TempDir(), "run")
	_, err = train(t, parseText(t, text, append(sets, "episode.tokens=300")...), dir, false, 2, -1)
	if err == nil || !strings.Contains(err.Error(), "nothing was learned") {
		t.Fatalf("a run whose prompts leave no token for an answer: %v", err)
	}
	if err := folder.ReadLines(filepath.Join(dir, "samples.jsonl"), func(line []byte) error {
		if !strings.Contains(string(line), "episode.tokens = 300 leaves none for an answer") {
			t.Errorf("a prompt that is too long: %s", line)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// testStems: a run whose episodes grow on trees compares them among their prompt's and among their tree's.
func testStems(t *testing.T, model string) {
	run := filepath.Join(t.TempDir(), "run")
	e := parseText(t, talking, model, "run.iterations=1", "rollout.group=6", "episode.tree={}", "advantage.estimator=dr", "evaluate.every=0", "evaluate.prompts=''",
		"optim.updates=1", "loss.kl.weight=0", "advantage.all_dead=train")
	if _, err := train(t, e, run, false, 2, -1); err != nil {
		t.Fatal(err)
	}
	var b advantage.Batch
	var trees []int
	var totals, said []float64
	if err := folder.ReadLines(filepath.Join(run, "samples.jsonl"), func(text []byte) error {
		var l ledger.SampleLine
		err := json.Unmarshal(text, &l)
		b.Groups, trees = append(b.Groups, l.Prompt), append(trees, 2*l.Prompt+l.Sample/3)
		totals, said = append(totals, *l.Total), append(said, *l.Advantage)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	b.Rewards = [][]float64{totals}
	want, _, err := e.Estimator().InTrees(b, trees)
	if err != nil || len(said) != 12 {
		t.Fatalf("%d samples, %v", len(said), err)
	}
	differ := false
	for i := range want {
		differ = differ || totals[i] != totals[0]
		if math.Abs(said[i]-want[i]) > 1e-12 {
			t.Errorf("sample %d has advantage %v, want %v", i, said[i], want[i])
		}
	}
	if !differ {
		t.Error("all totals are equal: nothing was tried")
	}
}

// testGuided: a run whose groups are given the beginning of solutions gives as much as the rule says of its own scores,
// and one that was stopped within a round of iterations goes on with the same bytes.
func testGuided(t *testing.T, model string) {
	sets := []string{model, "run.iterations=4", "rollout.prompts=embed:zoom-solved", "evaluate.every=0", "evaluate.prompts=''", "optim.updates=1", "loss.kl.weight=0", "advantage.all_dead=train",
		`episode.guided={share=0.5, tokens=6, most=12, every=2, reward="calls"}`}
	whole, parts := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "parts")
	for _, r := range []struct {
		dir    string
		resume bool
		stop   int
	}{{whole, false, -1}, {parts, false, 1}, {parts, true, 3}, {parts, true, -1}} {
		e := parseText(t, talking, sets...)
		if _, err := train(t, e, r.dir, r.resume, 2, r.stop); err != nil {
			t.Fatal(err)
		}
	}
	same(t, "stopped behind iterations 1 and 3", contents(t, whole), contents(t, parts))
	g := *parseText(t, talking, sets...).Episode.Guided
	k := g.New()
	for _, l := range readLedger(t, whole) {
		if want := float64(k.Tokens) * g.Share; l.Episodes["given"] != want { // solutions are longer
			t.Errorf("iteration %d: %v tokens were given, want %v", l.Iteration, l.Episodes["given"], want)
		}
		g.Learn(k, l.Rewards["calls"].Mean)
	}
	if k.Tokens == g.Tokens {
		t.Errorf("the number stayed at %d: nothing was tried", k.Tokens)
	}
}

// TestGuidedAhead: an iteration to come, which run.lag has workers roll, gives as much as it will.
func TestGuidedAhead(t *testing.T) {
	e := parseText(t, talking, "model.path=embed:tiny-vlm", "rollout.prompts=embed:zoom-solved", "evaluate.every=0", "evaluate.prompts=''", "run.lag=1", "loss.kl.weight=0",
		`episode.guided={share=0.5, tokens=6, most=12, every=0}`)
	list, err := e.Training(nil)
	if err != nil {
		t.Fatal(err)
	}
	run := &loop{Experiment: e, train: list, selection: newSelection(e, list)}
	for i := range 2 {
		if p, err := run.planned(i); err != nil || p.Settings.Given != 6 || len(p.Keys) == 0 {
			t.Errorf("iteration %d: %d tokens, %d samples, %v", i, p.Settings.Given, len(p.Keys), err)
		}
	}
}
