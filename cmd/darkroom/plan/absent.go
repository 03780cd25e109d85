package plan

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/judges"
	"github.com/darkroom-rl/darkroom/vision"
)

// A recipe is planned before anything of it is downloaded. Parts of its file that are not here yet are fetched by
// known commands: a model of the hub, weights of a reward, a published list, a program. The plan counts with
// stand-ins: the model's published settings, lists of as many prompts, no reward's network. Any other absent file is a
// mistake, as it is for 'train'.

// An Absent is a part of an experiment that is not here yet.
type Absent struct {
	Path  string `json:"path"`
	Fetch string `json:"fetch,omitempty"` // the command
	Note  string `json:"note,omitempty"`  // instead of one, or beside it
}

// A standIn is an experiment with stand-ins for its absent parts.
type standIn struct {
	*experiment.Experiment
	absent    []Absent
	rewards   int64             // bytes of absent rewards' networks
	folder    string            // of the stand-ins; "": none was written
	own       map[string]string // the file's own paths, by those of stand-ins
	uncounted string            // the part without which no memory is counted
	unread    []string          // rewards with networks here, which read prompts of a list that is not
	listed    bool              // a list has a stand-in, whose prompts rewards cannot read
	bare      bool              // as on a machine that has none of the parts, and without stand-ins
}

// Needed are the parts of an experiment that known commands fetch, here or not.
func Needed(e *experiment.Experiment) ([]Absent, error) {
	on := *e
	s := &standIn{Experiment: &on, bare: true}
	if err := s.put(); err != nil {
		return nil, err
	}
	return s.absent, nil
}

// standInFor finds the absent parts of an experiment, and puts stand-ins in their places. A close removes them.
func standInFor(e *experiment.Experiment) (*standIn, error) {
	on := *e
	s := &standIn{Experiment: &on, own: map[string]string{}}
	if err := s.put(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *standIn) put() error {
	for _, put := range []func() error{s.model, s.lists, s.judges} {
		if err := put(); err != nil {
			return err
		}
	}
	return nil
}

func (s *standIn) close() error {
	if s.folder == "" {
		return nil
	}
	return os.RemoveAll(s.folder)
}

// A mistaken is an error of an experiment with stand-ins, by the file's own paths.
type mistaken struct {
	error
	text string
}

func (m mistaken) Error() string { return m.text }
func (m mistaken) Unwrap() error { return m.error }

// mistake names the file's own paths in an error, and says which parts are not here.
func (s *standIn) mistake(err error) error {
	if err == nil || len(s.absent) == 0 {
		return err
	}
	text := err.Error()
	for at, own := range s.own {
		text = strings.ReplaceAll(text, at, own)
	}
	for _, a := range s.absent {
		text += "\nnot here yet: " + a.Path
		if does := cmp.Or(a.Fetch, a.Note); does != "" {
			text += " (" + does + ")"
		}
	}
	return mistaken{err, text}
}

// write is the path of a stand-in's file.
func (s *standIn) write(name string, text []byte) (string, error) {
	if err := s.begin(); err != nil {
		return "", err
	}
	path := filepath.Join(s.folder, name)
	return path, os.WriteFile(path, text, 0o644)
}

func (s *standIn) begin() (err error) {
	if s.folder == "" {
		s.folder, err = os.MkdirTemp("", "darkroom-plan")
	}
	return err
}

// model stands in for the model's folder.
func (s *standIn) model() error {
	path := s.Model.Path
	dir, err := assets.Resolve(path)
	if err != nil || s.here(dir) {
		return nil // whose error is the plan's
	}
	p, ok := assets.PublishedAt(path)
	if !ok {
		return nil
	}
	one := Absent{Path: path, Fetch: p.Fetch(path)}
	if p.Gated {
		one.Note = "accept its licence on its page there first, and set HF_TOKEN"
	}
	if s.absent = append(s.absent, one); s.bare {
		return nil
	}
	if err := s.begin(); err != nil {
		return err
	}
	at := filepath.Join(s.folder, p.Name)
	switch err := p.WriteSettings(at); {
	case errors.Is(err, fs.ErrNotExist):
		s.uncounted = path
	case err != nil:
		return err
	default:
		s.Model.Path, s.own[at] = at, path
	}
	return nil
}

func (s *standIn) here(path string) bool {
	_, err := os.Stat(path)
	return err == nil && !s.bare
}

// Sizes of lists that stand in for others.
const (
	prompted = 2100
	edited   = 100
)

// lists stand in for lists of prompts.
func (s *standIn) lists() error {
	if len(s.Stages) > 0 {
		return nil
	}
	s.Rollout.Prompts = slices.Clone(s.Rollout.Prompts)
	for i := range s.Rollout.Prompts {
		if err := s.list(&s.Rollout.Prompts[i], i, prompted, s.Rollout.Offline); err != nil {
			return err
		}
	}
	return s.list(&s.Evaluate.Prompts, len(s.Rollout.Prompts), 1, false)
}

// list stands in for one of a number.
func (s *standIn) list(path *string, number, n int, pairs bool) error {
	from, ok := prompts.SourceOf(*path)
	if !ok || s.here(*path) {
		return nil
	}
	s.absent = append(s.absent, Absent{Path: *path, Fetch: from.Fetch, Note: from.Note})
	if s.listed = true; s.Episode != nil || s.bare {
		s.uncounted = cmp.Or(s.uncounted, *path)
		return nil
	}
	line, ending := "a sign that says \"word %d\"\n", ".txt"
	side := 0
	switch {
	case pairs && s.Finetunes():
		line, ending, side = "{\"prompt\": \"word %d\", \"image\": \"picture.png\"}\n", ".jsonl", 8
	case pairs:
		line, ending, side = "{\"prompt\": \"word %d\", \"a\": \"picture.png\", \"b\": \"picture.png\", \"better\": \"a\"}\n", ".jsonl", 8
	case s.Model.SourceArea > 0:
		line, ending, side, n = "{\"prompt\": \"make it %d\", \"image\": \"picture.png\"}\n", ".jsonl", 512, min(n, edited)
	}
	var text, picture bytes.Buffer
	for i := range n {
		fmt.Fprintf(&text, line, i+number*prompted) // other prompts than those of another list
	}
	if side > 0 {
		if err := vision.EncodePNG(&picture, vision.New(side, side)); err != nil {
			return err
		}
		if _, err := s.write("picture.png", picture.Bytes()); err != nil {
			return err
		}
	}
	at, err := s.write(fmt.Sprintf("list%d%s", number, ending), text.Bytes())
	if err == nil {
		*path, s.own[at] = at, *path
	}
	return err
}

// judges leaves out rewards whose networks or programs are absent.
func (s *standIn) judges() error {
	var there []experiment.Reward
	for _, r := range s.Rewards {
		k, own := r.Kind()
		program := k.Runs(own)
		switch {
		case k.Published != nil && r.Path != "" && r.URL == "" && !s.here(r.Path):
			if dir, err := assets.Resolve(r.Path); err != nil || s.here(dir) {
				there = append(there, r)
				continue
			}
			bytes := 4 * k.Published.Numbers
			if r.Precision == "bf16" {
				bytes = 2 * k.Published.Numbers
			}
			s.add(Absent{Path: r.Path, Fetch: k.Fetch(r.Path)}, bytes)
		case k.Package != "" && program != "" && (s.bare || !installed(program)):
			s.add(Absent{Path: program, Note: "a program to install (Debian: " + k.Package + ")"}, 0)
		case s.listed && judges.Reads(r) != nil:
			if r.Path != "" && r.URL == "" {
				s.unread = append(s.unread, r.Called())
			}
		default:
			there = append(there, r)
		}
	}
	if s.Rewards = there; len(there) > 0 || s.AllFinetune() {
		return nil
	}
	r, err := experiment.ParseReward(rewards.JPEGKind.Name, nil)
	s.Rewards = []experiment.Reward{r}
	return err
}

// add is one absent part, unless it is known already.
func (s *standIn) add(one Absent, bytes int64) {
	if !slices.ContainsFunc(s.absent, func(a Absent) bool { return a.Path == one.Path }) {
		s.absent = append(s.absent, one)
		s.rewards += bytes
	}
}

func installed(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

// writeAbsent prints them with their commands.
func (p Document) writeAbsent(w io.Writer) {
	if len(p.Absent) == 0 {
		return
	}
	fmt.Fprintln(w, "\nnot here yet:")
	t := console.Table{}
	before := ""
	for _, a := range p.Absent {
		does := a.Fetch
		if a.Note != "" {
			if does != "" {
				does += "   "
			}
			does += "# " + a.Note
		}
		if does == before {
			does = "(the same)"
		} else {
			before = does
		}
		t.Add(a.Path, does)
	}
	t.Write(w)
	if p.RewardsLater > 0 {
		fmt.Fprintf(w, "the networks of rewards among them take %s more\n", console.Bytes(p.RewardsLater))
	}
}
