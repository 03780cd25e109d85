package experiment

import (
	"bytes"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// least is a file with nothing but the required keys.
const least = `[run]
name = "x"
iterations = 40
[model]
path = "embed:tiny"
[rollout]
prompts = "embed:scenes"
[[reward]]
name = "jpeg"
`

// parse reads a text that is right. In an episode least has a reward of replies.
func parse(t *testing.T, text string, sets ...string) *Experiment {
	t.Helper()
	spoken := strings.Contains(text+strings.Join(sets, " "), "episode")
	for _, p := range Presets() {
		spoken = spoken || strings.Contains(text, fmt.Sprintf("preset = %q", p.Name.Name)) && strings.Contains(p.Text, "[episode]")
	}
	if spoken {
		text = strings.Replace(text, `name = "jpeg"`, `name = "format"`, 1)
	}
	e, err := Parse("a.toml", []byte(text), sets)
	if err != nil {
		t.Fatalf("%v\nin %s with %s", err, text, sets)
	}
	return e
}

// TestGood reads every good file, plans it, and reads its written form back.
func TestGood(t *testing.T) {
	files, _ := filepath.Glob("testdata/good/*.toml")
	if len(files) < 5 {
		t.Fatalf("only %d files", len(files))
	}
	for _, f := range files {
		e, err := Read(f, nil)
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := e.Plan(); err != nil {
			t.Errorf("%s: %v", f, err)
		}
		roundTrip(t, e)
	}
}

// roundTrip: the resolved file says the same as the file.
func roundTrip(t *testing.T, e *Experiment) {
	t.Helper()
	var b bytes.Buffer
	if err := e.Write(&b); err != nil {
		t.Fatal(err)
	}
	again := parse(t, b.String())
	e.doc, e.given, again.doc, again.given = nil, nil, nil, nil
	if !reflect.DeepEqual(e, again) {
		t.Errorf("got %+v\nwant %+v\nthrough\n%s", again, e, b.String())
	}
}

// TestPresets: every preset is understood, makes a plan, and is written back.
func TestPresets(t *testing.T) {
	for _, p := range Presets() {
		if p.Card == "" {
			t.Errorf("%s has no card", p.Name.Name)
		}
		text := fmt.Sprintf("preset = %q\n", p.Name.Name) + least
		if strings.Contains(p.Card, "for tokens") {
			text += "[episode]\n"
		}
		e := parse(t, text)
		if _, err := e.Plan(); err != nil {
			t.Errorf("%s: %v", p.Name.Name, err)
		}
		checkSetKeys(t, p, e)
		roundTrip(t, e)
	}
}

// checkSetKeys: a preset's keys are the experiment's.
func checkSetKeys(t *testing.T, p Preset, e *Experiment) {
	t.Helper()
	own := partial{&Model{}, &Sampler{}, &Rollout{}, &Advantage{}, &Loss{}, nil, nil, nil}
	d := config.ParseFragment(p.Name.Name, []byte(p.Text))
	d.Decode("", &own)
	if err := d.Err(); err != nil {
		t.Error(err)
	}
	if d.Text("loss.objective") != e.Loss.Objective || own.Sampler.Steps != 0 && own.Sampler.Steps != e.Sampler.Steps {
		t.Errorf("%s is not what became of it", p.Name.Name)
	}
}

// TestOrder: defaults, the file's preset, a table's preset, the file, --set.
func TestOrder(t *testing.T) {
	e := parse(t, "preset = \"dance\"\n"+least+"[loss]\npreset = \"drgrpo\"\nclip_high = 0.3\n[advantage]\nestimator = \"dr\"\n", "sampler.steps=20")
	if e.Sampler.Solver != "dance" || e.Sampler.Steps != 20 || e.Loss.ClipRange != 0.2 || e.Loss.ClipHigh != 0.3 || e.Optim.LR != 3e-4 {
		t.Errorf("%+v", e)
	}
	if e.Advantage.Scale != "none" || e.Advantage.Clip != 5 {
		t.Errorf("an estimator's name is stronger than the preset's: %+v", e.Advantage)
	}
	var b bytes.Buffer
	if err := e.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`steps = 20 +# --set`, `solver = "dance" +# preset dance`, `clip_range = 0.2 +# preset drgrpo`, `clip_high = 0.3$`, `eval_steps = 28 +# default`} {
		if !matches(line, b.String()) {
			t.Errorf("no line %q in\n%s", line, b.String())
		}
	}
}

// TestWindowNames: the cards of windows are of the kinds that there are.
func TestWindowNames(t *testing.T) {
	f, _ := reflect.TypeFor[sde.WindowOptions]().FieldByName("Kind")
	var names []string
	for _, n := range sde.Windows() {
		names = append(names, n.Name)
	}
	if got := strings.Join(names, ","); got != f.Tag.Get("enum") {
		t.Errorf("%s, but sde has %s", got, f.Tag.Get("enum"))
	}
	f, _ = reflect.TypeFor[sde.TreeOptions]().FieldByName("Kind")
	names = nil
	for _, k := range sde.TreeKinds() {
		names = append(names, k.Name)
	}
	if got := strings.Join(names, ","); got != f.Tag.Get("enum") {
		t.Errorf("trees %s, but sde has %s", got, f.Tag.Get("enum"))
	}
	f, _ = reflect.TypeFor[loss.Correction]().FieldByName("Weights")
	names = nil
	for _, l := range loss.CorrectionLevels() {
		names = append(names, l.Name)
	}
	if got := strings.Join(names, ","); got != f.Tag.Get("enum") {
		t.Errorf("corrections %s, but [loss.correction] has %s", got, f.Tag.Get("enum"))
	}
	f, _ = reflect.TypeFor[Loss]().FieldByName("Mode")
	names = nil
	for _, n := range Aggregations() {
		names = append(names, n.Name)
	}
	if got := strings.Join(names, ","); got != f.Tag.Get("enum") {
		t.Errorf("%s, but [loss] has %s", got, f.Tag.Get("enum"))
	}
}

// TestNames: every name has a card, and occurs once in its section; an ambiguous name is not in a section.
func TestNames(t *testing.T) {
	for _, s := range Sections() {
		seen := map[string]bool{}
		for _, n := range s.Has {
			if n.Card == "" || seen[n.Name] {
				t.Errorf("%s: %q has no card, or is there twice", s.Name, n.Name)
			}
			seen[n.Name] = true
			if _, ok := find(Ambiguous(), n.Name); ok && s.Name != "ambiguous" {
				t.Errorf("%s: %q is ambiguous", s.Name, n.Name)
			}
		}
	}
}

// TestAmbiguous: a name of several methods is refused wherever a method is named, however it is written, with the
// hint of darkroom list ambiguous.
func TestAmbiguous(t *testing.T) {
	for _, n := range Ambiguous() {
		for _, key := range []string{"preset", "sampler.preset", "advantage.preset", "loss.preset", "sampler.solver", "sampler.outside", "sampler.eval_solver", "sampler.schedule.kind", "advantage.estimator", "loss.objective", "loss.kl.estimator"} {
			for _, name := range []string{n.Name, strings.ToUpper(n.Name)} {
				_, err := Parse("a.toml", []byte(least), []string{fmt.Sprintf("%s=%q", key, name)})
				if err == nil {
					t.Errorf("%s = %q passes", key, name)
					continue
				}
				if got := err.Error(); !strings.Contains(got, fmt.Sprintf("%q means several things", name)) || !strings.Contains(got, "hint: "+n.Card) {
					t.Errorf("%s = %q: %s", key, name, got)
				}
			}
		}
		if !strings.Contains(n.Card, "methods") && !strings.Contains(n.Card, "conventions") && !strings.Contains(n.Card, " or ") {
			t.Errorf("%s: %q does not say between what to choose", n.Name, n.Card)
		}
	}
}

// TestReferenceCounts: a KL runs the reference once a trained step, one to the sampling weights does not, and NFT
// asks the old weights as well.
func TestReferenceCounts(t *testing.T) {
	for _, c := range []struct {
		sets []string
		want float64
	}{
		{nil, 0}, {[]string{"loss.kl.weight=0.1"}, 48 * 9}, {[]string{"loss.kl={weight=0.1, reference='old'}"}, 0},
		{[]string{"loss={objective='nft', times=2}"}, 96}, {[]string{"loss={objective='nft', times=2, kl={weight=1, estimator='velocity'}}"}, 192},
		{[]string{"loss.kl.weight=0.1", "advantage.best_of=4"}, 16 * 9},
	} {
		p, err := parse(t, least, append(c.sets, "sampler.guidance=1")...).Plan()
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Stages[0].Counts.Reference; got != c.want {
			t.Errorf("%s: %v reference passes, want %v", c.sets, got, c.want)
		}
	}
}

// TestTrunkCounts: two starts of a prompt, three branches at steps 0 and 2 of 4. Steps of
// the trunk 0, 1, 2, then of branches 3 × 3 and 3 × 1; a step's output serves its branches.
func TestTrunkCounts(t *testing.T) {
	e := parse(t, least, "sampler.steps=4", "sampler.tree={kind='trunk', splits=[0, 2], children=3}", "rollout.group=6", "rollout.prompts_per_iteration=1", "sampler.guidance=1")
	p, err := e.Plan()
	if err != nil {
		t.Fatal(err)
	}
	s := p.Stages[0]
	if c := s.Counts; c.Samples != 12 || c.Rollout != 2*(3+9+3) || c.Train != 4 || c.Shared != 12*4-30 {
		t.Errorf("%+v", *c)
	}
	if want := []int{40, 0, 40, 0}; !slices.Equal(s.Coverage, want) {
		t.Errorf("coverage %v", s.Coverage)
	}
	for _, r := range s.Rows {
		if r.Trained != (r.Step%2 == 0) || (r.Noise > 0) != r.Trained {
			t.Errorf("%+v", r)
		}
	}
	// Without splits every step of the window branches.
	e = parse(t, least, "sampler.steps=4", "sampler.tree={kind='trunk', children=3}", "rollout.group=6", "rollout.prompts_per_iteration=1")
	if p, err = e.Plan(); err != nil || p.Stages[0].Counts.Samples != 18 {
		t.Errorf("%+v, %v", p.Stages[0].Counts, err)
	}
}

// TestSolvers: the table's facts about a solver agree with its rows, on every schedule that it goes with.
func TestSolvers(t *testing.T) {
	for _, k := range sde.Solvers() {
		for _, kind := range sde.Grids() {
			if kind.VP != k.VP || kind.Calls != k.Calls {
				continue
			}
			s := defaultSampler()
			s.Schedule.Kind, s.Noise = kind.Name, 0.5
			schedule, err := s.schedule(8)
			if err != nil {
				t.Fatal(err)
			}
			row, draws, judged, history := k.Build(s.SolverOptions), false, false, false
			for step := range schedule.Steps() {
				r := row(schedule, step)
				draws = draws || r.Stochastic()
				judged = judged || r.Stochastic() && r.Density != sde.None
				history = history || len(r.Next.X) > 1 || len(r.Next.Out) > 1 || r.Correct != nil
			}
			s.Noise = 0
			quiet, always := k.Build(s.SolverOptions), false
			for step := range schedule.Steps() {
				always = always || quiet(schedule, step).Stochastic()
			}
			if draws != k.Stochastic || judged != k.Density || history != k.History || always != k.Ancestral {
				t.Errorf("%s on %s: draws %v, without noise %v, judged %v, history %v", k.Name, kind.Name, draws, always, judged, history)
			}
		}
	}
}

// TestCoverageOfOwnWindows: where prompts have windows or steps of their own,
// a step counts by how many prompts train it.
func TestCoverageOfOwnWindows(t *testing.T) {
	for name, c := range map[string]struct {
		window string
		each   int // steps of a prompt in an iteration
	}{"windows": {"{kind='random', size=4, own=true}", 4}, "steps": {"{kind='random', size=4, one=true}", 1}} {
		e := parse(t, least, "sampler.steps=10", "sampler.window="+c.window)
		p, err := e.Plan()
		if err != nil {
			t.Fatal(name, err)
		}
		s, sum := p.Stages[0], 0
		for _, n := range s.Coverage {
			sum += n
		}
		if want := c.each * s.Planned; len(s.Coverage) != 10 || sum < want || sum > want+10 {
			t.Errorf("%s: steps are trained %v times in %d iterations, %d a prompt and iteration", name, s.Coverage, s.Planned, c.each)
		}
	}
}

// TestPlan: windows, coverage and counts of MixGRPO's schedule, counted by hand.
func TestPlan(t *testing.T) {
	e := parse(t, least, "sampler.steps=10", "sampler.window={kind='sliding', size=4, every=10, stride=2}", "rollout.group=2", "rollout.prompts_per_iteration=3", "sampler.guidance=1", "rollout.shared_noise=true")
	p, err := e.Plan()
	if err != nil {
		t.Fatal(err)
	}
	s := p.Stages[0]
	if slices.ContainsFunc(s.Facts, func(f Fact) bool { return f.What == "rewards" }) {
		t.Error("a run of one stage says its rewards twice")
	}
	want := []Position{{1, 10, []int{0, 1, 2, 3}}, {11, 20, []int{2, 3, 4, 5}}, {21, 30, []int{4, 5, 6, 7}}, {31, 40, []int{5, 6, 7, 8}}}
	if !reflect.DeepEqual(s.Windows, want) {
		t.Errorf("windows %v", s.Windows)
	}
	if want := []int{10, 10, 20, 20, 20, 30, 20, 20, 10, 0}; !slices.Equal(s.Coverage, want) {
		t.Errorf("coverage %v", s.Coverage)
	}
	// 3 groups of 2, 10 steps; 0, 2, 4, 5 steps before the window are shared, and the first one in
	// it: 3·(1+3+5+6)/4 fewer. In training that one is one question for a group.
	c := s.Counts
	if c.Samples != 6 || c.Rollout != 60-11.25 || c.Shared != 11.25 || c.Train != 24-3 || c.Backward != 24-3 || c.FullForward != 120 || c.FullBack != 60 || c.Reference != 0 {
		t.Errorf("counts %+v", *c)
	}
	for i, r := range s.Rows {
		if r.Trained != (i < 4) || (r.Noise > 0) != (i < 4) {
			t.Errorf("row %d: %+v", i, r)
		}
	}
}

// TestTreeCounts: a binary tree of 4 steps that splits at 0 and 2 runs the network
// 1 + 2 + 2 + 4 times; the last step is not trained.
func TestTreeCounts(t *testing.T) {
	e := parse(t, least, "sampler.steps=4", "sampler.solver=dance", "sampler.tree={splits=[0,2]}", "advantage.estimator=tree", "rollout.group=4", "rollout.prompts_per_iteration=1", "sampler.guidance=1")
	p, err := e.Plan()
	if err != nil {
		t.Fatal(err)
	}
	if c := p.Stages[0].Counts; c.Rollout != 9 || c.Shared != 7 || c.Train != 5 {
		t.Errorf("%+v", *c)
	}
}

// TestWarnings: each of these gives its warning, and nothing else.
func TestWarnings(t *testing.T) {
	quiet := []string{"evaluate.prompts=held", "monitor=[{watch='kl', rises_above=1}]"}
	for says, sets := range map[string][]string{
		"": nil,
		"steps 5-9 are never trained in 40 iterations":                    {"sampler.window={kind='frozen', size=5}"},
		"steps 3, 7-9 are never":                                          {"sampler.window={kind='sliding', size=3, stride=4, every=4, tail='skip'}"},
		"have an empty window":                                            {"sampler.window={kind='sliding', size=4, every=1, drop=2, tail='mixgrpo'}"},
		"the last step is trained":                                        {"sampler.window.drop=0"},
		"is below what rounding":                                          {"loss.clip_range=1e-9", "optim.updates=2"},
		"never clips":                                                     {"loss.clip_range=0.2", "optim.updates=2"},
		"leaves one point":                                                {"sampler.flash={ratio=0.1}", "sampler.window={kind='frozen', size=9}"},
		"there are no held-out":                                           {"evaluate.prompts=''"},
		"evaluate.prompts are the prompts that are trained on":            {"evaluate.prompts=embed:scenes"},
		"hacking of the trained":                                          {"monitor=[]"},
		`loss.beta, loss.use_std are not read by objective "clip"`:        {"loss.beta=2", "loss.use_std=true"},
		`"clip"; beta of flow_grpo is loss.kl.weight here`:                {"loss.beta=0.04"},
		`loss.clip_range is not read by objective "dppo"`:                 {"loss.objective=dppo", "loss.clip_range=1e-3"},
		`loss.noise_weight is not read by objective "nft"`:                {"loss.objective=nft", "loss.noise_weight=2"},
		`advantage.credit is not read by estimator "group"`:               {"advantage.credit={gamma=0.9}"},
		`advantage.history is not read by estimator "group"`:              {"advantage.history={size=9, min=3}"},
		`loss.value is not read by estimator "group"`:                     {"loss.value={lr=1e-4}"},
		`sampler.density is not read by solver "flow-sde"`:                {"sampler.density=unnormalised"},
		`sampler.window.fraction is not read with sampler.window.kind`:    {"sampler.window={kind='frozen', size=9, fraction=0.5}"},
		`sampler.schedule.tokens is not read with sampler.schedule.kind`:  {"sampler.schedule.tokens=256"},
		"optim.ema = 0.9 keeps an average":                                {"optim.ema=0.9"},
		`stage[0].loss.beta is not read by objective "clip"`:              {"stage=[{iterations=40, loss.beta=2}]"},
		"advantage.margin is not read":                                    {"advantage.margin=1"},
		"sampler is not read by an episode":                               {"episode={turns=2}", "sampler.steps=9"},
		`loss.clip_high, loss.clip_range are not read by objective "gpg"`: {"episode={turns=2}", "loss.objective=gpg", "loss.clip_range=0.2", "loss.clip_high=0.3"},
		`loss.noise_weight is not read by objective "clip"`:               {"episode={turns=2}", "loss.noise_weight=2"},
	} {
		e := parse(t, least, append(slices.Clone(quiet), sets...)...)
		p, err := e.Plan()
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case says == "" && len(p.Warnings) > 0:
			t.Errorf("%q", p.Warnings)
		case says != "" && (len(p.Warnings) == 0 || !strings.Contains(strings.Join(p.Warnings, "\n"), says)):
			t.Errorf("%s: %q", says, p.Warnings)
		}
	}
}

// TestStages: each stage begins with the file, not with the stage before it.
func TestStages(t *testing.T) {
	e := parse(t, least+"[[stage]]\niterations = 10\nsampler.steps = 6\n[[stage]]\niterations = 30\n[stage.loss]\nclip_range = 1e-5\n")
	if e.Stages[0].Sampler.Steps != 6 || e.Stages[1].Sampler.Steps != 10 || e.Stages[1].Loss.ClipRange != 1e-5 || e.Stages[0].Loss.ClipRange != 1e-4 {
		t.Errorf("%+v", e.Stages)
	}
	p, err := e.Plan()
	if err != nil {
		t.Fatal(err)
	}
	if never := strings.Join(p.Warnings, "\n"); strings.Contains(never, "never trained") {
		t.Errorf("%s", never)
	}
	if len(p.Stages) != 2 || p.Stages[1].First != 11 || p.Stages[1].Windows[0].First != 11 || len(p.Stages[0].Rows) != 6 {
		t.Errorf("%+v", p.Stages)
	}
}

// TestStagesFitted: --set run.iterations cuts the last stages, or makes the very last one longer, says so, and leaves a
// file that is read back as the same stages. A file alone must add up.
func TestStagesFitted(t *testing.T) {
	const staged = least + "[[stage]]\nname = \"lead\"\niterations = 10\nloss = { clip_range = 1e-5 }\n[[stage]]\niterations = 30\n"
	for _, c := range []struct {
		sets []string
		want []int
		clip float64
		says string
	}{
		{nil, []int{10, 30}, 1e-5, ""},
		{[]string{"run.iterations=40"}, []int{10, 30}, 1e-5, ""},
		{[]string{"run.iterations=5"}, []int{5}, 1e-5, `--set run.iterations=5: stage "lead" has 5 of its 10 iterations, stage[1] is left out`},
		{[]string{"run.iterations=10"}, []int{10}, 1e-5, `--set run.iterations=10: stage[1] is left out`},
		{[]string{"run.iterations=11"}, []int{10, 1}, 1e-5, `--set run.iterations=11: stage[1] has 1 of its 30 iterations`},
		{[]string{"run.iterations=50"}, []int{10, 40}, 1e-5, `--set run.iterations=50: stage[1] has 40 iterations in place of 30`},
		{[]string{"stage.1.iterations=2", "run.iterations=12"}, []int{10, 2}, 1e-5, ""},
		{[]string{"run.iterations=3", "stage.0.loss.clip_range=0.5"}, []int{3}, 0.5, `--set run.iterations=3: stage "lead" has 3 of its 10 iterations, stage[1] is left out`},
	} {
		e := parse(t, staged, c.sets...)
		var text bytes.Buffer
		if err := e.Write(&text); err != nil {
			t.Fatal(err)
		}
		again := parse(t, text.String())
		for name, e := range map[string]*Experiment{"set": e, "read back": again} {
			var got []int
			for _, s := range e.Stages {
				got = append(got, s.Iterations)
			}
			if !slices.Equal(got, c.want) || e.Stages[0].Loss.ClipRange != c.clip {
				t.Errorf("%s, %v: %d iterations, clip range %v", name, c.sets, got, e.Stages[0].Loss.ClipRange)
			}
		}
		if e.Fitted() != c.says || again.Fitted() != "" {
			t.Errorf("%v: %q, read back %q", c.sets, e.Fitted(), again.Fitted())
		}
		if list := Changes(again, e); len(list) > 0 {
			t.Errorf("%v: read back it has changed: %q", c.sets, list)
		}
	}
	short, long := parse(t, staged, "run.iterations=40"), parse(t, staged, "run.iterations=50")
	if list := Changes(short, long); len(list) > 0 {
		t.Errorf("a longer last stage at a constant rate: %q", list)
	}
	long = parse(t, staged, "run.iterations=50", "optim.schedule=linear")
	if list := Changes(parse(t, staged, "optim.schedule=linear"), long); len(list) != 2 {
		t.Errorf("a longer last stage whose rate falls: %q", list)
	}
}

func matches(pattern, text string) bool {
	return regexp.MustCompile("(?m)" + pattern).MatchString(text)
}

// TestCompositions: every solver with every window, tree, tail and kind of objective
// is either refused with a hint, or makes a plan.
func TestCompositions(t *testing.T) {
	planned := map[string]bool{}
	for _, solver := range sde.Solvers() {
		for _, window := range sde.Windows() {
			for _, with := range [][]string{nil, {"sampler.flash={ratio=0.5}"}, {"sampler.tree={splits=[0,2]}", "advantage.estimator=tree", "rollout.group=4"}} {
				for _, objective := range []string{"clip", "dppo", "nft"} {
					sets := append([]string{
						"sampler.solver=" + solver.Name, "sampler.noise=0.5", "loss.objective=" + objective,
						fmt.Sprintf("sampler.window={kind=%q, size=3, every=2, low=0.2, high=0.8, fraction=0.5}", window.Name),
					}, with...)
					if solver.VP {
						sets = append(sets, "sampler.schedule.kind=ddpm", "sampler.outside="+solver.Name, "sampler.eval_solver=ddim")
					}
					e, err := Parse("a.toml", []byte(least), sets)
					if err != nil {
						if !strings.Contains(err.Error(), "hint: ") {
							t.Errorf("no hint: %v", err)
						}
						continue
					}
					if _, err := e.Plan(); err != nil {
						t.Errorf("%s: %v", sets, err)
					}
					planned[objective+" "+solver.Name] = true
				}
			}
		}
	}
	for _, solver := range sde.Solvers() { // each can be used for its purpose
		for _, objective := range []string{"clip", "dppo"} {
			if key := objective + " " + solver.Name; planned[key] != solver.Density {
				t.Errorf("%s: planned %v", key, planned[key])
			}
		}
		if key := "nft " + solver.Name; !planned[key] && solver.Name != "heun" && !solver.VP {
			t.Errorf("%s is never planned", key)
		}
	}
}

// TestTokenClip: an episode's clip range is that of tokens, unless the file says another.
func TestTokenClip(t *testing.T) {
	for _, c := range []struct {
		want float64
		text string
		sets []string
	}{
		{1e-4, least, nil}, {0.2, least + "[episode]\n", nil}, {0.2, least, []string{"episode={turns=2}"}}, {0.2, "preset = \"mini_o3\"\n" + least, nil},
		{3e-4, least + "[episode]\n[loss]\nclip_range = 3e-4\n", nil}, {0.2, least + "[episode]\n[loss]\npreset = \"drgrpo\"\n", nil}, {1e-5, "preset = \"cps\"\n" + least, nil},
	} {
		if e := parse(t, c.text, c.sets...); e.Loss.ClipRange != c.want {
			t.Errorf("%s %v: clip_range is %v, not %v", c.text, c.sets, e.Loss.ClipRange, c.want)
		}
	}
}

// TestReaders: a tag of a key's readers names a modality, or a value of the key beside it.
func TestReaders(t *testing.T) {
	e := Default()
	keys, tagged := config.Keys(&e), 0
	for _, k := range keys {
		if k.Of == "" || strings.HasPrefix(k.Path, "reward") {
			continue
		}
		tagged++
		beside, list, chosen := strings.Cut(k.Of, "=")
		if !chosen {
			if k.Of != "tokens" && k.Of != "pictures" {
				t.Errorf("%s is read by %q, and a tag names what is made", k.Path, k.Of)
			}
			continue
		}
		i := slices.IndexFunc(keys, func(b config.Key) bool { return b.Path == strings.TrimPrefix(config.Parent(k.Path)+"."+beside, ".") })
		for _, n := range strings.Split(list, ",") {
			if i < 0 || !slices.Contains(keys[i].Enum, n) {
				t.Errorf("%s is read where %s is %s, which it cannot be", k.Path, beside, n)
			}
		}
	}
	if tagged < 40 {
		t.Errorf("only %d keys say where they are read", tagged)
	}
}

// TestProtocols: a protocol has one name, in files and in package tools.
func TestProtocols(t *testing.T) {
	for _, p := range tools.Protocols() {
		name, sets := p.Name, []string{"episode.protocol=" + p.Name}
		if p.Code {
			sets = append(sets, "episode.exec={command=['true']}")
		}
		e := parse(t, least, sets...)
		if e.Episode.Protocol != name || p.Name != name {
			t.Errorf("protocol %s became %s, whose preset is %s", name, e.Episode.Protocol, p.Name)
		}
	}
	if _, err := Parse("a.toml", []byte(least), []string{"episode.protocol=deepeyes-v5"}); err == nil || !strings.Contains(err.Error(), `did you mean "deepeyes_v5"?`) {
		t.Errorf("another spelling: %v", err)
	}
}

// TestClipOptions: a file's settings of the clip reach it.
func TestClipOptions(t *testing.T) {
	l := defaultLoss()
	l.ClipRange, l.ClipHigh, l.DualClip, l.NoiseWeight, l.KL.Weight = 0.1, 0.2, 3, 2.25, 0.4
	if o := l.Clip(); o.ClipRange != 0.1 || o.ClipHigh != 0.2 || o.DualClip != 3 || o.NoiseWeight != 2.25 || o.KLWeight != 0.4 {
		t.Errorf("%+v", o)
	}
	l.KL.Estimator = "k3"
	if o := l.Tokens(); o.ClipRange != 0.1 || o.ClipHigh != 0.2 || o.DualClip != 3 || o.KL.Weight != 0.4 || o.KL.Estimator != "k3" {
		t.Errorf("%+v", o)
	}
}

// TestFinetunes: pictures that are learned from as they are need no reward, and a group of them is one; pairs need a
// reward, and a group that is written stays.
func TestFinetunes(t *testing.T) {
	const file = "[run]\nname = \"a\"\niterations = 1\n[model]\npath = \"embed:tiny-sd3\"\n[rollout]\nprompts = \"pictures\"\noffline = true\n[loss]\nobjective = \"sft\"\n"
	e, err := Parse("a.toml", []byte(file), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !e.AllFinetune() || e.Rollout.Group != 1 || e.Advantage.Singleton != "raw" || len(e.Rewards) != 0 {
		t.Errorf("group %d, singleton %q, %d rewards", e.Rollout.Group, e.Advantage.Singleton, len(e.Rewards))
	}
	if p, err := e.Plan(); err != nil || !slices.ContainsFunc(p.Facts, func(f Fact) bool { return f.What == "rewards" && strings.HasPrefix(f.How, "none") }) {
		t.Error(err)
	}
	if e, err := Parse("a.toml", []byte(file), []string{"rollout.group=2", `reward=[{name="jpeg", train=false}]`}); err != nil || e.Rollout.Group != 2 {
		t.Error(err)
	}
	staged := strings.Replace(file, "iterations = 1", "iterations = 2", 1) + "[[reward]]\nname = \"jpeg\"\n[[stage]]\niterations = 1\nrollout.group = 1\nadvantage.singleton = \"raw\"\n" +
		"[[stage]]\niterations = 1\nrollout = { offline = false, prompts = \"embed:scenes\" }\nloss.objective = \"clip\"\n"
	if e, err = Parse("a.toml", []byte(staged), nil); err != nil {
		t.Fatal(err)
	}
	if at := e.Stage(1); at.Rollout.Group != Default().Rollout.Group || at.Advantage.Singleton == "raw" {
		t.Errorf("a stage that rolls has groups of %d, singleton %q", at.Rollout.Group, at.Advantage.Singleton)
	}
	if _, err := Parse("a.toml", []byte(file), []string{"rollout.text_noise={}"}); err == nil || !strings.Contains(err.Error(), "no text of a roll has noise") {
		t.Errorf("noise in texts of pictures that are not rolled: %v", err)
	}
	for _, set := range []string{"rollout.offline=false", `loss.objective="rwr"`} {
		if _, err := Parse("a.toml", []byte(file), []string{set}); err == nil || !strings.Contains(err.Error(), "there is none") {
			t.Errorf("%s: %v", set, err)
		}
	}
}
