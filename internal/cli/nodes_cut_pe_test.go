package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/goshmem/goshmem/shmem"
)

func init() {
	if os.Getenv(asOshrun) != "" {
		builtins["t-cut"] = testCut
	}
}

// cutPE is a PE of testCut.
type cutPE struct {
	w     *shmem.World
	file  string // lets the PEs end
	valid int    // the length of the last list of Validate

	mu   sync.Mutex
	out  *os.File          // what the PE has got, a line each
	last map[string]string // by the first word of lines: the last one
}

// testCut is the program of PEs that run collectives until a file is there. Each writes into a file of its own what they
// return, because no output of a node arrives that is cut off:
//
//	sum 4 without []      a sum of ones over the world's team, and the PEs that its outcome calls dead
//	valid []              the list that Validate returns
//	shrunk 3 sum 3        the size of the team that Shrink returns, and a sum of ones over that
//	heard [1]             the PEs that this one knows to be dead
//	error ...             an error of any of these
//	over                  all PEs that live have agreed on the end
//
// A line that is the same as the last of its kind is left out.
func testCut(args []string, stdout, stderr io.Writer) int {
	w, err := shmem.Init()
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	p := &cutPE{w: w, file: args[0], last: map[string]string{}}
	if p.out, err = os.Create(cutFile(args[0], w.MyPE())); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	w.OnFailure(func(shmem.Failure) { p.note("heard %v", w.Failed()) })
	fmt.Fprintf(stdout, "began %d %d %s\n", w.MyPE(), os.Getpid(), os.Getenv("PMIX_HOSTNAME"))
	for over := false; !over; {
		if over, err = p.round(); err == nil {
			continue
		}
		p.note("error %v", err)
		if over = exists(p.file); over { // those that have no error do not wait for this PE: it ends
			return 1
		}
	}
	p.note("over")
	if err := w.Finalize(); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// cutFile returns the file of a PE.
func cutFile(file string, pe int) string { return fmt.Sprintf("%s.%d", file, pe) }

// note writes a line, unless it is the last one of its kind.
func (p *cutPE) note(form string, values ...any) {
	line := fmt.Sprintf(form, values...)
	kind, _, _ := strings.Cut(line, " ")
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last[kind] != line {
		p.last[kind] = line
		_, _ = p.out.WriteString(line + "\n") // a line that is missing fails the test
	}
}

// round runs each collective once, and says whether all PEs that live have seen the file.
func (p *cutPE) round() (over bool, err error) {
	team := p.w.Team()
	sum, err := shmem.ReduceValue(team, 1, shmem.Sum)
	if err != nil {
		return false, fmt.Errorf("sum: %w", err)
	}
	p.note("sum %d without %v", sum, team.Outcome().Failed)
	failed, err := team.Validate()
	if err != nil {
		return false, fmt.Errorf("validate: %w", err)
	}
	p.note("valid %v", failed)
	if len(failed) != p.valid {
		p.valid = len(failed)
		if err := p.shrink(team); err != nil {
			return false, fmt.Errorf("shrink: %w", err)
		}
	}
	mine := uint64(0)
	if exists(p.file) {
		mine = 1
	}
	flags, err := team.Agree(mine)
	if err != nil {
		return false, fmt.Errorf("agree: %w", err)
	}
	<-time.After(time.Millisecond) // other processes need the processor, too
	return flags == 1, nil
}

// shrink makes a team of the survivors, and uses it.
func (p *cutPE) shrink(team *shmem.Team) error {
	s, err := team.Shrink()
	if err != nil {
		return err
	}
	sum, err := shmem.ReduceValue(s, 1, shmem.Sum)
	if err != nil {
		return err
	}
	p.note("shrunk %d sum %d", s.NPEs(), sum)
	return s.Destroy()
}
