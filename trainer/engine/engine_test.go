package engine

import (
	"context"
	"strings"
	"testing"
	"time"
)

// TestPasswordStays: an error names the engine without the password of its URL.
func TestPasswordStays(t *testing.T) {
	for _, kind := range []string{"vllm", "sglang"} {
		e, err := Open(Options{Kind: kind, URL: "http://me:secret@127.0.0.1:1/v1", Timeout: time.Second, Tries: 1})
		if err != nil {
			t.Fatal(err)
		}
		_, asked := e.Generate(context.Background(), Request{})
		for _, err := range []error{asked, e.Load(context.Background(), "a", "/a")} {
			if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "me:xxxxx@127.0.0.1:1") {
				t.Errorf("%s: %v", kind, err)
			}
		}
	}
	if _, err := Open(Options{Kind: "vllm", URL: "http://me:secret@[::1"}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a URL that is none: %v", err)
	}
}
