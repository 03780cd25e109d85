// Command pack keeps recorded cases small:
//
//	go run ./internal/golden/pack internal/golden/models/pipe_new          # the folder case becomes pipe_new.zip
//	go run ./internal/golden/pack -to runs/models internal/golden/models   # all cases as folders again
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/internal/golden"
)

func main() {
	to := flag.String("to", "", "a new or empty folder, which gets the cases as folders")
	flag.Parse()
	if err := work(*to, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func work(to string, folders []string) error {
	switch {
	case to != "" && len(folders) != 1:
		return fmt.Errorf("-to takes one folder of cases, not %d", len(folders))
	case to != "":
		return golden.Unpack(os.DirFS(folders[0]), to)
	}
	for _, dir := range folders {
		if _, err := os.Stat(filepath.Join(dir, "case.json")); err != nil {
			return fmt.Errorf("%s has no case.json: %w", dir, err)
		}
		if err := golden.Pack(os.DirFS(dir), filepath.Clean(dir)+golden.Ending); err != nil {
			return err
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}
