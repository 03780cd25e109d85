package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/view/watch"
)

// darkroom watch: view/watch's page, served until the command is interrupted.

func watchCommand() *cobra.Command {
	o := watchOptions{}
	cmd := &cobra.Command{
		Use:   "watch [RUNS...]",
		Short: "Serve the live page of runs: gains, pictures, curves, conversations",
		Long: `Serve a page over the folders of runs, for a browser on this machine. RUNS are folders of runs, or
folders that hold some; without any it is runs. The page follows runs that are under way, and
finds new ones; it reads the folders alone, and writes nothing. /metrics has the latest numbers in
Prometheus' format. Ctrl-C ends it; runs go on.

Of another machine: 'ssh -L 7860:localhost:7860 MACHINE' beside 'darkroom watch' there, and
http://localhost:7860 here. Behind a proxy, as rented machines have it: --addr 0.0.0.0:7860 with
--host, the name in the proxy's address, and --token, since anyone can open that address.
--token @FILE reads the word from a file: other users of the machine see command lines.

'darkroom report' writes the same page as one file.`,
		Example: "  darkroom watch\n  darkroom watch runs/first runs/second --addr 127.0.0.1:8000\n  darkroom watch --addr 0.0.0.0:7860 --host abc-7860.proxy.example --token @token.txt",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"runs"}
			}
			return o.serve(cmd, args)
		},
	}
	cmd.Flags().StringVar(&o.address, "addr", "127.0.0.1:7860", "the `HOST:PORT` to answer at; port 0 takes a free one")
	cmd.Flags().StringSliceVar(&o.hosts, "host", nil, "a `NAME` that browsers may call the page by, as often as needed: a proxy's, or NAME:PORT of this machine; localhost and numbers are always known")
	cmd.Flags().StringVar(&o.token, "token", "", "a `WORD` that readers must have, or @FILE that has it: ADDRESS/?token=WORD once, or as a bearer's")
	return cmd
}

type watchOptions struct {
	address, token string
	hosts          []string
}

// serve answers until it is interrupted, which is how it ends.
func (o watchOptions) serve(cmd *cobra.Command, paths []string) error {
	host, port, err := net.SplitHostPort(o.address)
	if err != nil {
		return exits.Usagef("--addr %s: an address is HOST:PORT, as 127.0.0.1:7860", o.address)
	}
	names := []string{host}
	for _, name := range o.hosts {
		name, port, own := strings.Cut(name, ":")
		if _, err := strconv.ParseUint(port, 10, 16); name == "" || strings.ContainsAny(name, "/ *@") || own && err != nil {
			return exits.Usagef("--host %q is no name\nhint: the name alone, as abc-7860.proxy.example, or NAME:PORT of this machine; no https:// or *", name)
		}
		names = append(names, name)
	}
	from := "--token"
	if file, ok := strings.CutPrefix(o.token, "@"); ok {
		text, err := os.ReadFile(file)
		if err != nil {
			return exits.Usagef("--token: %v\nhint: 'openssl rand -hex 16 > %s' makes one", err, file)
		}
		from, o.token = "--token "+o.token, strings.TrimSpace(string(text))
	}
	if cmd.Flags().Changed("token") && o.token == "" {
		return exits.Usagef("%s is empty: the page would ask for nothing\nhint: a word, as of 'openssl rand -hex 16'; without --token everyone can read the page", from)
	}
	if o.token != url.QueryEscape(o.token) {
		return exits.Usagef("%s has no place in an address\nhint: letters, digits, - and _, as of 'openssl rand -hex 16'", from)
	}
	if host == "" {
		host, names[0] = "127.0.0.1", "127.0.0.1"
	}
	for _, path := range paths {
		if _, err := os.Stat(path); err != nil {
			cmd.PrintErrf("note: %s is not there yet: its runs appear with it\n", path)
		}
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return fmt.Errorf("--addr: %w\nhint: another port, or 0 for a free one", err)
	}
	if at, ok := listener.Addr().(*net.TCPAddr); ok && !at.IP.IsLoopback() && o.token == "" {
		cmd.PrintErrln("warning: anyone who reaches this address can read the runs: --token asks for a word")
	}
	s := watch.New(paths, watch.Options{Hosts: names, Token: o.token})
	ctx := cmd.Context()
	follows := make(chan struct{})
	go func() { defer close(follows); s.Follow(ctx) }()
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	context.AfterFunc(ctx, func() { _ = server.Close() }) // pages notice their connection's end
	at := o.opens(listener.Addr())
	if err := console.Emit(cmd, map[string]string{"url": at}, func(w io.Writer) { fmt.Fprintf(w, "watching at %s (Ctrl-C ends this page, not the runs)\n", at) }); err != nil {
		return errors.Join(err, listener.Close())
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-follows
	return nil
}

// opens is the address of the page for a browser: by https that of a proxy, whose name has no port; the named one of
// this machine; or the listener's, where that of all interfaces is localhost.
func (o watchOptions) opens(listens net.Addr) string {
	at := "http://" + listens.String()
	if tcp, ok := listens.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		at = fmt.Sprintf("http://localhost:%d", tcp.Port)
	}
	if len(o.hosts) > 0 {
		scheme := "https://"
		if strings.Contains(o.hosts[0], ":") {
			scheme = "http://"
		}
		at = scheme + o.hosts[0]
	}
	if o.token != "" {
		at += "/?token=" + o.token
	}
	return at
}
