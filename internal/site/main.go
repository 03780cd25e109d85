// Command site writes README.md, docs and every page and file that these link to as static HTML:
//
//	go run ./internal/site -out runs/site   // make site
//
// Nothing is loaded from elsewhere, and a folder that is opened as file:// works like one that is served. Navigation is
// the table of README's "Pages". A link or a picture that leads nowhere is an error.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	out := flag.String("out", "runs/site", "the folder to write")
	flag.Parse()
	pages, err := write(".", *out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	fmt.Printf("%d pages: %s\n", pages, filepath.Join(*out, "index.html"))
}
