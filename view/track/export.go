package track

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// An Entry is a run's numbers at one moment: at a line of its ledger, or before the first.
type Entry struct {
	Order     int     // counted from 0, and never falls
	Iteration int     // 0: before the first; it falls where a rollback goes back
	Time      float64 // seconds since 1970; since the run began where timing.jsonl does not say
	// Restart is the first iteration that is made again: those from it on do not count any more. 0: none.
	Restart    int
	Scalars    []Scalar
	Histograms []Histogram
	Pictures   []Picture
	Texts      []Text
	Alerts     []Alert
}

// Scalar is a number.
type Scalar struct {
	Name  string
	Value float64
}

// Picture is a PNG file.
type Picture struct {
	Name, Caption string
	Width, Height int
	PNG           []byte
}

// Text is a sample in words.
type Text struct{ Name, Value string }

// Alert is a monitor that fired, or a rollback.
type Alert struct{ Title, Text string }

// Run holds the data common to all entries.
type Run struct {
	Project, Name, ID string
	Began             float64 // as Entry.Time
	Config            []Setting
}

// Setting is a key of the experiment with its value: a number, a text, a bool, or the JSON of others.
type Setting struct {
	Key   string
	Value any
}

// Options are the source and the target of an export.
type Options struct {
	Run   string        // the run's folder
	As    string        // a layout
	Out   string        // the target's folder; "": one in the run's, with the layout's name
	Names string        // a table of scalars' names; "": darkroom
	Every time.Duration // how often a run that is followed is looked at; 0: a second
}

// Export is a run on its way to a target.
type Export struct {
	Options
	source *source
	target Target // nil: there was nothing to write
	begin  func() (Target, error)
	whole  bool // the target is written whole: one commit is as dear as all
}

// Note is a remark about the export for the user; "": nothing.
func (x *Export) Note() string {
	if n, ok := x.target.(interface{ Note() string }); ok {
		return n.Note()
	}
	return ""
}

// batch is how many entries are committed at once.
const batch = 256

// Open opens both ends. A target that holds a part of the run is gone on with.
func Open(o Options) (*Export, error) {
	l, address, err := layoutOf(o.As)
	if err != nil {
		return nil, err
	}
	switch {
	case address != "" && o.Out != "":
		return nil, fmt.Errorf("--out %s: %s names a server\nhint: leave --out out", o.Out, o.As)
	case address != "":
		o.Out = address
	case o.Out == "":
		o.Out = filepath.Join(o.Run, o.As)
	}
	if o.Names == "" {
		o.Names = "darkroom"
	}
	if o.Every == 0 {
		o.Every = time.Second
	}
	run, gold, err := describe(o.Run)
	if err != nil {
		return nil, err
	}
	find := readState
	if l.find != nil {
		find = func(where string) (*state, error) { return l.find(where, run) }
	}
	had, err := find(o.Out)
	if err != nil {
		return nil, err
	}
	var m Mark
	if had != nil {
		if had.ID != run.ID || had.As != l.name || had.Names != o.Names {
			hint := "--out names another place, or delete the folder"
			if l.find != nil {
				hint = "delete that run there, or give --names as it was"
			}
			return nil, fmt.Errorf("%s: %w (run %s as %s with the names of %s)\nhint: %s", o.Out, ErrOther, had.Run, had.As, had.Names, hint)
		}
		run.Began, m = had.Began, had.Mark
	}
	if l.again {
		m = Mark{}
	}
	s, err := openSource(o.Run, aliasesOf(o.Names), gold, m)
	if err != nil {
		return nil, err
	}
	x := &Export{Options: o, source: s, whole: l.again}
	x.begin = func() (Target, error) { // with the first entry: only then it is known when the run began
		st := state{As: l.name, Names: o.Names, Project: run.Project, Run: run.Name, ID: run.ID, Mark: m}
		if had == nil {
			run.Began = s.start()
		} else {
			st.Bytes, st.Records = had.Bytes, had.Records
		}
		st.Began = run.Began
		return l.open(o.Out, run, st)
	}
	if m.Entries > 0 { // Finish may have something to write
		x.target, err = x.begin()
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return x, nil
}

// Export writes the current entries, and returns the number of new ones.
func (x *Export) Export() (n int, err error) {
	defer func() { err = errors.Join(err, x.close()) }()
	if n, err = x.drain(); err != nil {
		return n, err
	}
	return n, x.finish()
}

// Follow writes current and later entries, until the run has ended or ctx is cancelled.
func (x *Export) Follow(ctx context.Context, ended func() (bool, error)) (n int, err error) {
	defer func() { err = errors.Join(err, x.close()) }()
	for {
		over, err := ended()
		if err != nil {
			return n, err
		}
		more, err := x.drain()
		n += more
		if err != nil {
			return n, err
		}
		if over {
			return n, x.finish()
		}
		select {
		case <-ctx.Done():
			return n, nil
		case <-time.After(x.Every):
		}
	}
}

// Ended reports whether result.json says that the run has ended.
func Ended(dir string) (bool, error) {
	r, err := result(dir)
	return r != nil && r.Status != ledger.UnderWay, err
}

// drain writes all entries that are ready. Of a run that is under way an iteration without a time is not.
func (x *Export) drain() (n int, err error) {
	final, err := Ended(x.Run)
	if err != nil {
		return 0, err
	}
	for {
		e, err := x.source.next(final)
		if err != nil {
			return n, err
		}
		if e != nil {
			if err := x.append(e); err != nil {
				return n, fmt.Errorf("exporting iteration %d: %w", e.Iteration, err)
			}
			n++
		}
		if n > 0 && (e == nil || n%batch == 0 && !x.whole) {
			if err := x.target.Commit(x.source.mark); err != nil {
				return n, fmt.Errorf("exporting: %w", err)
			}
		}
		if e == nil {
			return n, nil
		}
	}
}

// append writes an entry.
func (x *Export) append(e *Entry) (err error) {
	if x.target == nil {
		if x.target, err = x.begin(); err != nil {
			return err
		}
	}
	return x.target.Append(e)
}

// finish ends the export of a run that has ended.
func (x *Export) finish() error {
	r, err := result(x.Run)
	if err != nil || r == nil || r.Status == ledger.UnderWay || x.target == nil {
		return err
	}
	return x.target.Finish(r.Status)
}

func (x *Export) close() error {
	if x.target == nil {
		return x.source.close()
	}
	return errors.Join(x.source.close(), x.target.Close())
}

// describe returns the data common to a run, and its rewards that are not trained on.
func describe(dir string) (*Run, map[string]bool, error) {
	path := filepath.Join(dir, folder.Config)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("%s holds no run: %w", dir, err)
	}
	if err := folder.Own(dir); err != nil {
		return nil, nil, err
	}
	e, err := experiment.Parse(path, text, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("this version cannot read the run's settings: %w", err)
	}
	full, err := filepath.Abs(dir)
	if err != nil {
		return nil, nil, err
	}
	run, gold := &Run{Project: e.Run.Name, Name: filepath.Base(full), ID: e.Identity()[:12]}, map[string]bool{}
	for _, kv := range e.Settings() {
		run.Config = append(run.Config, Setting{kv[0], valueOf(kv[1])})
	}
	for _, r := range e.Rewards {
		gold[r.Called()] = !r.Train
	}
	return run, gold, nil
}

// valueOf reads a value as TOML writes it: a number, a bool, a text; others stay as they are written.
func valueOf(text string) any {
	if v, err := strconv.ParseFloat(text, 64); err == nil {
		return v
	}
	if v, err := strconv.ParseBool(text); err == nil {
		return v
	}
	if v, err := strconv.Unquote(text); err == nil {
		return v
	}
	return text
}

// A Target receives entries. An appended entry counts once it is committed: an export that is killed before goes on
// from the last commit, and writes over later entries.
type Target interface {
	Append(e *Entry) error
	// Commit makes appended entries permanent, together with the mark of the run's position.
	Commit(m Mark) error
	// Finish ends the export of a run that has ended. It is not part of the mark: if the run goes on,
	// so does its export.
	Finish(status string) error
	Close() error
}

// A Mark is how far a run was read into a target.
type Mark struct {
	Entries int     `json:"entries"`
	End     int64   `json:"ledger_end"`
	SHA256  string  `json:"ledger_sha256,omitempty"` // of the bytes before End
	Time    float64 `json:"time"`                    // of the last entry
}

// A layout is a kind of target.
type layout struct {
	name string
	// open opens a target at a place, a folder or an address, where the state says how far it is.
	open func(where string, run *Run, s state) (Target, error)
	// again: the whole run is read anew, and the file is written whole.
	again bool
	// find returns the position of a target other than a folder; nil: stateFile has it.
	find func(where string, run *Run) (*state, error)
}

func layouts() []layout {
	return []layout{
		{name: "tensorboard", open: openTensorBoard},
		{name: "trackio", open: openTrackio},
		{name: "wandb", open: openWandB},
		{name: "csv", open: openCSV, again: true},
		{name: "parquet", open: openParquet, again: true},
		{name: "mlflow", open: openMLflow, find: findMLflow},
	}
}

// Layouts are the names of export formats. An address follows the name of a server's.
func Layouts() []string {
	var names []string
	for _, l := range layouts() {
		if l.find != nil {
			l.name += "=URL"
		}
		names = append(names, l.name)
	}
	return names
}

// Known reports whether a run can be exported as a layout.
func Known(as string) bool {
	_, _, err := layoutOf(as)
	return err == nil
}

// layoutOf finds a layout, and the address behind its name.
func layoutOf(as string) (l layout, address string, err error) {
	name, address, given := strings.Cut(as, "=")
	for _, l := range layouts() {
		if l.name == name && given == (l.find != nil) {
			return l, address, nil
		}
	}
	return layout{}, "", fmt.Errorf("a run is exported as %s, not as %q", strings.Join(Layouts(), ", "), as)
}

// Scalars have one table of names. Their first part is a group on every page:
//
//	reward/total, reward/NAME      means over an iteration's samples; _std, _min and _max beside them
//	gold/NAME                      the same of rewards that are measured, and not trained on
//	missing/total, missing/NAME    the share of samples without a score
//	heldout/total, heldout/NAME    means over held-out prompts; _low and _high are their 95 % interval
//	group/dead_share, group/spread, group/diversity    inside the groups of one prompt
//	update/loss, gradient, lr, ratio_furthest, mismatch, and the objective's own (kl, clipped, entropy)
//	sample/modes, best_of/K, picture/NAME, episode/NAME
//	check/noise_floor, check/ratio    the check before the first update
//	perf/NAME                      seconds of an iteration's parts
//
// verl and trl are the number's names in those projects; a number that they do not have
// keeps its own name.
type aliases map[string]string

// Names are the tables that --names knows.
func Names() []string { return []string{"darkroom", "verl", "trl"} }

func aliasesOf(names string) aliases {
	switch names {
	case "verl":
		return aliases{
			"reward/total": "critic/score/mean", "reward/total_max": "critic/score/max", "reward/total_min": "critic/score/min",
			"update/loss": "actor/pg_loss", "update/gradient": "actor/grad_norm", "update/lr": "actor/lr", "update/kl": "actor/kl_loss",
			"update/ppo_kl": "actor/ppo_kl", "update/clipped": "actor/pg_clipfrac", "update/clipped_low": "actor/pg_clipfrac_lower", "update/entropy": "actor/entropy",
			"heldout/total": "val-core/heldout/reward/mean@1", "heldout/": "val-aux/heldout/*/mean@1",
			"perf/roll": "timing_s/gen", "perf/score": "timing_s/reward", "perf/train": "timing_s/update_actor", "perf/evaluate": "timing_s/testing", "perf/all": "timing_s/step",
			"iteration": "training/global_step",
		}
	case "trl":
		return aliases{
			"reward/total": "train/reward", "group/spread": "train/reward_std", "group/dead_share": "train/frac_reward_zero_std",
			"reward/": "train/rewards/*/mean", "reward/*_std": "train/rewards/*/std",
			"update/loss": "train/loss", "update/gradient": "train/grad_norm", "update/lr": "train/learning_rate", "update/kl": "train/kl", "update/entropy": "train/entropy",
			"update/clipped": "train/clip_ratio/region_mean", "update/clipped_low": "train/clip_ratio/low_mean", "update/clipped_high": "train/clip_ratio/high_mean",
			"heldout/total": "eval/reward", "heldout/": "eval/rewards/*/mean",
			"perf/all": "train/step_time", "iteration": "train/global_step",
		}
	}
	return nil
}

// bounds accompany a mean; they follow it under its own name alone.
func bounds() []string { return []string{"_std", "_min", "_max", "_low", "_high"} }

// of returns a number's name.
func (a aliases) of(name string) string {
	if as, ok := a[name]; ok {
		return as
	}
	group, rest, ok := strings.Cut(name, "/")
	if !ok || rest == "total" {
		return name
	}
	for _, end := range bounds() {
		if stem, ok := strings.CutSuffix(rest, end); ok {
			if as, ok := a[group+"/*"+end]; ok && stem != "total" {
				return strings.Replace(as, "*", stem, 1)
			}
			return name
		}
	}
	if as, ok := a[group+"/"]; ok {
		return strings.Replace(as, "*", rest, 1)
	}
	return name
}
