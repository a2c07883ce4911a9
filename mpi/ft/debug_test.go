//go:build mpidebug

package ft_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/mpi/ft"
)

// A request of a communicator that has further ranks is refused, and the block goes on.
func TestSubset(t *testing.T) {
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		pair, err := c.Split(c.Rank()/2, 0)
		ok(t, err)
		b := ft.Try(pair, ft.Global)
		q, err := c.Ibarrier()
		ok(t, err)
		_, err = b.Finish([]mpi.Request{q}, 0).Wait()
		if _, is := errors.AsType[*mpi.UsageError](err); !is || !strings.Contains(err.Error(), "subset") || b.Decision() != ft.Undecided {
			t.Fatalf("decision %v, error %v", b.Decision(), err)
		}
		_, err = q.Wait()
		ok(t, err)
		_, err = b.Finish(nil, 0).Wait()
		wantFaults(t, b, err, ft.Accept)
	})
}
