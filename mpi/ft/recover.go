package ft

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"

	"github.com/goshmem/goshmem/mpi"
)

// Policy says what Recover makes of a communicator that has dead ranks.
type Policy int

// The policies. Ranks 0 to 3, of which rank 1 has died, become:
//
//	Shrink   0 2 3 -> 0 1 2                 three ranks
//	Merge    0 2 3 and a new one -> 0 1 2 3 the new one is rank 3
//	Rebuild  0 2 3 and a new one -> 0 2 3 1 the new one is rank 1
const (
	Shrink  Policy = iota // the ranks that live, in their order
	Merge                 // as many ranks as before: those that live, and then new processes
	Rebuild               // as many ranks as before: each rank that lives keeps its number, and new processes have those of the dead
)

// ErrGivenUp reports, in a process that Recover has started, that it is not needed: the recovery has failed, and the others try again with other ones.
// The process should end, with status 0.
var ErrGivenUp = errors.New("the recovery that has started this process was given up")

// joinVar is the environment variable of processes that Recover starts.
const joinVar = "GOSHMEM_FT_JOIN"

// attempts is how often Recover starts processes in vain, while nobody else dies, before it gives up.
const attempts = 3

var joined atomic.Bool // Join was called in this process, which Recover has started

// isStarted reports whether Recover has started this process, and Join was not called.
func isStarted() bool { return os.Getenv(joinVar) != "" && !joined.Load() }

// Init is mpi.Init for programs that call Recover or Run. In a process that Recover has started, and that is not needed any more, its error is ErrGivenUp.
//
//   - Collective: as mpi.Init.
func Init() (*mpi.World, error) {
	w, err := mpi.Init()
	if err != nil && isStarted() {
		err = errors.Join(ErrGivenUp, err)
	}
	return w, err
}

// planTag is the tag of the message that tells a new process its rank.
const planTag = 0

// Self returns the command that starts this program once more, with the same arguments.
func Self() (mpi.Command, error) {
	path, err := os.Executable()
	return mpi.Command{Path: path, Args: os.Args[1:]}, err
}

// Recover makes a communicator in place of one that has dead ranks, whoever dies meanwhile. It starts new processes by a command, unless the policy is
// Shrink; they call Init, and then Join or Run. c stays as it is: free it after that.
//
//   - Completion: all ranks of the new communicator have it, the new ones as well, or all have begun anew with those that lived on.
//   - Errors: those of Shrink; mpi.ErrSpawn at all ranks that live if no process can be started, or new ones have died three times.
//   - Cost: Shrink: that of Comm.Shrink. Otherwise as well the start of the processes (mpi.Spawn), Merge, Split and an agreement.
//   - Collective: over the ranks that live. They give the same policy.
//   - Source: RECOVER_MPI of Algorithm 1 of FA-MPI; MPI_Comm_irebuild.
func Recover(c *mpi.Comm, policy Policy, command mpi.Command, opts ...Option) (*mpi.Comm, error) {
	o := optionsOf(opts)
	return o.recover(c, policy, command)
}

// recover is Recover.
func (o *options) recover(c *mpi.Comm, policy Policy, command mpi.Command) (*mpi.Comm, error) {
	if policy < Shrink || policy > Rebuild {
		return nil, &mpi.UsageError{Op: "ft.Recover", Msg: fmt.Sprintf("policy %d, want Shrink, Merge or Rebuild", policy), Err: mpi.ErrArgument}
	}
	command.Env = append(slices.Clone(command.Env), joinVar+"=1")
	for tried, size := 0, 0; ; {
		rest, err := c.Shrink()
		o.end(PhaseShrink)
		if err != nil || policy == Shrink || rest.Size() == c.Size() {
			return rest, err
		}
		if rest.Size() != size {
			tried, size = 0, rest.Size()
		}
		made, err := o.replace(c, rest, policy, command)
		_ = rest.Free()
		if tried++; err == nil || tried == attempts {
			return made, err
		}
	}
}

// replace starts processes in place of the ranks of c that are not in rest. Either all ranks get an error, or none.
func (o *options) replace(c, rest *mpi.Comm, policy Policy, command mpi.Command) (*mpi.Comm, error) {
	ranks, err := c.Group().Translate(sequence(c.Size()), rest.Group())
	if err != nil {
		return nil, err
	}
	var dead []int
	mine := rest.Rank()
	for rank, now := range ranks {
		switch {
		case now < 0:
			dead = append(dead, rank)
		case now == rest.Rank() && policy == Rebuild:
			mine = rank
		}
	}
	if policy == Merge {
		for i := range dead {
			dead[i] = rest.Size() + i
		}
	}
	x, failed := mpi.Spawn(rest, command, len(dead), 0)
	flag := uint64(1)
	if failed != nil {
		flag = 0
	}
	all, err := rest.Agree(flag)
	o.end(PhaseSpawn)
	if all != 1 || err != nil {
		if x != nil {
			leave(x)
		}
		if failed == nil {
			failed = fmt.Errorf("ft.Recover: %w: another rank's error says why", mpi.ErrSpawn)
		}
		return nil, failed
	}
	if rest.Rank() == 0 {
		for i, rank := range dead {
			_ = mpi.Send(x.Remote(), []int{rank}, i, planTag) // Agree finds a child that has died
		}
	}
	made, err := join(x, false, mine)
	o.end(PhaseJoin)
	if err != nil {
		err = fmt.Errorf("ft.Recover: %w: the new processes have not come: %w", mpi.ErrSpawn, err)
	}
	return made, err
}

// sequence returns 0, 1, ... n-1.
func sequence(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// join makes the communicator of both sides, in which this process has a rank. Either all that live have it, or none.
func join(x *mpi.Intercomm, high bool, rank int) (*mpi.Comm, error) {
	merged, err := x.Merge(high)
	var made *mpi.Comm
	if err == nil {
		made, err = merged.Split(0, rank)
	}
	flag := uint64(1)
	if err != nil {
		flag = 0
	}
	all, failed := x.Agree(flag)
	if failed == nil && all == 1 {
		_, _ = merged.Free(), x.Free()
		return made, nil
	}
	for _, c := range []*mpi.Comm{made, merged} {
		if c != nil {
			_, _ = c.Revoke(), c.Free()
		}
	}
	leave(x)
	return nil, errors.Join(err, failed, errApart)
}

// errApart reports that the two sides have not come together.
var errApart = errors.New("a rank has died, or has failed, meanwhile")

// leave ends the use of an Intercomm whose ranks may wait for each other.
func leave(x *mpi.Intercomm) { _, _ = x.Revoke(), x.Free() }

// Join returns, in a process that Recover has started, the communicator that it is a rank of, as those have it that live. In any other process, and when it is
// called again, it returns nil.
//
//   - Errors: ErrGivenUp.
//   - Source: MPI_Comm_irebuild_join of FA-MPI.
func Join(w *mpi.World) (*mpi.Comm, error) {
	x := w.Parent()
	if x == nil || !isStarted() {
		return nil, nil //nolint:nilnil // as documented
	}
	joined.Store(true)
	rank := make([]int, 1)
	if _, err := mpi.Recv(x.Remote(), rank, 0, planTag); err != nil {
		leave(x)
		return nil, errors.Join(ErrGivenUp, err)
	}
	c, err := join(x, true, rank[0])
	if err != nil {
		err = errors.Join(ErrGivenUp, err)
	}
	return c, err
}
