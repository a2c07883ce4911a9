package launch

import (
	"io"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/ending"
)

// Ends of PEs in these tests.
var killed, failed = ending.End{Signal: 9}, ending.End{Code: 9}

// watched returns a run of n PEs that goes on after failures.
func watched(t *testing.T, n int) *run {
	t.Helper()
	o := &Options{Apps: []App{{NPEs: n}}, Recover: true, Stdout: io.Discard, Stderr: io.Discard}
	out, err := newPrinter(o)
	if err != nil {
		t.Fatal(err)
	}
	r := newRun(o, nil, out)
	t.Cleanup(func() { close(r.over) })
	return r
}

func (r *run) sees(kind daemon.Kind, pe int, e ending.End) {
	r.event(daemon.Event{Kind: kind, ID: daemon.ID{PE: pe}, End: e})
}

// A PE that was killed is reported as the first failure, even if PEs that lost their connection to it were seen to end
// before.
func TestCauseComesFirst(t *testing.T) {
	r := watched(t, 4)
	r.sees(daemon.Lost, 2, ending.End{})
	r.sees(daemon.Lost, 1, ending.End{})
	r.sees(daemon.Failed, 1, failed)
	r.sees(daemon.Failed, 0, failed)
	if len(r.dead) > 0 {
		t.Fatalf("%v is reported before PE 2, which lost its connection first", &r.dead[0])
	}
	r.sees(daemon.Failed, 2, killed)
	r.sees(daemon.Lost, 2, ending.End{}) // arrives late
	r.sees(daemon.Failed, 3, failed)
	for i, want := range []int{2, 1, 0, 3} {
		if len(r.dead) != 4 || r.dead[i].id.PE != want {
			t.Fatalf("failures in the order %v, want PEs 2, 1, 0, 3", r.dead)
		}
	}
	if r.conclude(); r.status != StatusSignal+9 {
		t.Errorf("status %d, want that of PE 2: %d", r.status, StatusSignal+9)
	}
}

// A PE that has no program any more but goes on does not delay the reports of other ends forever.
func TestNobodyWaitsForTheForsaken(t *testing.T) {
	r := watched(t, 2)
	r.sees(daemon.Lost, 0, ending.End{})
	r.sees(daemon.Failed, 1, failed)
	if len(r.dead) > 0 {
		t.Fatalf("%v is reported before PE 0, which lost its connection first", &r.dead[0])
	}
	r.noteParted(daemon.ID{PE: 0})
	if len(r.dead) != 1 || r.dead[0].id.PE != 1 {
		t.Errorf("failures %v, want PE 1", r.dead)
	}
}

// The list of failures follows the message on each failure. Such a message waits for the PE's output.
func TestListOfFailuresIsLast(t *testing.T) {
	r := watched(t, 2)
	var text strings.Builder
	r.out.sinks[daemon.Stderr] = newSink(io.Discard, &text, r.out.note)
	r.event(daemon.Event{Kind: daemon.Failed, End: killed, Written: daemon.Written{Stdout: 5, Stderr: 1}})
	r.conclude()
	r.out.write(daemon.ID{}, daemon.Stdout, []byte("text\n"))
	<-r.out.sinks[daemon.Stderr].flushed()
	if text.Len() > 0 {
		t.Errorf("%q is printed before the PE's own output", &text)
	}
	r.out.end(daemon.ID{}, daemon.Stderr) // as when the node closes
	r.out.flush()
	r.printFailures()
	<-r.out.sinks[daemon.Stderr].flushed()
	one, list := strings.Index(text.String(), " goes on"), strings.Index(text.String(), "PEs failed:")
	if one < 0 || list < one {
		t.Errorf("want the list last:\n%s", &text)
	}
}
