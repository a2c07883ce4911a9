package win_test

import (
	"fmt"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/mpi/win"
	"github.com/goshmem/goshmem/shmem"
)

func check(err error) {
	if err != nil {
		panic(err) // a real program would handle the error
	}
}

// Each rank gives its right neighbor a value, and all ranks count in an element of rank 0.
func Example() {
	s, err := shmem.Init()
	check(err)
	m, err := mpi.Init()
	check(err)
	c := m.Comm()
	w, err := win.Allocate[int64](c, 2)
	check(err)
	clear(w.Local())
	check(w.Fence())
	check(w.Put([]int64{42}, (c.Rank()+1)%c.Size(), 0))
	check(win.Accumulate(w, []int64{1}, 0, 1, win.Sum))
	check(w.Fence()) // now all is there
	fmt.Println("from the left:", w.Local()[0])
	if c.Rank() == 0 {
		fmt.Println("ranks:", w.Local()[1])
	}
	check(w.Free())
	check(m.Finalize())
	check(s.Finalize())
	// Output:
	// from the left: 42
	// ranks: 1
}

// A lock makes several operations on a rank one.
func ExampleWin_Lock() {
	s, err := shmem.Init()
	check(err)
	m, err := mpi.Init()
	check(err)
	w, err := win.Allocate[float64](m.Comm(), 1)
	check(err)
	w.Local()[0] = 1.5
	check(w.Fence())
	grant, err := w.Lock(0, true)
	check(err)
	if grant.HolderDied {
		fmt.Println("rank", grant.Rank, "has died with the lock")
	}
	v := make([]float64, 1)
	check(w.Get(v, 0, 0))
	check(w.Put([]float64{2 * v[0]}, 0, 0))
	check(w.Unlock(0))
	fmt.Println(w.Local()[0])
	check(w.Free())
	check(m.Finalize())
	check(s.Finalize())
	// Output: 3
}
