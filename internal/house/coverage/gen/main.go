// Command gen writes the table of OpenSHMEM's routines to a file. Its arguments are the folder of package shmem and
// the file.
package main

import (
	"fmt"
	"os"

	"github.com/goshmem/goshmem/internal/house/coverage"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintf(os.Stderr, "gen: %d arguments, want 2: the folder of package shmem and the file to write\n", len(os.Args)-1)
		os.Exit(2)
	}
	s, err := coverage.Load(os.Args[1])
	if err == nil {
		err = os.WriteFile(os.Args[2], []byte(s.Markdown()), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}
