// Package interrupts is Ctrl-C and the other signals that ask a program to end.
package interrupts

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

// last is the key of a context's last words.
type last struct{}

// Context is cancelled by the first signal. The second one says the last words and leaves, whatever the program does.
// It does not rely on the signal's default: shells start background commands with Ctrl-C ignored.
func Context(words, leave func()) context.Context {
	said := &atomic.Pointer[func()]{}
	said.Store(&words)
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), last{}, said))
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, endings()...)
	go func() {
		<-signals
		cancel()
		<-signals
		time.AfterFunc(time.Second, leave) // nobody may read the words
		(*said.Load())()
		leave()
	}()
	return ctx
}

// LastWords replaces those of the context's program.
func LastWords(ctx context.Context, words func()) {
	if said, ok := ctx.Value(last{}).(*atomic.Pointer[func()]); ok {
		said.Store(&words)
	}
}

// endings are the signals. A lost terminal is one, unless nohup disabled it.
func endings() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}
