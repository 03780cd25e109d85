// Command pages runs the command lines of README.md and docs in their order, as a reader would, and reports those that
// fail or print something else than the page shows:
//
//	go run ./internal/pages -darkroom runs/darkroom   // make docs
//
// README.md begins in an empty folder with a copy of examples, an example's page in a copy of its folder; every other
// page begins in a copy of the folder that README's "An experiment of your own" left. A toml listing with [run] is
// mine.toml from there on, and another toml listing is planned together with it. A listing that begins with no command
// is output: each line of it must be printed by a command of its page. Commands that cannot run here are listed with
// the reason. A reader's minutes are those of the page's commands.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/darkroom-rl/darkroom/outside/child"
)

// firsts are the pages that a reader takes first, in this order.
var firsts = []string{"README.md", "docs/quickstart.md", "docs/own-reward.md", "docs/own-data.md", "docs/own-model.md"}

func main() {
	program := flag.String("darkroom", "", "the program, built from this source")
	only := flag.String("only", "", "a page; without it all are run")
	limit := flag.Duration("limit", 15*time.Minute, "of one command")
	flag.Parse()
	if err := run(*program, *only, *limit); err != nil {
		fmt.Fprintln(os.Stderr, "pages:", err)
		os.Exit(1)
	}
}

func run(program, only string, limit time.Duration) error {
	program, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	if _, err := os.Stat(program); err != nil {
		return fmt.Errorf("%w\nhint: go build -o runs/darkroom ./cmd/darkroom, and -darkroom runs/darkroom", err)
	}
	rest, err := filepath.Glob("docs/*.md")
	if err != nil {
		return err
	}
	examples, err := filepath.Glob("examples/*/README.md")
	if err != nil {
		return err
	}
	pages := slices.Clone(firsts)
	for _, page := range append(rest, examples...) {
		if !slices.Contains(pages, page) {
			pages = append(pages, page)
		}
	}
	if only != "" {
		pages = []string{only}
	}
	base, err := os.MkdirTemp("", "pages")
	if err != nil {
		return err
	}
	defer os.RemoveAll(base)
	r := reader{program: program, begun: filepath.Join(base, "begun"), limit: limit}
	if err := os.CopyFS(filepath.Join(r.begun, "examples"), os.DirFS("examples")); err != nil {
		return err
	}
	if err := r.begin(); err != nil {
		return err
	}
	for n, page := range pages {
		r.dir = filepath.Join(base, fmt.Sprint(n))
		from, to := r.begun, r.dir
		switch {
		case page == "README.md":
			from, to = "examples", filepath.Join(r.dir, "examples")
		case slices.Contains(examples, page):
			from = filepath.Dir(page)
		}
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			return err
		}
		if err := r.read(page); err != nil {
			return err
		}
	}
	fmt.Printf("\n%d commands and listings are as their pages say, %d are not, %d were left out\n", r.fine, len(r.failed), r.left)
	if len(r.failed) > 0 {
		return errors.New(strings.Join(r.failed, "\n"))
	}
	return nil
}

// reader follows pages.
type reader struct {
	program, begun, dir string
	limit               time.Duration
	fine, left          int
	failed              []string
	printed             strings.Builder // by the commands of a page
	serving             []served
}

// begin runs README's experiment and the commands below it, for the pages behind it.
func (r *reader) begin() error {
	listings, err := listingsOf("README.md")
	if err != nil {
		return err
	}
	r.dir = r.begun
	at := slices.IndexFunc(listings, func(l listing) bool { return l.language == "toml" })
	if at < 0 || at+1 == len(listings) {
		return errors.New("README.md has no listing of an experiment, followed by its commands")
	}
	if err := os.WriteFile(filepath.Join(r.dir, "mine.toml"), []byte(listings[at].text), 0o644); err != nil {
		return err
	}
	for _, line := range listings[at+1].commands() {
		if why := line.leaves(); why == "" && !line.serves() {
			if out, err := r.command(line.words); err != nil {
				return fmt.Errorf("README.md:%d: %s: %w\n%s", line.at, line.words, err, out)
			}
		}
	}
	return nil
}

// read runs a page.
func (r *reader) read(page string) (err error) {
	listings, err := listingsOf(page)
	if err != nil {
		return err
	}
	began := time.Now()
	r.printed.Reset()
	defer func() { err = errors.Join(err, r.end()) }()
	var shown []listing
	for _, l := range listings {
		switch {
		case l.language == "toml":
			if err := r.experiment(page, l); err != nil {
				return err
			}
		case l.language != "":
		case !l.isCommands():
			shown = append(shown, l)
		default:
			for _, line := range l.commands() {
				r.line(page, line)
			}
		}
	}
	for _, l := range shown {
		r.compare(page, l)
	}
	if len(listings) > 0 {
		fmt.Printf("      %s: %.1f minutes\n", page, time.Since(began).Minutes())
	}
	return nil
}

// line runs one command line.
func (r *reader) line(page string, line line) {
	place := fmt.Sprintf("%s:%d", page, line.at)
	if why := line.leaves(); why != "" {
		r.left++
		fmt.Printf("left  %s: %s (%s)\n", place, line.words, why)
		return
	}
	began := time.Now()
	run := r.command
	if line.serves() {
		run = r.serve
	}
	out, err := run(strings.TrimSuffix(line.words, " &"))
	r.printed.WriteString(out)
	r.judge(place, line.words, time.Since(began), out, err)
}

// judge counts a command's result.
func (r *reader) judge(place, what string, took time.Duration, out string, err error) {
	if err == nil {
		r.fine++
		fmt.Printf("ok    %s: %s (%.1f s)\n", place, what, took.Seconds())
		return
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	r.failed = append(r.failed, fmt.Sprintf("%s: %s: %v: %s", place, what, err, strings.Join(lines[max(0, len(lines)-3):], " / ")))
	fmt.Printf("FAIL  %s: %s: %v\n%s\n", place, what, err, out)
}

// experiment keeps a whole one as mine.toml, and plans a part of one together with the whole one. A part with another
// model is left out.
func (r *reader) experiment(page string, l listing) error {
	mine := filepath.Join(r.dir, "mine.toml")
	switch {
	case strings.Contains(l.text, "[run]"):
		return os.WriteFile(mine, []byte(l.text), 0o644)
	case strings.Contains(l.text, "[model]"):
		r.left++
		fmt.Printf("left  %s:%d: a part of an experiment (it needs a model of its own)\n", page, l.at)
		return nil
	}
	text, err := os.ReadFile(mine)
	if err != nil {
		return err
	}
	whole := string(text)
	if strings.Contains(l.text, "[[reward]]") {
		whole, _, _ = strings.Cut(whole, "[[reward]]")
	}
	if err := os.WriteFile(filepath.Join(r.dir, "listing.toml"), []byte(whole+"\n"+l.text), 0o644); err != nil {
		return err
	}
	began := time.Now()
	out, err := r.command("darkroom plan listing.toml")
	r.judge(fmt.Sprintf("%s:%d", page, l.at), "a part of an experiment, planned", time.Since(began), out, err)
	return nil
}

// compare looks for a listing's lines in the output of the page's commands.
func (r *reader) compare(page string, l listing) {
	plain := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	printed := plain(r.printed.String())
	var lacks []string
	for line := range strings.Lines(l.text) {
		if !strings.Contains(printed, plain(line)) {
			lacks = append(lacks, strings.TrimSpace(line))
		}
	}
	var err error
	if len(lacks) > 0 {
		err = fmt.Errorf("%d lines were not printed", len(lacks))
	}
	r.judge(fmt.Sprintf("%s:%d", page, l.at), "output", 0, strings.Join(lacks, "\n"), err)
}

// command runs a line to its end.
func (r *reader) command(words string) (string, error) {
	ctx, stop := context.WithTimeout(context.Background(), r.limit)
	defer stop()
	out, err := r.shell(ctx, words).CombinedOutput()
	return string(out), err
}

func (r *reader) shell(ctx context.Context, words string) *exec.Cmd {
	c := exec.CommandContext(ctx, "bash", "-c", words)
	c.Dir = r.dir
	c.WaitDelay = 10 * time.Second // a child of the shell keeps the output open when the shell is killed
	c.Env = append(os.Environ(), "PATH="+filepath.Dir(r.program)+":"+os.Getenv("PATH"), "NO_COLOR=1")
	return c
}

// served is a command that runs until its page ends.
type served struct {
	*exec.Cmd
	words string
	ended chan error
}

// serve starts a line and returns as soon as it seems to be at work: it has run for five seconds. One that ended by
// itself without an error is fine, too. A server that its page already runs is not started twice.
func (r *reader) serve(words string) (string, error) {
	if slices.ContainsFunc(r.serving, func(s served) bool { return s.words == words }) {
		return "", nil
	}
	file, err := os.Create(filepath.Join(r.dir, "served.txt"))
	if err != nil {
		return "", err
	}
	defer file.Close()
	s := served{r.shell(context.Background(), words), words, make(chan error, 1)}
	s.Stdout, s.Stderr = file, file
	child.Apart(s.Cmd)
	if err := s.Start(); err != nil {
		return "", err
	}
	go func() { s.ended <- s.Wait() }()
	select {
	case err = <-s.ended:
	case <-time.After(5 * time.Second):
		r.serving = append(r.serving, s)
	}
	out, unread := os.ReadFile(file.Name())
	return string(out), errors.Join(err, unread)
}

// end stops the servers of a page.
func (r *reader) end() error {
	var all error
	for _, s := range r.serving {
		if err := child.Kill(s.Cmd); !errors.Is(err, os.ErrProcessDone) { // its group's end may have been its own
			all = errors.Join(all, err)
		}
		<-s.ended
	}
	r.serving = nil
	return all
}
