package detectbench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/shmem"
)

// The program of the PEs of jobs on several nodes. Victims wait for their end. Survivors wait in a call for a flag that is
// never set, until the call has named all victims, and report when.

// nodesWord is the first argument of the program.
const nodesWord = "nodes"

// afterTime is how long a survivor waits for false reports when it has learnt of all that failed.
const afterTime = 200 * time.Millisecond

// nodeLine is a line of output of a PE. Each PE prints one when it is ready; each survivor prints one with Seen.
type nodeLine struct {
	PE     int       `json:"pe"`
	PID    int       `json:"pid"`
	Parent int       `json:"parent"` // the daemon of its node
	Node   int       `json:"node"`
	Seen   *nodeSeen `json:"seen,omitempty"`
}

// nodeSeen is the report of a survivor. Times are of CLOCK_MONOTONIC; 0 means never.
type nodeSeen struct {
	Stored   time.Duration `json:"stored"`   // when the last victim was stored on the failure page of this node
	Returned time.Duration `json:"returned"` // when the blocked call had returned with all victims
	Called   time.Duration `json:"called"`   // when the callback had run for all victims
	Failed   []int         `json:"failed"`   // failed PEs in errors of the call
	Told     []int         `json:"told"`     // failed PEs in arguments of the callback
	Page     []int         `json:"page"`     // failed PEs on the page, afterTime later
	Error    string        `json:"error,omitempty"`

	// Of hybrid PEs only.
	MPI     time.Duration `json:"mpi,omitempty"`     // when receives from all victims had ended
	Models  []string      `json:"models,omitempty"`  // programming models whose declaration was seen
	Differs bool          `json:"differs,omitempty"` // a call of one model had returned, and the other one did not know of the victims
}

// nodePE is a PE of a measurement between nodes.
type nodePE struct {
	w      *shmem.World
	hybrid *hybridPE // nil: the PE uses shmem alone
	node   int
	limit  time.Duration
	nodeOf shmem.Sym[int64] // the node of each PE
	flag   shmem.Sym[int64] // never set
	dead   []int            // the victims
	calls  chan told
	out    *json.Encoder
}

// runNodePE runs this PE's part of a measurement between nodes.
func runNodePE(args []string, stdout io.Writer) (status int, err error) {
	if len(args) != 3 && (len(args) != 4 || args[3] != trafficWord) {
		return exitError, wrongArguments(args, "3 or 4: "+nodesWord+", a limit, the victims and perhaps "+trafficWord)
	}
	limit, err := time.ParseDuration(args[1])
	v, err2 := parseVictims(args[2])
	if err := errors.Join(err, err2); err != nil {
		return exitError, err
	}
	var w *shmem.World
	var h *hybridPE
	if args[0] == hybridWord {
		w, h, err = initBoth()
	} else {
		w, err = shmem.Init()
	}
	if err != nil {
		return exitError, err
	}
	p := &nodePE{w: w, hybrid: h, limit: limit, calls: make(chan told, w.NPEs()), out: json.NewEncoder(stdout)}
	if err := p.findNodes(v); err != nil {
		return exitError, err
	}
	cancel := w.OnFailure(func(f shmem.Failure) {
		p.calls <- told{xunix.Monotonic(), f.PEs}
	})
	defer cancel()
	if err := w.Barrier(); err != nil {
		return exitError, err
	}
	if err := p.print(nil); err != nil {
		return exitError, err
	}
	stop := func() {}
	if len(args) == 4 {
		if stop, err = p.startTraffic(); err != nil {
			return exitError, err
		}
	}
	if slices.Contains(p.dead, w.MyPE()) {
		<-time.After(2 * limit)
		return exitError, fmt.Errorf("this PE was to fail and still runs after %v", 2*limit)
	}
	s := p.learn()
	stop()
	w.AckFailed()
	if err := p.print(s); err != nil {
		return exitError, err
	}
	if h != nil {
		err = h.finalize()
	}
	return exitOK, errors.Join(err, w.Finalize())
}

// print prints the PE's line.
func (p *nodePE) print(s *nodeSeen) error {
	return p.out.Encode(nodeLine{PE: p.w.MyPE(), PID: os.Getpid(), Parent: os.Getppid(), Node: p.node, Seen: s})
}

// findNodes finds the node of each PE, and the victims.
func (p *nodePE) findNodes(v victims) error {
	name := os.Getenv(envvar.PMIxHostname)
	number, isEmulated := strings.CutPrefix(name, "node")
	node, err := strconv.Atoi(number)
	if !isEmulated || err != nil {
		return fmt.Errorf("%s is %q, want the name of an emulated node, such as node1", envvar.PMIxHostname, name)
	}
	p.node = node
	mine, err := shmem.Calloc[int64](p.w, 1)
	if err != nil {
		return err
	}
	if p.flag, err = shmem.Calloc[int64](p.w, 1); err != nil {
		return err
	}
	if p.nodeOf, err = shmem.Calloc[int64](p.w, p.w.NPEs()); err != nil {
		return err
	}
	mine.Local()[0] = int64(node)
	if err := shmem.FCollect(p.w.Team(), p.nodeOf, mine); err != nil {
		return err
	}
	var nodeOf []int
	for _, node := range p.nodeOf.Local() {
		nodeOf = append(nodeOf, int(node))
	}
	p.dead = v.pes(nodeOf)
	return nil
}

// learn waits until the call and the callback have named all victims.
func (p *nodePE) learn() *nodeSeen {
	ctx, stop := context.WithTimeout(context.Background(), p.limit)
	defer stop()
	s := &nodeSeen{}
	if p.hybrid != nil {
		go p.hybrid.receive(ctx, p)
		defer p.hybrid.finish(p, s)
	}
	if len(p.dead) == 0 {
		p.idle(ctx, s)
		return s
	}
	p.awaitReturns(ctx, s)
	if s.Failed == nil {
		stop() // the call saw no failure, so do not wait for a callback
	}
	p.awaitCalls(ctx, s)
	<-time.After(afterTime)
	page := job.Page()
	if page == nil {
		return s
	}
	all, _ := page.All()
	for _, f := range all {
		s.Page = append(s.Page, f.PE)
		if slices.Contains(p.dead, f.PE) {
			s.Stored = max(s.Stored, f.Stored)
		}
	}
	return s
}

// awaitReturns waits in the call, again and again, until it has named all victims.
func (p *nodePE) awaitReturns(ctx context.Context, s *nodeSeen) {
	for {
		err := shmem.WaitUntil(p.w.Ctx().With(ctx), p.flag, shmem.NE, 0)
		at := xunix.Monotonic()
		dead, ok := errors.AsType[*shmem.PEError](err)
		if !ok {
			if err != nil {
				s.Error = err.Error()
			}
			return
		}
		if s.Failed = union(s.Failed, dead.PEs); containsAll(s.Failed, p.dead) {
			s.Returned = at
			return
		}
		// Deaths that came after the return are acknowledged as well, so no further return names them.
		if s.Failed = union(s.Failed, p.w.AckFailed()); containsAll(s.Failed, p.dead) {
			s.Returned = xunix.Monotonic()
			return
		}
	}
}

// awaitCalls waits until the callback has got all victims.
func (p *nodePE) awaitCalls(ctx context.Context, s *nodeSeen) {
	for !containsAll(s.Told, p.dead) {
		select {
		case c := <-p.calls:
			if s.Told = union(s.Told, c.pes); containsAll(s.Told, p.dead) {
				s.Called = c.at
			}
		case <-ctx.Done():
			return
		}
	}
}

// union returns the numbers of both lists, ascending, each once.
func union(a, b []int) []int {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// containsAll says whether a list has all of some numbers.
func containsAll(all, some []int) bool {
	return !slices.ContainsFunc(some, func(n int) bool { return !slices.Contains(all, n) })
}
