package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/shmem"
)

// errLost is the error of a body that fails.
var errLost = errors.New("lost my way")

// testRun is a program that uses shmem.Run. Its last PE does what args[0] says, while the others wait for it in a
// barrier.
func testRun(args []string, stdout, _ io.Writer) int {
	if args[0] == "no body" {
		shmem.Run(nil)
	}
	var options []shmem.Option
	if args[0] == "bad option" {
		options = append(options, nil)
	}
	shmem.Run(func(w *shmem.World) error {
		if w.MyPE() == w.NPEs()-1 {
			switch args[0] {
			case "error":
				return fmt.Errorf("in the middle: %w", errLost)
			case "panic":
				panic("lost my way")
			case "wrong call":
				return shmem.Put(w.Ctx(), shmem.Sym[int]{}, []int{1}, 0)
			}
		}
		return w.Barrier()
	}, options...)
	fmt.Fprintln(stdout, "behind Run")
	return 0
}

// If the body fails, Run ends its PE with status 1 and the body's error, without waiting for the others. A panic
// behaves as usual in Go.
func TestRunBody(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		way    string
		status int
		words  []string
	}{
		{"well", 0, nil},
		{"error", 1, []string{": PE 2: in the middle: lost my way\n", "PE 2"}},
		{"wrong call", 1, []string{": PE 2: shmem.Put: "}},
		{"panic", 2, []string{"panic: lost my way"}},
		{"no body", 1, []string{": shmem.Run: body is nil"}},
		{"bad option", 1, []string{": shmem.Init: option 0 is nil"}},
	} {
		t.Run(test.way, func(t *testing.T) {
			j := start(t, "-n", "3", "t-run", test.way)
			j.expect(test.status, test.words...)
			want := 0
			if test.status == 0 {
				want = 3
			}
			if got := strings.Count(j.stdout.String(), "behind Run"); got != want {
				t.Errorf("%d PEs returned from Run, want %d", got, want)
			}
		})
	}
}

// Under --recover, an error of the body ends only its own PE.
func TestRunBodyRecover(t *testing.T) {
	t.Parallel()
	j := start(t, "-n", "3", "--recover", "t-run", "error")
	j.expect(3, "PE 2: in the middle: lost my way", "1 of 3 PEs failed")
	if got := strings.Count(j.stdout.String(), "behind Run"); got != 2 {
		t.Errorf("%d PEs returned from Run, want the 2 survivors", got)
	}
}
