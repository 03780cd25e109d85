package main

import (
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/rewards"
)

// drainTime is what requests that are being answered have after an interrupt.
const drainTime = 30 * time.Second

// serveReward answers until it is interrupted, and then ends what it is answering.
func serveReward(cmd *cobra.Command, address, name string, j rewards.Judge) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return usagef("--serve %s: an address is :PORT or HOST:PORT", address)
	}
	if host == "" {
		host = "localhost"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return fmt.Errorf("--serve: %w", err)
	}
	cmd.PrintErrf("reward %s answers at http://%s\n", name, l.Addr())
	return rewards.Server{Judge: j}.Run(cmd.Context(), l, drainTime)
}
