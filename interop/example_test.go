package interop_test

import (
	"fmt"

	"github.com/goshmem/goshmem/interop"
	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
)

func check(err error) {
	if err != nil {
		panic(err) // a real program would handle the error
	}
}

// A message tells its receiver that a put before it is complete.
func Example() {
	w, err := shmem.Init()
	check(err)
	m, err := mpi.Init()
	check(err)
	x, err := shmem.Calloc[int](w, 1)
	check(err)
	c, right := m.Comm(), (w.MyPE()+1)%w.NPEs() // the PE and the rank have the same number
	check(shmem.P(w.Ctx(), x, 42, right))
	check(w.Ctx().Quiet())
	check(mpi.Send(c, []byte{}, right, 1))
	_, err = mpi.Recv(c, []byte{}, mpi.AnySource, 1)
	check(err)
	fmt.Println(x.Local()[0])
	check(w.Finalize())
	check(m.Finalize())
	// Output: 42
}

// The PEs with even numbers get a communicator of their own.
func ExampleCommOf() {
	w, err := shmem.Init()
	check(err)
	m, err := mpi.Init()
	check(err)
	team, err := w.Team().SplitStrided(0, 2, (w.NPEs()+1)/2, nil)
	check(err)
	if team != nil { // this PE is in it
		c, err := interop.CommOf(team)
		check(err)
		sum := []int{0}
		check(mpi.Allreduce(c, sum, []int{1}, mpi.Sum))
		fmt.Printf("rank %d of %d\n", c.Rank(), sum[0])
		check(c.Free())
		check(team.Destroy())
	}
	check(m.Finalize())
	check(w.Finalize())
	// Output: rank 0 of 1
}
