// Command oshrun starts goshmem jobs; see oshrun help.
package main

import (
	"os"

	"github.com/goshmem/goshmem/internal/cli"
)

func main() { os.Exit(cli.Execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
