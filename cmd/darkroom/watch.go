package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/view/watch"
)

// darkroom watch: view/watch's page, served until the command is interrupted.

func watchCommand() *cobra.Command {
	var address string
	cmd := &cobra.Command{
		Use:   "watch [RUNS...]",
		Short: "Serve the live page of runs: gains, pictures, curves, conversations",
		Long: `Serve a page over the folders of runs, for a browser on this machine. RUNS are folders of runs, or
folders that hold some; without any it is runs. The page follows runs that are under way, and
finds new ones; it reads the folders alone, and writes nothing. /metrics has the latest numbers in
Prometheus' format. Ctrl-C ends it; runs go on.

'darkroom report' writes the same page as one file.`,
		Example: "  darkroom watch\n  darkroom watch runs/first runs/second --addr 127.0.0.1:8000",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"runs"}
			}
			return serveWatch(cmd, address, args)
		},
	}
	cmd.Flags().StringVar(&address, "addr", "127.0.0.1:7860", "the `HOST:PORT` to answer at; port 0 takes a free one")
	return cmd
}

// serveWatch answers until it is interrupted, which is how it ends.
func serveWatch(cmd *cobra.Command, address string, paths []string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return exits.Usagef("--addr %s: an address is HOST:PORT, as 127.0.0.1:7860", address)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return fmt.Errorf("--addr: %w\nhint: another port, or 0 for a free one", err)
	}
	if at, ok := listener.Addr().(*net.TCPAddr); ok && !at.IP.IsLoopback() {
		cmd.PrintErrln("warning: anyone who reaches this address can read the runs; there is no password")
	}
	s := watch.New(paths, watch.Options{Hosts: []string{host}})
	ctx := cmd.Context()
	follows := make(chan struct{})
	go func() { defer close(follows); s.Follow(ctx) }()
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	context.AfterFunc(ctx, func() { _ = server.Close() }) // pages notice their connection's end
	url := "http://" + listener.Addr().String()
	if err := console.Emit(cmd, map[string]string{"url": url}, func(w io.Writer) { fmt.Fprintf(w, "watching at %s (Ctrl-C ends this page, not the runs)\n", url) }); err != nil {
		return errors.Join(err, listener.Close())
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-follows
	return nil
}
