package pull

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"time"
)

// Options name the files, their source, and the patience of a pull.
type Options struct {
	Repo     string   // OWNER/NAME
	Revision string   // a branch, tag or commit; "" is main
	Out      string   // the folder to make
	Endpoint string   // "" is https://huggingface.co
	Token    string   // sent to the endpoint alone
	Variant  string   // of weights, such as fp16; "" is the plain files
	Include  []string // patterns of further files
	Only     []string // patterns of all files; nil: those of a model
	Pickle   string   // a state dict that is taken where a model has no safetensors; "": none

	Tries    int           // in a row without progress, before a file is given up; 0 is 5
	Pause    time.Duration // before the second try; it doubles. 0 is one second
	Stall    time.Duration // without a byte, after which a connection is dropped; 0 is a minute
	Parallel int           // files at once; 0 is 4

	// Progress is called with bytes, from several goroutines.
	Progress func(done, all int64)
	Client   *http.Client // nil is one with redirects checked; tests replace its transport
}

// Report lists the fetched files.
type Report struct {
	Repo    string `json:"repo"`
	Commit  string `json:"commit"`
	Out     string `json:"out"`
	Files   int    `json:"files"`
	Bytes   int64  `json:"bytes"`
	Fetched int64  `json:"fetched"` // bytes that came in this run
	Skipped int    `json:"skipped"` // files of the repository that Darkroom does not read
	There   bool   `json:"there"`   // the folder was complete before
}

// recordName is the file in the folder that says where it came from.
const recordName = ".darkroom-pull.json"

// record is that file.
type record struct {
	Repo   string `json:"repo"`
	Commit string `json:"commit"`
	Files  []File `json:"files"`
}

var repoName = regexp.MustCompile(`^[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}$`)

// Check refuses a name or an address that cannot be one, before anything is asked of a hub.
func (o Options) Check() error {
	if !repoName.MatchString(o.Repo) {
		return fmt.Errorf("%q names no repository\nhint: write OWNER/NAME, such as stabilityai/stable-diffusion-3.5-medium", o.Repo)
	}
	_, err := newServer(o)
	return err
}

// Run fetches the folder, or continues a pull that was interrupted.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	s, err := newServer(o)
	if err != nil {
		return nil, err
	}
	want, skipped, err := s.plan(ctx)
	if err != nil {
		return nil, err
	}
	r := &Report{Repo: o.Repo, Commit: want.Commit, Out: o.Out, Files: len(want.Files), Skipped: skipped}
	for _, f := range want.Files {
		r.Bytes += f.Size
	}
	if r.There, err = there(o.Out, want); err != nil || r.There {
		return r, err
	}
	part := o.Out + ".part"
	if err := begin(part, want); err != nil {
		return nil, err
	}
	if r.Fetched, err = s.files(ctx, part, want, r.Bytes); err != nil {
		return nil, fmt.Errorf("%w\n%s stays, and the same command continues there", err, part)
	}
	if err := os.Rename(part, o.Out); err != nil {
		return nil, fmt.Errorf("all files are in %s, but it cannot be renamed: %w", part, err)
	}
	return r, nil
}

// plan resolves the revision to a commit, and chooses among its files.
func (s *server) plan(ctx context.Context) (*record, int, error) {
	commit, err := s.commit(ctx)
	if err != nil {
		return nil, 0, err
	}
	all, err := s.list(ctx, commit)
	if err != nil {
		return nil, 0, err
	}
	c := choice{variant: s.Variant, include: s.Include, only: s.Only, pickle: s.Pickle}
	for _, f := range all {
		if f.Path == indexName {
			text, err := s.small(ctx, commit, f)
			if err != nil {
				return nil, 0, err
			}
			if c.parts, err = parts(text); err != nil {
				return nil, 0, fmt.Errorf("%s of %s: %w", indexName, s.Repo, err)
			}
		}
	}
	chosen, err := c.of(all)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", s.Repo, err)
	}
	return &record{Repo: s.Repo, Commit: commit, Files: chosen}, len(all) - len(chosen), nil
}

// there reports whether the folder is complete. One with anything else in it is an error.
func there(dir string, want *record) (bool, error) {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	have, err := readRecord(dir)
	if err != nil {
		return false, fmt.Errorf("%s exists, and was not made by pull\nhint: name another folder with --out", dir)
	}
	if have.Repo != want.Repo || have.Commit != want.Commit {
		return false, fmt.Errorf("%s holds %s at %.12s, not %s at %.12s\nhint: name another folder with --out, or remove it", dir, have.Repo, have.Commit, want.Repo, want.Commit)
	}
	for _, f := range want.Files {
		info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(f.Path)))
		if err != nil || info.Size() != f.Size {
			return false, fmt.Errorf("%s: %s is missing or was changed since it was fetched\nhint: remove the folder and pull again", dir, f.Path)
		}
	}
	return true, nil
}

// begin makes the folder in which files gather. One that gathers another commit is emptied; one that
// pull did not make is an error.
func begin(part string, want *record) error {
	have, err := readRecord(part)
	switch entries, _ := os.ReadDir(part); {
	case err != nil && len(entries) > 0:
		return fmt.Errorf("%s exists, and was not made by pull\nhint: name another folder with --out", part)
	case err == nil && (have.Repo != want.Repo || have.Commit != want.Commit):
		if err := os.RemoveAll(part); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(part, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(want, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(part, recordName), append(text, '\n'), 0o644)
}

func readRecord(dir string) (*record, error) {
	text, err := os.ReadFile(filepath.Join(dir, recordName))
	if err != nil {
		return nil, err
	}
	r := &record{}
	return r, json.Unmarshal(text, r)
}

// files fetches all files, a few at once. The first error stops the others.
func (s *server) files(ctx context.Context, part string, want *record, all int64) (int64, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var done, fetched atomic.Int64
	next := make(chan File)
	var working sync.WaitGroup
	for range s.Parallel {
		working.Go(func() {
			for f := range next {
				d := download{server: s, commit: want.Commit, file: f, dir: part, count: func(n int64, came bool) {
					sum := done.Add(n)
					if came {
						fetched.Add(n)
					}
					if s.Progress != nil {
						s.Progress(sum, all)
					}
				}}
				if err := d.run(ctx); err != nil {
					stop(err)
				}
			}
		})
	}
	for _, f := range want.Files {
		select {
		case next <- f:
		case <-ctx.Done():
		}
	}
	close(next)
	working.Wait()
	return fetched.Load(), context.Cause(ctx)
}
