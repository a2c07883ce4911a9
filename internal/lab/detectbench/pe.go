package detectbench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/shmem"
)

// The program of the PEs. The PE with the highest number is the victim. The others are survivors: they wait in
// a call for a flag that is never set, and report when they learnt of the failure.

// Exit statuses of the program.
const (
	exitOK     = 0
	exitError  = 1
	exitVictim = 7 // the victim in the case exit
)

// learnTimeout is how long a survivor waits to learn of the failure, and the injector for a survivor.
const learnTimeout = 30 * time.Second

// line is a line of output of a PE. Each PE prints one when it is ready; each survivor prints one with Seen.
type line struct {
	PE   int   `json:"pe"`
	PID  int   `json:"pid"`
	Seen *seen `json:"seen,omitempty"`
}

// seen is the report of a survivor. Times are of CLOCK_MONOTONIC; 0 means never.
type seen struct {
	Injected time.Duration `json:"injected"` // when the victim failed, in cases without a signal
	Kernel   time.Duration `json:"kernel"`   // when the victim died, by the kernel
	Stored   time.Duration `json:"stored"`   // when the failure was stored on the failure page
	Returned time.Duration `json:"returned"` // when the blocked call returned
	Called   time.Duration `json:"called"`   // when the callback ran
	Failed   []int         `json:"failed"`   // failed PEs in the error of the call
	Told     []int         `json:"told"`     // failed PEs in the argument of the callback
	Error    string        `json:"error,omitempty"`
}

// pe is a PE of a measurement.
type pe struct {
	w    *shmem.World
	name string // case
	size int    // bytes of the cases with memory

	flag shmem.Sym[int64] // survivors wait for it; set only if the victim survives
	when shmem.Sym[int64] // when the victim ended itself, in cases without a signal
	out  *json.Encoder
}

// Main runs the program and returns its exit status. args are the case and the size.
//
//   - Several nodes: args are nodesWord or hybridWord, the limit of survivors, and the victims.
func Main(args []string, stdout, stderr io.Writer) int {
	run := runPE
	if len(args) > 0 && (args[0] == nodesWord || args[0] == hybridWord) {
		run = runNodePE
	}
	status, err := run(args, stdout)
	if err != nil {
		fmt.Fprintf(stderr, "detect-pe: %v\n", err)
	}
	return status
}

// runPE runs this PE's part of a measurement.
func runPE(args []string, stdout io.Writer) (status int, err error) {
	if len(args) != 2 {
		return exitError, wrongArguments(args, "2: a case and a size")
	}
	size, err := strconv.Atoi(args[1])
	if err != nil {
		return exitError, err
	}
	w, err := shmem.Init()
	if err != nil {
		return exitError, err
	}
	p := &pe{w: w, name: args[0], size: size, out: json.NewEncoder(stdout)}
	if p.flag, err = shmem.Calloc[int64](w, 1); err == nil {
		p.when, err = shmem.Calloc[int64](w, 1)
	}
	switch {
	case err != nil:
		return exitError, err
	case w.MyPE() == w.NPEs()-1:
		return p.runVictim()
	}
	return p.runSurvivor()
}

// wrongArguments returns the error of a program that was not started by an injector.
func wrongArguments(args []string, wants string) error {
	return fmt.Errorf("%d arguments, want %s; this program is part of oshrun detect-bench, use that", len(args), wants)
}

// ready reports that this PE is ready, after all PEs are.
func (p *pe) ready() error {
	if err := p.w.Barrier(); err != nil {
		return err
	}
	return p.out.Encode(line{PE: p.w.MyPE(), PID: os.Getpid()})
}

// runVictim is the program of the victim. It prepares the case, waits for a line from the injector, and fails by
// itself in the cases without a signal.
func (p *pe) runVictim() (status int, err error) {
	keep, err := p.prepare()
	if err == nil {
		err = p.ready()
	}
	if err == nil {
		_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	}
	runtime.KeepAlive(keep)
	if err != nil {
		return exitError, err
	}
	switch p.name {
	case "exit":
		return exitVictim, p.stamp()
	case "oom":
		return exitError, p.exhaustMemory()
	}
	for q := range p.w.NPEs() { // the victim was only stopped: end the waits
		if err := shmem.P(p.w.Ctx(), p.flag, 1, q); err != nil {
			return exitError, err
		}
	}
	return exitOK, p.w.Finalize()
}

// threads is the number of threads that the victim of the case threads adds to those of Go's runtime.
const threads = 17

// prepare prepares the victim for its case. It returns memory that must stay reachable.
func (p *pe) prepare() (any, error) {
	switch p.name {
	case "threads":
		var there sync.WaitGroup
		there.Add(threads)
		for range threads {
			go func() {
				runtime.LockOSThread() // a thread of its own
				there.Done()
				select {}
			}()
		}
		there.Wait()
	case "heap":
		x, err := shmem.Alloc[byte](p.w, p.size)
		if err != nil {
			return nil, err
		}
		touch(x.Local())
	case "anonymous":
		own := make([]byte, p.size)
		touch(own)
		return own, nil
	case "segv":
		return nil, xunix.DefaultAction(syscall.SIGSEGV)
	}
	return nil, nil
}

// touch writes to every page, so that the kernel allocates it.
func touch(b []byte) {
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 1
	}
}

// stamp stores the present time in the survivors' segments, which outlive this process.
func (p *pe) stamp() error {
	now := int64(xunix.Monotonic())
	for q := range p.w.NPEs() - 1 {
		if err := shmem.P(p.w.Ctx(), p.when, now, q); err != nil {
			return err
		}
	}
	return nil
}

// exhaustMemory uses memory until the kernel kills the process. It gives up at four times the limit.
func (p *pe) exhaustMemory() error {
	var all [][]byte
	for range 4 * limitBytes >> 20 {
		all = append(all, make([]byte, 1<<20))
		for b := all[len(all)-1]; len(b) > 0; b = b[os.Getpagesize():] {
			if err := p.stamp(); err != nil {
				return err
			}
			b[0] = 1
		}
	}
	return fmt.Errorf("the process uses %d MiB and was not killed, want the kernel to enforce the limit of %d MiB", len(all), limitBytes>>20)
}

// told is a call of the callback.
type told struct {
	at  time.Duration
	pes []int
}

// runSurvivor is the program of a survivor. It waits for the flag and for the callback, then reports when each
// ended.
func (p *pe) runSurvivor() (status int, err error) {
	if p.name == "heap" { // allocation is collective
		if _, err := shmem.Alloc[byte](p.w, p.size); err != nil {
			return exitError, err
		}
	}
	calls := make(chan told, 16)
	cancel := p.w.OnFailure(func(f shmem.Failure) {
		calls <- told{xunix.Monotonic(), f.PEs}
	})
	defer cancel()
	if err := p.ready(); err != nil {
		return exitError, err
	}
	ctx, stop := context.WithTimeout(context.Background(), learnTimeout)
	defer stop()
	err = shmem.WaitUntil(p.w.Ctx().With(ctx), p.flag, shmem.NE, 0)
	s := seen{Returned: xunix.Monotonic()}
	if dead, ok := errors.AsType[*shmem.PEError](err); ok {
		s.Failed = dead.PEs
	} else {
		s.Returned = 0
		if err != nil {
			s.Error = err.Error()
		}
	}
	if s.Failed == nil {
		stop() // the call saw no failure, so do not wait for a callback
	}
	select {
	case c := <-calls:
		s.Called, s.Told = c.at, c.pes
	case <-ctx.Done():
	}
	s.Injected = time.Duration(p.when.Local()[0])
	if page := job.Page(); page != nil {
		f, _ := page.Failure(p.w.NPEs() - 1) // zeros if the victim is alive
		s.Kernel, s.Stored = f.At, f.Stored
	}
	p.w.AckFailed()
	if err := p.out.Encode(line{PE: p.w.MyPE(), PID: os.Getpid(), Seen: &s}); err != nil {
		return exitError, err
	}
	return exitOK, p.w.Finalize()
}
