// Command startup joins its job, prints the time when it has joined, and leaves the job. A job of it costs
// only its start and its end.
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
