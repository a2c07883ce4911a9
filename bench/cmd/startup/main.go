// Command startup joins its job, says when it had done so, and leaves it: what
// is left is the cost of starting and ending a job.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/goshmem/goshmem/shmem"
)

func main() {
	w, err := shmem.Init()
	if err == nil {
		fmt.Println(time.Now().UnixNano())
		err = w.Finalize()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "startup:", err)
		os.Exit(1)
	}
}
