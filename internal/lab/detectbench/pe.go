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

// The program of the PEs. The one with the highest number is the victim; the
// others wait in a call for what never comes, and say when they learnt what.

// Exit statuses of the program.
const (
	exitOK     = 0
	exitError  = 1
	exitVictim = 7 // of the victim in the case exit
)

// patience is how long a survivor waits for news, and the injector for a survivor.
const patience = 30 * time.Second

// line is what a PE prints: that it is ready, and later what it has seen.
type line struct {
	PE   int   `json:"pe"`
	PID  int   `json:"pid"`
	Seen *seen `json:"seen,omitempty"`
}

// seen is what a survivor has seen. Times are of CLOCK_MONOTONIC, 0 for never.
type seen struct {
	Injected time.Duration `json:"injected"` // where the victim knows it itself
	Kernel   time.Duration `json:"kernel"`   // the kernel's own time of the death
	Stored   time.Duration `json:"stored"`   // on the failure page
	Returned time.Duration `json:"returned"` // the blocked call
	Called   time.Duration `json:"called"`   // the callback
	Failed   []int         `json:"failed"`   // PEs, as the call said
	Told     []int         `json:"told"`     // PEs, as the callback was told
	Error    string        `json:"error,omitempty"`
}

// pe is a PE of a measurement.
type pe struct {
	w    *shmem.World
	name string
	size int

	flag shmem.Sym[int64] // what survivors wait for: set only if all ends well
	when shmem.Sym[int64] // when the victim began to die by its own hand
	out  *json.Encoder
}

// Main runs the program with the arguments case and size, and returns its exit
// status.
func Main(args []string, stdout, stderr io.Writer) int {
	status, err := run(args, stdout)
	if err != nil {
		fmt.Fprintf(stderr, "detect-pe: %v\n", err)
	}
	return status
}

func run(args []string, stdout io.Writer) (status int, err error) {
	if len(args) != 2 {
		return exitError, fmt.Errorf("%d arguments, want a case and a size; it is a part of oshrun detect-bench", len(args))
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
		return p.die()
	}
	return p.survive()
}

// ready says that all is in place here.
func (p *pe) ready() error {
	if err := p.w.Barrier(); err != nil {
		return err
	}
	return p.out.Encode(line{PE: p.w.MyPE(), PID: os.Getpid()})
}

// die prepares the victim, and does what the injector asks for, if that is not a
// signal.
func (p *pe) die() (status int, err error) {
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
		return exitError, p.eat()
	}
	for q := range p.w.NPEs() { // nothing has happened: a stopped one goes on
		if err := shmem.P(p.w.Ctx(), p.flag, 1, q); err != nil {
			return exitError, err
		}
	}
	return exitOK, p.w.Finalize()
}

// threads are those that the victim of that case has beside those of Go's runtime.
const threads = 17

// prepare makes the victim what its case says, and returns what has to be kept.
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

// touch makes every page of memory real.
func touch(b []byte) {
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 1
	}
}

// stamp tells the survivors the time, through memory that outlives this process.
func (p *pe) stamp() error {
	now := int64(xunix.Monotonic())
	for q := range p.w.NPEs() - 1 {
		if err := shmem.P(p.w.Ctx(), p.when, now, q); err != nil {
			return err
		}
	}
	return nil
}

// eat takes memory until the kernel has enough of it, but not for ever.
func (p *pe) eat() error {
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
	return fmt.Errorf("alive with %d MiB under a limit of %d", len(all), limitBytes>>20)
}

// told is a call of the callback.
type told struct {
	at  time.Duration
	pes []int
}

// survive waits and says what it has seen.
func (p *pe) survive() (status int, err error) {
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
	ctx, stop := context.WithTimeout(context.Background(), patience)
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
		stop() // what the callback has not been told by now would be false
	}
	select {
	case c := <-calls:
		s.Called, s.Told = c.at, c.pes
	case <-ctx.Done():
	}
	s.Injected = time.Duration(p.when.Local()[0])
	if page := job.Page(); page != nil {
		f, _ := page.Failure(p.w.NPEs() - 1) // zeros: it is alive
		s.Kernel, s.Stored = f.At, f.Stored
	}
	p.w.AckFailed()
	if err := p.out.Encode(line{PE: p.w.MyPE(), PID: os.Getpid(), Seen: &s}); err != nil {
		return exitError, err
	}
	return exitOK, p.w.Finalize()
}
