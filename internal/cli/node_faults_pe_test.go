package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/goshmem/goshmem/shmem"
)

func init() {
	if os.Getenv(asOshrun) != "" {
		builtins["t-node-faults"] = testNodeFaults
	}
}

// Files in the directory of a job of testNodeFaults.
const (
	nodeFaultGo   = "go"   // lets the PE call Init that holds back
	nodeFaultStop = "stop" // lets all PEs come to their end
)

// How many elements a Broadcast and a Reduce of testNodeFaults have: more than an arrival word holds.
const nodeFaultBlock = 500

// nodeFaultPE is a PE of testNodeFaults.
type nodeFaultPE struct {
	w      *shmem.World
	c      *shmem.Ctx
	me, n  int
	dir    string
	phase  string
	stdout io.Writer

	words    shmem.Sym[uint64] // element i is put by PE i
	src, dst shmem.Sym[uint64] // of collectives
	seq      uint64            // number of the round: the same on all PEs that call collectives
	heard    []int             // whom the page named when this PE last said so
	Report   nodeFaultReport

	mu     sync.Mutex
	called []int // whom the callback of OnFailure has named
}

// nodeFaultReport is what a PE says before Finalize; a PE that is in Finalize during the faults says it afterwards.
type nodeFaultReport struct {
	PE, Rounds int
	Least      int   // how many PEs a reduction has counted at least
	Failed     []int // as the page says; nil after Finalize
	Called     []int // as the callback of OnFailure says
	Accused    []int // PEs that errors have named
	Wrong      []string
}

// testNodeFaults is the program of the PEs of TestNodeFaults. Its arguments are a directory, what the PEs call while faults
// come, and the PE that holds back from Init, or -1. Each PE says whom it takes for dead as soon as it learns of it, until a
// file is in the directory. Then it reports, and calls Finalize.
func testNodeFaults(args []string, stdout, stderr io.Writer) int {
	p := &nodeFaultPE{dir: args[0], phase: args[1], stdout: stdout, me: number(os.Getenv("PMIX_RANK"))}
	p.Report.PE, p.Report.Wrong = p.me, []string{}
	fmt.Fprintf(stdout, "began %d %d %s\n", p.me, os.Getpid(), os.Getenv("PMIX_HOSTNAME"))
	for p.me == number(args[2]) && !exists(filepath.Join(p.dir, nodeFaultGo)) {
		<-time.After(time.Millisecond)
	}
	err := p.begin()
	switch {
	case p.w == nil:
		p.insist(err)
		p.report()
	case err != nil:
		fmt.Fprintln(stderr, err)
		return 1
	case p.phase == phaseFinalize && p.w.Shared().MyPE() > 0:
		fmt.Fprintf(stdout, "busy %d\n", p.me)
		if err = p.w.Finalize(); err == nil {
			p.report()
		}
	default:
		p.run()
		p.touchDead()
		p.Report.Failed = p.w.Failed()
		p.report()
		err = p.w.Finalize()
	}
	if p.w != nil && err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	fmt.Fprintf(stdout, "left %d\n", p.me)
	return 0
}

// begin joins the job and allocates. PEs may have died before: then the world is nil, or the allocation has failed on all
// PEs that live, which do without it.
func (p *nodeFaultPE) begin() (err error) {
	if p.w, err = shmem.Init(); err != nil {
		return err
	}
	p.c, p.n = p.w.Ctx(), p.w.NPEs()
	p.Report.Least = p.n
	p.w.OnFailure(p.take)
	if p.phase == phaseStart { // no memory: PEs may be dead, and others may not have come through Init
		return nil
	}
	if p.words, err = shmem.Calloc[uint64](p.w, p.n); err != nil {
		return err
	}
	if p.src, err = shmem.Calloc[uint64](p.w, nodeFaultBlock); err == nil {
		p.dst, err = shmem.Calloc[uint64](p.w, nodeFaultBlock)
	}
	return err
}

// take is the callback of OnFailure.
func (p *nodeFaultPE) take(f shmem.Failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.called = append(p.called, f.PEs...)
	slices.Sort(p.called)
	p.say("called", p.called)
}

// say prints a list of PEs.
func (p *nodeFaultPE) say(what string, pes []int) {
	text, _ := json.Marshal(pes) // never fails
	fmt.Fprintf(p.stdout, "%s %d %s\n", what, p.me, text)
}

// hear prints whom the page names, if these are others than before.
func (p *nodeFaultPE) hear(pes []int) {
	if !slices.Equal(pes, p.heard) {
		p.heard = slices.Clone(pes)
		p.say("heard", pes)
	}
}

// report prints the report.
func (p *nodeFaultPE) report() {
	p.mu.Lock()
	p.Report.Called = p.called
	p.mu.Unlock()
	p.Report.Rounds = int(p.seq)
	slices.Sort(p.Report.Accused)
	text, _ := json.Marshal(&p.Report) // never fails
	fmt.Fprintf(p.stdout, "verdict %d %s\n", p.me, text)
}

// wrong notes something that must not be.
func (p *nodeFaultPE) wrong(format string, args ...any) {
	if len(p.Report.Wrong) < 20 {
		p.Report.Wrong = append(p.Report.Wrong, fmt.Sprintf("round %d: ", p.seq)+fmt.Sprintf(format, args...))
	}
}

// isOver says whether the test wants the end.
func (p *nodeFaultPE) isOver() bool { return exists(filepath.Join(p.dir, nodeFaultStop)) }

// insist calls Init, which has failed, until the test wants the end: each time its error names all who are dead by then.
func (p *nodeFaultPE) insist(err error) {
	for ; ; _, err = shmem.Init() {
		dead, is := errors.AsType[*shmem.PEError](err)
		if !is || !errors.Is(err, shmem.ErrPEDied) {
			p.wrong("Init: %v, want a PEError", err)
		} else {
			p.hear(dead.PEs)
		}
		if p.isOver() {
			p.Report.Failed = p.heard
			return
		}
		p.seq++
		<-time.After(20 * time.Millisecond) // others need the processors, too
	}
}

// judge notes an error of an operation, see judgeError. It returns whether there was none.
func (p *nodeFaultPE) judge(op string, to int, err error) bool {
	return judgeError(p.w, op, to, err, p.wrong, func(pe int) {
		if !slices.Contains(p.Report.Accused, pe) {
			p.Report.Accused = append(p.Report.Accused, pe)
		}
	})
}

// run calls what the phase is of until the test wants the end.
func (p *nodeFaultPE) run() {
	for over := false; !over; {
		p.seq++
		switch p.phase {
		case phaseStart, phaseFinalize:
			<-time.After(2 * time.Millisecond)
			over = p.isOver()
		case phaseFence, phaseQuiet:
			p.put(p.phase)
			over = p.isOver()
		case phaseMixed, phaseLeave:
			p.call(nodeFaultCalls[p.seq%uint64(len(nodeFaultCalls))])
			over = p.agreeOnEnd()
		default:
			p.call(p.phase)
			over = p.agreeOnEnd()
		}
		p.hear(p.w.Failed())
		if p.seq == 3 {
			fmt.Fprintf(p.stdout, "busy %d\n", p.me)
		}
	}
}

// nodeFaultCalls are what PEs call in turn.
var nodeFaultCalls = []string{phaseFence, phaseBarrier, phaseBroadcast, phaseQuiet, phaseReduce}

// call makes one call.
func (p *nodeFaultPE) call(phase string) {
	switch phase {
	case phaseFence, phaseQuiet:
		p.put(phase)
	case phaseBarrier:
		if p.phase == phaseBarrier {
			p.succeed("Barrier", p.w.Barrier())
		} else { // its Quiet may have puts to complete on a node that is lost
			p.judge("Barrier", -1, p.w.Barrier())
		}
	case phaseBroadcast:
		p.broadcast()
	case phaseReduce:
		p.reduce()
	}
}

// succeed notes an error of a collective that has to go on without the dead. It returns whether there was none.
func (p *nodeFaultPE) succeed(op string, err error) bool {
	if err != nil {
		p.wrong("%s: %v, want none: the team goes on", op, err)
	}
	return err == nil
}

// agreeOnEnd says whether a PE has seen that the test wants the end. All PEs ask in the same rounds, and get the same answer.
func (p *nodeFaultPE) agreeOnEnd() bool {
	if p.seq%4 != 3 {
		return false
	}
	word := 0
	if p.isOver() {
		word = 1
	}
	most, err := shmem.ReduceValue(p.w.Team(), word, shmem.Max)
	return !p.succeed("ReduceValue", err) || most > 0
}

// put puts a word on each other PE that is not known to be dead, and orders or completes that.
func (p *nodeFaultPE) put(phase string) {
	failed := p.w.Failed()
	for to := range p.n {
		if to != p.me && !slices.Contains(failed, to) {
			p.judge("P", to, shmem.P(p.c, p.words.At(p.me), p.seq, to))
		}
	}
	if phase == phaseFence {
		p.judge("Fence", -1, p.c.Fence())
		return
	}
	if !p.judge("Quiet", -1, p.c.Quiet()) {
		return
	}
	to := (p.me + int(p.seq)) % p.n
	if to == p.me || slices.Contains(failed, to) {
		return
	}
	got, err := shmem.G(p.c, p.words.At(p.me), to)
	if p.judge("G", to, err) && got != p.seq {
		p.wrong("after Quiet, PE %d has %d of this PE", to, got)
	}
}

// broadcast broadcasts a value or a block. It fails only if its root is dead.
func (p *nodeFaultPE) broadcast() {
	root := int(p.seq) % p.n
	if p.seq%3 > 0 {
		got, err := shmem.BroadcastValue(p.w.Team(), p.seq<<8|uint64(p.me), root)
		if p.judge("BroadcastValue", root, err) && got != p.seq<<8|uint64(root) {
			p.wrong("PE %d has broadcast %#x", root, got)
		}
		return
	}
	for i, mine := 0, p.src.Local(); i < len(mine); i++ {
		mine[i] = p.seq<<8 | uint64(p.me)
	}
	if !p.judge("Broadcast", root, shmem.Broadcast(p.w.Team(), p.dst, p.src, root)) {
		return
	}
	for i, got := range p.dst.Local() {
		if got != p.seq<<8|uint64(root) {
			p.wrong("PE %d has broadcast %#x as element %d", root, got, i)
			return
		}
	}
}

// reduce counts the PEs, by a value or by a block. The test knows how many are to be counted at least: this PE may not have heard of
// those yet that are missing.
func (p *nodeFaultPE) reduce() {
	check := func(op string, got uint64) {
		if int(got) > p.n {
			p.wrong("%s of a 1 of each PE is %d, want %d at most", op, got, p.n)
		}
		p.Report.Least = min(p.Report.Least, int(got))
	}
	if p.seq%3 > 0 {
		got, err := shmem.ReduceValue(p.w.Team(), uint64(1), shmem.Sum)
		if p.succeed("ReduceValue", err) {
			check("ReduceValue", got)
		}
		return
	}
	for i, mine := 0, p.src.Local(); i < len(mine); i++ {
		mine[i] = 1
	}
	if p.succeed("Reduce", shmem.Reduce(p.w.Team(), p.dst, p.src, shmem.Sum)) {
		for _, got := range p.dst.Local() {
			check("Reduce", got)
		}
	}
}

// touchDead puts on each PE that is known to be dead, which has to fail.
func (p *nodeFaultPE) touchDead() {
	if p.phase == phaseStart {
		return
	}
	for _, pe := range p.w.Failed() {
		if p.judge("P", pe, shmem.P(p.c, p.words.At(p.me), p.seq, pe)) {
			p.wrong("P on PE %d, which is dead, returns no error", pe)
		}
	}
}
