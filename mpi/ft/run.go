package ft

import (
	"errors"
	"fmt"
	"math"

	"github.com/goshmem/goshmem/mpi"
)

// Role says how a process has come into Run's body.
type Role int

// The roles.
const (
	Initial   Role = iota // by the start of the job
	Survivor              // again, after a recovery
	Recovered             // in place of a rank that has died
)

// String returns the role in a word.
func (r Role) String() string { return [...]string{"initial", "survivor", "recovered"}[r%3] }

// State is what Run's body gets.
type State struct {
	Comm *mpi.Comm // the ranks; another one after each recovery
	Role Role

	// Epoch is the last one that all ranks that live have committed, -1 if there is none. A survivor that had committed the one after it goes back.
	Epoch int

	committed int
	began     bool // body was called
	o         options
}

// Commit notes that this rank has done an epoch, after a block that was accepted. Epochs are numbered from 0 on, in their order.
func (s *State) Commit(epoch int) { s.committed = epoch }

// Run calls body, and calls it again at all ranks each time that ranks have died and Recover has made another communicator, until it has returned nil at all
// ranks.
//
//   - body returns the error of a block, or of any call on the communicator, and Run recovers from it. Other errors are returned by Run, and should end the
//     process.
//   - A process that is started in place of a dead one calls Run as well: its body begins with the role Recovered. It should get its data from a
//     survivor.
//   - Errors: those of body that are none of a death; those of Recover; ErrGivenUp, after which a process ends with status 0.
//   - Collective: over all ranks, once in a program: after a recovery the World's communicator is of no use any more.
//   - Source: Reinit, and the role of Fenix_Init.
func Run(w *mpi.World, policy Policy, command mpi.Command, body func(s *State) error, opts ...Option) error {
	s := &State{Comm: w.Comm(), Epoch: -1, committed: -1, began: true, o: optionsOf(opts)}
	joined, err := Join(w)
	if err != nil {
		return err
	}
	if joined != nil {
		s.Comm, s.Role, s.began = joined, Recovered, false
		s.o.end(PhaseJoin)
		if err := s.meet(); err != nil {
			if err := s.recover(err, policy, command); err != nil {
				return err
			}
		}
	}
	for {
		s.began = true
		failed := body(s)
		if failed != nil && !isOfDeath(failed) {
			return failed
		}
		if done, err := s.finish(failed); done || err != nil {
			return err
		}
		s.Role = Survivor
		s.o.end(PhaseAgree)
		if err := s.recover(mpi.ErrDied, policy, command); err != nil {
			return err
		}
	}
}

// finish agrees whether all ranks have returned from body without an error.
func (s *State) finish(failed error) (done bool, err error) {
	flag := uint64(1)
	if failed != nil {
		flag = 0
		if err := s.Comm.Revoke(); err != nil { // others may wait in body
			return false, err
		}
	}
	all, err := s.Comm.Agree(flag)
	switch {
	case err == nil:
		return all == 1, nil
	case flag == 1 && errors.Is(err, mpi.ErrRankFinalized) && !errors.Is(err, mpi.ErrDied): // ranks finalize only after all have been done
		return true, nil
	case !isOfDeath(err):
		return false, err
	}
	return false, nil
}

// recover makes the communicator of the next call of body, after an error.
func (s *State) recover(err error, policy Policy, command mpi.Command) error {
	for err != nil {
		if !isOfDeath(err) {
			return err
		}
		made, failed := s.o.recover(s.Comm, policy, command)
		if failed != nil {
			return failed
		}
		_ = s.Comm.Free() // of the World's it is an error
		s.Comm = made
		err = s.meet()
	}
	return nil
}

// meet is agreeEpoch. After an error of a death the ranks leave the communicator as they do after body: others may be in body already, and have left it
// so.
func (s *State) meet() error {
	err := s.agreeEpoch()
	if err != nil && isOfDeath(err) {
		if _, err := s.finish(err); err != nil {
			return err
		}
	}
	return err
}

// agreeEpoch finds the last epoch that all ranks have committed that were there before. All ranks get it, or all get an error.
func (s *State) agreeEpoch() error {
	mine, least := []int{math.MaxInt}, []int{0}
	if s.began {
		mine[0] = s.committed
	}
	b := Try(s.Comm, Global)
	_ = b.Add(mpi.Iallreduce(s.Comm, least, mine, mpi.Min)) // an error is a fault of the block
	_, err := b.Finish(nil, 0).Wait()
	s.o.end(PhaseEpoch)
	if err != nil {
		return err
	}
	if least[0] == math.MaxInt {
		return fmt.Errorf("ft.Run: %w: no rank is left that was there before", ErrGivenUp)
	}
	s.Epoch, s.committed = least[0], least[0]
	return nil
}

// isOfDeath reports whether an error is one that Run recovers from.
func isOfDeath(err error) bool {
	if decision, is := IsFault(err); is {
		return decision == Reject
	}
	return errors.Is(err, mpi.ErrDied) || errors.Is(err, mpi.ErrRevoked) || errors.Is(err, mpi.ErrCommBroken) || errors.Is(err, mpi.ErrRankFinalized)
}
