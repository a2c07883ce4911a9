package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

// mostDaemons is how many nodes oshrun emulates at most.
const mostDaemons = 64

// Sixty-four daemons start, their PEs exchange data and fence, and all end; whether the front end starts the daemons
// itself, in a tree of two levels or in one of six.
func TestEmulatedMany(t *testing.T) { // its processes keep all processors busy, so nothing runs beside it
	if testing.Short() {
		t.Skip("starts some two hundred processes at a time")
	}
	program := testenv.CompileC(t, testenv.CC, filepath.Join("testdata", "modex.c"), testenv.LibPMIx)
	var want []string
	for rank := range mostDaemons {
		want = append(want, fmt.Sprintf("rank %d of %d on node %d has all", rank, mostDaemons, rank))
	}
	slices.Sort(want)
	for _, flags := range []string{"--launch-flat", "--launch-radix 32", "--launch-radix 2"} {
		t.Run(flags, func(t *testing.T) {
			began := time.Now()
			j := start(t, slices.Concat([]string{"--emulate", fmt.Sprint(mostDaemons), "-n", fmt.Sprint(mostDaemons)}, strings.Fields(flags), []string{program})...)
			status, said := j.ended(manyPatience)
			j.check(status, said, 0, nil)
			if got := linesOf(j); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			t.Logf("%d daemons: %v, said %q", mostDaemons, time.Since(began), said) // nothing, unless the machine is very busy
		})
	}
}

// manyPatience is how long a job of so many daemons may take, as the suite has it for some daemons, for each 16 of them.
const manyPatience = 20 * time.Second * mostDaemons / 16
