package track

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// client speaks to a server's REST API. MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and _PASSWORD, are sent
// where they are set, as MLflow's own client does.
type client struct {
	base  string
	http  http.Client
	pause time.Duration // before the second try; tests wait less
}

// tries are how often a request is sent that a server could not answer.
const tries = 5

// replyMost is how much of a reply is read.
const replyMost = 64 << 20

func newClient(address string) (*client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("mlflow=%s: it is no http address\nhint: write mlflow=http://HOST:5000", address)
	}
	return &client{base: strings.TrimRight(address, "/") + "/api/2.0/", http: http.Client{Timeout: time.Minute}, pause: time.Second}, nil
}

// refusal is a reply that says no.
type refusal struct {
	status int
	says   string
}

func (r refusal) Error() string {
	return fmt.Sprintf("the server answered %d: %s", r.status, r.says)
}

// missing reports whether the error is "not found".
func missing(err error) bool {
	var r refusal
	return errors.As(err, &r) && r.status == http.StatusNotFound
}

func (c *client) get(path string, into any) error {
	return c.ask(http.MethodGet, "mlflow/"+path, nil, into)
}

func (c *client) post(path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return c.ask(http.MethodPost, "mlflow/"+path, text, into)
}

func (c *client) put(path string, data []byte) error {
	return c.ask(http.MethodPut, path, data, nil)
}

// ask sends a request until it is answered.
func (c *client) ask(method, path string, body []byte, into any) error {
	pause := c.pause
	for n := 1; ; n++ {
		err := c.once(method, path, body, into)
		var no refusal
		again := err != nil && (!errors.As(err, &no) || no.status >= 500 || no.status == http.StatusTooManyRequests)
		if !again {
			return err
		}
		if n == tries {
			return fmt.Errorf("%w (asked %d times)", err, tries)
		}
		time.Sleep(pause)
		pause *= 2
	}
}

func (c *client) once(method, path string, body []byte, into any) error {
	r, err := http.NewRequest(method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	if token := os.Getenv("MLFLOW_TRACKING_TOKEN"); token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	} else if user := os.Getenv("MLFLOW_TRACKING_USERNAME"); user != "" {
		r.SetBasicAuth(user, os.Getenv("MLFLOW_TRACKING_PASSWORD"))
	}
	reply, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(io.LimitReader(reply.Body, replyMost))
	switch {
	case err != nil:
		return err
	case reply.StatusCode < 200 || reply.StatusCode > 299:
		return refusal{reply.StatusCode, strings.TrimSpace(string(text[:min(len(text), 300)]))}
	case into == nil:
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: the server's answer is not JSON: %w", path, err)
	}
	return nil
}
