//go:build 386 || amd64 || arm || arm64 || loong64 || mips64le || mipsle || ppc64le || riscv64

package kernel

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/goshmem/goshmem/internal/xunix"
)

// programs is the tier BPF: kernel programs that send a record at the exit of a watched process.
type programs struct {
	pidfds
	maps    watchMaps
	progs   []*ebpf.Program
	links   []link.Link     // attachments of progs to tracepoints
	threads *link.Iter      // iterator over threads; nil: Config.Poll is 0
	ring    *ringbuf.Reader // records of exits
	record  ringbuf.Record  // the record that was read last
	clocks  offsets
	buf     []byte // output of one walk of threads, reused
}

// openBPF loads and attaches the programs. Every failure is a *TierError that names what is missing.
func openBPF(w *Watch) (source, error) {
	if err := needPIDFD(BPF); err != nil {
		return nil, err
	}
	if err := needRights(); err != nil {
		return nil, err
	}
	p, err := openPrograms(w.cfg)
	if err != nil {
		return nil, err
	}
	if err := w.poll.Watch(p.maps.Events.FD(), idSource, !closeOnce); err != nil {
		_ = p.close() // the first error says more
		return nil, &TierError{BPF, "a ring buffer that can be polled", err}
	}
	return p, nil
}

// neededPrograms returns the names of the programs that this kernel and configuration need: the exit
// program, the signal program where exits are seen late, and the iterator for Config.Poll.
func neededPrograms(cfg Config, types kernelTypes) (names []string, err error) {
	exit, err := exitProgram(cfg.alone, types)
	if err != nil {
		return nil, err
	}
	names = append(names, exit)
	late := exit == watchProgExitAlone && !cfg.alone
	known := runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64" // the program has their signal numbers
	if cfg.early || late && known && types.hasCurrentTask() {
		names = append(names, watchProgDeliver)
	}
	if cfg.Poll > 0 {
		names = append(names, watchProgSampleTask)
	}
	return names, nil
}

// Numbers of the kernel's capabilities.
const (
	capSysAdmin = 21
	capPerfmon  = 38
	capBPF      = 39
)

// needRights checks the capabilities of this process. The error names the missing ones.
func needRights() error {
	have, err := xunix.EffectiveCapabilities()
	if err != nil {
		return &TierError{BPF, "the list of capabilities", err}
	}
	has := func(c int) bool { return have&(1<<c|1<<capSysAdmin) != 0 }
	switch {
	case !has(capBPF) && !has(capPerfmon):
		return &TierError{BPF, "CAP_BPF and CAP_PERFMON", nil}
	case !has(capBPF):
		return &TierError{BPF, "CAP_BPF", nil}
	case !has(capPerfmon):
		return &TierError{BPF, "CAP_PERFMON", nil}
	}
	return nil
}

// explainLoad turns a loading error into a *TierError that names what is missing. It drops the text of
// permission errors: the library blames RLIMIT_MEMLOCK for each of them, although kernels since 5.11 do
// not apply that limit to programs.
func explainLoad(err error) error {
	missing := "a feature of the kernel (Linux 5.8 or newer)"
	switch {
	case errors.Is(err, os.ErrPermission):
		missing = "CAP_BPF and CAP_PERFMON in the user namespace of the machine, on a kernel that lets them be used," +
			" or RLIMIT_MEMLOCK of 32 MiB before Linux 5.11"
		err = os.ErrPermission
	case errors.Is(err, ebpf.ErrNotSupported):
		missing = "BPF ring buffers and tracing by BTF (Linux 5.8)"
	}
	return &TierError{BPF, missing, err}
}

// exitProgram chooses the exit program by the arguments of the tracepoint. Linux 6.16 added the second one
// when it moved the tracepoint ahead of the release of memory. The kernel's BTF has the type, which also
// covers kernels with backports.
func exitProgram(alone bool, types kernelTypes) (string, error) {
	args, err := types.arguments(exitPoint)
	if err != nil {
		return "", err
	}
	switch {
	case args >= 2 && !alone:
		return watchProgExitWithGroup, nil
	case args >= 1:
		return watchProgExitAlone, nil
	default:
		return "", &TierError{BPF, "tracepoint " + exitPoint + " with its task", fmt.Errorf("the tracepoint has %d arguments, want at least 1", args)}
	}
}

// attach enters the process in the kernel's table. The exit program sends records for it from now on.
func (p *programs) attach(_ *Watch, e *entry) error {
	start, err := xunix.StartTime(e.pid)
	if err != nil {
		start = 0 // reaped meanwhile: the pidfd reports it
	}
	e.start = p.clocks.kernelStart(start)
	if err := p.maps.Watched.Update(uint32(e.pid), e.start, ebpf.UpdateAny); err != nil {
		return fmt.Errorf("enter it in the kernel's table (room for %d processes): %w", p.maps.Watched.MaxEntries(), err)
	}
	return nil
}

// detach removes the process from the kernel's table, where it may be missing: attach may have failed.
func (p *programs) detach(e *entry) { _ = p.unwatch(e.pid) }

// unwatch removes a process from the kernel's table.
func (p *programs) unwatch(pid int) error { return p.maps.Watched.Delete(uint32(pid)) }

// drainEvents reads all records that are there. It does not block: the ring is mapped, and its deadline has
// passed.
func (p *programs) drainEvents(w *Watch) error {
	for p.ring.AvailableBytes() > 0 {
		switch err := p.ring.ReadInto(&p.record); {
		case errors.Is(err, os.ErrDeadlineExceeded):
			continue // the reader returns this once before records that came without a wake-up
		case err != nil:
			return err
		}
		ev, err := parseEvent(p.record.RawSample)
		if err != nil {
			return err
		}
		// The start time rejects a stale record: of a removed process whose number another process has now.
		if e := w.byPID[int(ev.pid)]; e != nil && (e.start == 0 || e.start == ev.start) {
			w.noteDeath(e, ev.exit, ev.at+p.clocks.monotonic)
		}
	}
	return nil
}

// sample runs the kernel's iterator over all threads of the machine and parses its output.
func (p *programs) sample(out []sample, _ []int) ([]sample, error) {
	r, err := p.threads.Open()
	if err != nil {
		return out, fmt.Errorf("iterate over threads: %w", err)
	}
	defer func() { _ = r.Close() }() // nothing was written
	p.buf = p.buf[:0]
	for {
		if len(p.buf) == cap(p.buf) {
			p.buf = append(p.buf, make([]byte, 64*sampleSize)...)[:len(p.buf)]
		}
		n, err := r.Read(p.buf[len(p.buf):cap(p.buf)])
		p.buf = p.buf[:len(p.buf)+n]
		if errors.Is(err, io.EOF) {
			return parseSamples(out, p.buf)
		}
		if err != nil {
			return out, fmt.Errorf("iterate over threads: %w", err)
		}
	}
}

func (p *programs) close() error {
	var all []error
	if p.threads != nil {
		all = append(all, p.threads.Close())
	}
	for _, l := range p.links {
		all = append(all, l.Close())
	}
	if p.ring != nil {
		all = append(all, p.ring.Close())
	}
	for _, prog := range p.progs {
		all = append(all, prog.Close())
	}
	return errors.Join(append(all, p.maps.Close())...)
}
