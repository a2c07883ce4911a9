package main

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/goshmem/goshmem/shmem"
)

func main() {
	w, err := shmem.Init()
	if err != nil { panic(err) }
	x, err := shmem.Alloc[int64](w, 64)
	if err != nil { panic(err) }
	if err := w.Barrier(); err != nil { panic(err) }
	if w.MyPE() == 0 {
		c := w.Ctx()
		run := func(name string, f func() error) {
			for range 500 { if err := f(); err != nil { panic(err) } }
			var best []time.Duration
			for range 30 {
				t := time.Now()
				for range 300 { if err := f(); err != nil { panic(err) } }
				best = append(best, time.Since(t)/300)
			}
			slices.Sort(best)
			fmt.Printf("%s %s min %v median %v\n", os.Getenv("GOSHMEM_EXPRESS"), name, best[0], best[len(best)/2])
		}
		run("get8", func() error { _, err := shmem.G(c, x, 1); return err })
		run("fadd", func() error { _, err := shmem.AtomicFetchAdd(c, x, 1, 1); return err })
	}
	if err := w.Barrier(); err != nil { panic(err) }
	if err := w.Finalize(); err != nil { panic(err) }
}
