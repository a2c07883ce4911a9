// Command gen writes the documentation of the environment variables to a file.
package main

import (
	"fmt"
	"os"

	"github.com/goshmem/goshmem/internal/envvar"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintf(os.Stderr, "gen: %d arguments, want 1: the file to write\n", len(os.Args)-1)
		os.Exit(2)
	}
	if err := os.WriteFile(os.Args[1], []byte(envvar.Markdown()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}
