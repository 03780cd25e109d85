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
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// A monitor that fires calls a program or an address where [[monitor]] names one; one that stays broken calls once,
// until a value has kept its rule. Calls are made beside training, each with a time limit; one that fails is a warning,
// and never the run's end.

const (
	alertLimit = 20 * time.Second
	alertsMost = 4 // at once; further ones are dropped with a warning
)

// alerts are the messages of monitors that are being delivered, and the failures so far.
type alerts struct {
	run, folder string // of the messages
	deliveries  sync.WaitGroup
	lock        sync.Mutex
	active      int
	failed      []string
	limit       time.Duration // 0: alertLimit; tests wait less
}

// fired is a monitor whose rule was broken.
type fired struct {
	experiment.Monitor
	says string
}

// alert is a message in JSON. Text and Content are what Slack's and Discord's addresses read.
type alert struct {
	Run       string `json:"run"`
	Folder    string `json:"folder"`
	Iteration int    `json:"iteration"`
	Watch     string `json:"watch"`
	Says      string `json:"says"`
	Then      string `json:"then"`
	Text      string `json:"text"`
	Content   string `json:"content"`
}

// send delivers the message of a monitor that fired, beside training.
func (a *alerts) send(f fired, iteration int) {
	address := f.Webhook
	if f.WebhookEnv != "" {
		address = os.Getenv(f.WebhookEnv)
		if address == "" {
			a.fail(fmt.Sprintf("monitor %s: the environment has no %s, so no message was sent", f.Watch, f.WebhookEnv))
		}
	}
	if len(f.Run) == 0 && address == "" {
		return
	}
	text := fmt.Sprintf("%s, iteration %d: %s (then: %s)", a.run, iteration, f.says, f.Then)
	message, err := json.Marshal(alert{a.run, a.folder, iteration, f.Watch, f.says, f.Then, text, text})
	if err != nil {
		a.fail(err.Error())
		return
	}
	if len(f.Run) > 0 {
		a.deliver("program "+f.Run[0], func(ctx context.Context) error { return runProgram(ctx, f.Run, message) })
	}
	if address != "" {
		a.deliver("the address of monitor "+f.Watch, func(ctx context.Context) error { return post(ctx, address, message) })
	}
}

// deliver makes a call beside training.
func (a *alerts) deliver(to string, call func(ctx context.Context) error) {
	limit := a.limit
	if limit == 0 {
		limit = alertLimit
	}
	a.lock.Lock()
	full := a.active == alertsMost
	if !full {
		a.active++
	}
	a.lock.Unlock()
	if full {
		a.fail(fmt.Sprintf("%s was not told: %d calls are still under way", to, alertsMost))
		return
	}
	a.deliveries.Go(func() {
		ctx, stop := context.WithTimeout(context.Background(), limit)
		defer stop()
		err := call(ctx)
		if ctx.Err() != nil {
			err = fmt.Errorf("it took longer than %v", limit)
		}
		a.lock.Lock()
		a.active--
		a.lock.Unlock()
		if err != nil {
			a.fail(fmt.Sprintf("%s was not told that a monitor fired: %v", to, err))
		}
	})
}

func (a *alerts) fail(why string) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.failed = append(a.failed, why)
}

// warn reports the messages that have failed since it was called last.
func (a *alerts) warn(say say) {
	a.lock.Lock()
	failed := a.failed
	a.failed = nil
	a.lock.Unlock()
	for _, why := range failed {
		say("warning: %s", plain.Text(why))
	}
}

// wait waits for all messages.
func (a *alerts) wait(say say) {
	a.deliveries.Wait()
	a.warn(say)
}

// runProgram starts a program with a message on its standard input.
func runProgram(ctx context.Context, argv []string, message []byte) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(message), &firstBytes{to: &said, left: 300}
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

// post sends a message to an address. The address may be a secret: errors do not have it.
func post(ctx context.Context, address string, message []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(message))
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
