package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/darkroom-rl/darkroom/outside/child"
	"github.com/darkroom-rl/darkroom/outside/plain"
)

// A monitor that fires calls a program or an address where [[monitor]] names one; one that stays broken calls once,
// until a value has kept its rule. Calls are made beside training, each with a time limit; one that fails is a warning,
// and never the run's end.

const (
	callLimit = 20 * time.Second
	callsMost = 4 // at once; further ones are left out, and said so
)

// calls are those under way, and what went wrong so far.
type calls struct {
	under  sync.WaitGroup
	lock   sync.Mutex
	active int
	failed []string
	limit  time.Duration // 0: callLimit; tests wait less
}

// alertNews is what is told, as JSON. Text and Content are what Slack's and Discord's addresses read.
type alertNews struct {
	Run       string `json:"run"`
	Folder    string `json:"folder"`
	Iteration int    `json:"iteration"`
	Watch     string `json:"watch"`
	Says      string `json:"says"`
	Then      string `json:"then"`
	Text      string `json:"text"`
	Content   string `json:"content"`
}

// alert tells of a monitor that fired, and does not wait for it.
func (t *training) alert(f fired, iteration int) {
	address := f.Webhook
	if f.WebhookEnv != "" {
		address = os.Getenv(f.WebhookEnv)
		if address == "" {
			t.calls.fail(fmt.Sprintf("monitor %s: the environment has no %s, so no message was sent", f.Watch, f.WebhookEnv))
		}
	}
	if len(f.Run) == 0 && address == "" {
		return
	}
	text := fmt.Sprintf("%s, iteration %d: %s (then: %s)", t.Experiment.Run.Name, iteration, f.says, f.Then)
	news, err := json.Marshal(alertNews{t.Experiment.Run.Name, t.files.folder.Dir, iteration, f.Watch, f.says, f.Then, text, text})
	if err != nil {
		t.calls.fail(err.Error())
		return
	}
	if len(f.Run) > 0 {
		t.calls.begin("program "+f.Run[0], func(ctx context.Context) error { return tellProgram(ctx, f.Run, news) })
	}
	if address != "" {
		t.calls.begin("the address of monitor "+f.Watch, func(ctx context.Context) error { return tellAddress(ctx, address, news) })
	}
}

// hears reports whether whoever a monitor calls hears of it: of a warning once, until it is whole again.
func (t *training) hears(f fired) bool {
	if len(f.Run) == 0 && f.Webhook == "" && f.WebhookEnv == "" || f.Then == "warn" && t.state.Told[f.Rule()] {
		return false
	}
	t.state.Told = orEmpty(t.state.Told)
	t.state.Told[f.Rule()] = true
	return true
}

// begin makes a call beside training.
func (c *calls) begin(what string, call func(ctx context.Context) error) {
	limit := c.limit
	if limit == 0 {
		limit = callLimit
	}
	c.lock.Lock()
	full := c.active == callsMost
	if !full {
		c.active++
	}
	c.lock.Unlock()
	if full {
		c.fail(fmt.Sprintf("%s was not told: %d calls are still under way", what, callsMost))
		return
	}
	c.under.Go(func() {
		ctx, stop := context.WithTimeout(context.Background(), limit)
		defer stop()
		err := call(ctx)
		if ctx.Err() != nil {
			err = fmt.Errorf("it took longer than %v", limit)
		}
		c.lock.Lock()
		c.active--
		c.lock.Unlock()
		if err != nil {
			c.fail(fmt.Sprintf("%s was not told that a monitor fired: %v", what, err))
		}
	})
}

func (c *calls) fail(why string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.failed = append(c.failed, why)
}

// sayFailed warns of calls that have failed since it was said last.
func (t *training) sayFailed() {
	t.calls.lock.Lock()
	failed := t.calls.failed
	t.calls.failed = nil
	t.calls.lock.Unlock()
	for _, why := range failed {
		t.Say("warning: %s", plain.Text(why))
	}
}

// endCalls waits for those under way.
func (t *training) endCalls() {
	t.calls.under.Wait()
	t.sayFailed()
}

// tellProgram starts a program with the news on its standard input.
func tellProgram(ctx context.Context, argv []string, news []byte) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(news), &firstBytes{to: &said, left: 300}
	cmd.Cancel, cmd.WaitDelay = func() error { return child.Kill(cmd) }, time.Second
	child.Apart(cmd)
	err := cmd.Run()
	if text := strings.TrimSpace(said.String()); err != nil && text != "" {
		return fmt.Errorf("%w: %s", err, text)
	}
	return err
}

// firstBytes keeps the beginning of what is written.
type firstBytes struct {
	to   *bytes.Buffer
	left int
}

func (f *firstBytes) Write(p []byte) (int, error) {
	n := min(len(p), f.left)
	f.left -= n
	f.to.Write(p[:n])
	return len(p), nil
}

// tellAddress posts the news. The address may be a secret: errors do not have it.
func tellAddress(ctx context.Context, address string, news []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(news))
	if err != nil {
		return errors.New("it is no address that can be posted to")
	}
	r.Header.Set("Content-Type", "application/json")
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	reply, err := client.Do(r)
	if err != nil {
		var where *url.Error
		if errors.As(err, &where) {
			err = where.Err
		}
		return err
	}
	defer reply.Body.Close()
	if reply.StatusCode < 200 || reply.StatusCode > 299 {
		text, _ := io.ReadAll(io.LimitReader(reply.Body, 200)) // it is only shown
		return fmt.Errorf("%s %s", reply.Status, strings.TrimSpace(string(text)))
	}
	return nil
}
