// Command flood writes lines to standard output as fast as they are taken:
//
//	oshrun -n 2 flood [-line 80] [-bytes 100000000]
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
)

// blockBytes is the least size of a write.
const blockBytes = 64 << 10

func main() {
	line := flag.Int("line", 80, "`bytes` of a line")
	total := flag.Int("bytes", 100e6, "`bytes` to be written at least")
	flag.Parse()
	if *line < 1 || flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "flood: -line %d, arguments %q, want -line 1 or more and no arguments\n", *line, flag.Args())
		os.Exit(2)
	}
	one := append(bytes.Repeat([]byte("x"), *line-1), '\n')
	block := bytes.Repeat(one, (blockBytes+*line-1) / *line)
	for n := 0; n < *total; n += len(block) {
		if _, err := os.Stdout.Write(block); err != nil {
			fmt.Fprintln(os.Stderr, "flood:", err)
			os.Exit(1)
		}
	}
}
