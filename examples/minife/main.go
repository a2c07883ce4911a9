// Command minife solves Laplace's equation in the unit cube by finite elements, as the benchmark MiniFE does. It goes on when ranks die. Package
// [github.com/goshmem/goshmem/examples/minife/minife] is the program.
//
//	oshrun -n 8 ./minife --nx 64
//	oshrun -n 8 --recover ./minife --nx 32 --kill 3@50 --policy shrink
package main

import (
	"fmt"
	"os"

	"github.com/goshmem/goshmem/examples/minife/minife"
)

func main() {
	if err := minife.Run(os.Args[1:], os.Stdout, nil); err != nil {
		fmt.Fprintln(os.Stderr, "minife:", err)
		os.Exit(1)
	}
}
