package interop_test

import (
	"fmt"

	"github.com/goshmem/goshmem/interop"
	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
)

func fine(err error) {
	if err != nil {
		panic(err) // a program looks at its errors
	}
}

// A message tells its receiver that what was put before is in place.
func Example() {
	w, err := shmem.Init()
	fine(err)
	m, err := mpi.Init()
	fine(err)
	x, err := shmem.Calloc[int](w, 1)
	fine(err)
	c, right := m.Comm(), (w.MyPE()+1)%w.NPEs() // a PE, and the rank of the same number
	fine(shmem.P(w.Ctx(), x, 42, right))
	fine(w.Ctx().Quiet())
	fine(mpi.Send(c, []byte{}, right, 1))
	_, err = mpi.Recv(c, []byte{}, mpi.AnySource, 1)
	fine(err)
	fmt.Println(x.Local()[0])
	fine(w.Finalize())
	fine(m.Finalize())
	// Output: 42
}

// The PEs with even numbers get a communicator of their own.
func ExampleCommOf() {
	w, err := shmem.Init()
	fine(err)
	m, err := mpi.Init()
	fine(err)
	team, err := w.Team().SplitStrided(0, 2, (w.NPEs()+1)/2, nil)
	fine(err)
	if team != nil { // this PE is in it
		c, err := interop.CommOf(team)
		fine(err)
		sum := []int{0}
		fine(mpi.Allreduce(c, sum, []int{1}, mpi.Sum))
		fmt.Printf("rank %d of %d\n", c.Rank(), sum[0])
		fine(c.Free())
		fine(team.Destroy())
	}
	fine(m.Finalize())
	fine(w.Finalize())
	// Output: rank 0 of 1
}
