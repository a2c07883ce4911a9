//go:build 386 || amd64 || arm || arm64 || loong64 || mips64le || mipsle || ppc64le || riscv64

package kernel

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/goshmem/goshmem/internal/xunix"
)

// programs is the tier BPF: programs in the kernel that speak at the exit.
type programs struct {
	pidfds
	maps    watchMaps
	progs   []*ebpf.Program
	links   []link.Link
	threads *link.Iter
	ring    *ringbuf.Reader
	record  ringbuf.Record
	clocks  offsets
	buf     []byte // of the walks
}

func openBPF(w *Watch) (_ source, err error) {
	if err := needPIDFD(BPF); err != nil {
		return nil, err
	}
	if err := needRights(); err != nil {
		return nil, err
	}
	types := btf.NewCache() // reading the kernel's types is most of the cost of Open
	names, err := neededPrograms(w.cfg, types)
	if err != nil {
		return nil, err
	}
	p := &programs{}
	defer func() {
		if err != nil {
			_ = p.close() // the error before says more
		}
	}()
	if err := p.load(names, types); err != nil {
		return nil, explainLoad(err)
	}
	if err := w.poll.Watch(p.maps.Events.FD(), idSource, !closeOnce); err != nil {
		return nil, &TierError{BPF, "a ring buffer that can be polled", err}
	}
	return p, nil
}

// neededPrograms returns the names of the programs that this kernel and configuration
// need.
func neededPrograms(cfg Config, types *btf.Cache) (names []string, err error) {
	exit, err := exitProgram(cfg.alone, types)
	if err != nil {
		return nil, err
	}
	names = append(names, exit)
	late := exit == watchProgExitAlone && !cfg.alone
	known := runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64" // numbers of signals
	if cfg.early || late && known && features.HaveProgramHelper(ebpf.Tracing, asm.FnGetCurrentTaskBtf) == nil {
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

// needRights names the capability that is missing.
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

// explainLoad turns an error of loading into the name of what is missing. The library
// takes a refusal for a limit of locked memory, which only kernels before 5.11
// have for programs.
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

// exitProgram chooses by the arguments of the tracepoint, which were extended
// when it was moved ahead of the release of memory.
func exitProgram(alone bool, types *btf.Cache) (string, error) {
	kernel, err := types.Kernel()
	if err != nil {
		return "", &TierError{BPF, "BTF of the kernel (CONFIG_DEBUG_INFO_BTF, /sys/kernel/btf/vmlinux)", err}
	}
	const missing = "tracepoint sched_process_exit"
	var point *btf.Typedef
	if err := kernel.TypeByName("btf_trace_sched_process_exit", &point); err != nil {
		return "", &TierError{BPF, missing, err}
	}
	pointer, ok := point.Type.(*btf.Pointer)
	if !ok {
		return "", &TierError{BPF, missing, fmt.Errorf("%v is no pointer", point.Type)}
	}
	proto, ok := pointer.Target.(*btf.FuncProto)
	if !ok {
		return "", &TierError{BPF, missing, fmt.Errorf("%v is no function", pointer.Target)}
	}
	switch args := len(proto.Params) - 1; { // the first one is the kernel's own
	case args >= 2 && !alone:
		return watchProgExitWithGroup, nil
	case args >= 1:
		return watchProgExitAlone, nil
	default:
		return "", &TierError{BPF, missing + " with its task", fmt.Errorf("it has %d arguments", args)}
	}
}

// load brings the named programs into the kernel and attaches them.
func (p *programs) load(names []string, types *btf.Cache) error {
	spec, err := loadWatch()
	if err != nil {
		return err
	}
	ns, err := pidNamespace()
	if err != nil {
		return err
	}
	if p.clocks, err = clockOffsets(); err != nil {
		return err
	}
	if err := spec.Variables[watchVarPidNamespace].Set(ns); err != nil {
		return err
	}
	wanted := map[string]*ebpf.ProgramSpec{}
	for _, name := range names {
		wanted[name] = spec.Programs[name]
	}
	spec.Programs = wanted
	all, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Cache: types})
	if err != nil {
		return err
	}
	defer all.Close() // of what was not taken out
	p.maps = watchMaps{Events: all.DetachMap(watchMapEvents), Watched: all.DetachMap(watchMapWatched), Endings: all.DetachMap(watchMapEndings)}
	for _, name := range names {
		prog := all.DetachProgram(name)
		p.progs = append(p.progs, prog)
		if name == watchProgSampleTask {
			if p.threads, err = link.AttachIter(link.IterOptions{Program: prog}); err != nil {
				return err
			}
			continue
		}
		l, err := link.AttachTracing(link.TracingOptions{Program: prog})
		if err != nil {
			return err
		}
		p.links = append(p.links, l)
	}
	if p.ring, err = ringbuf.NewReader(p.maps.Events); err != nil {
		return err
	}
	p.ring.SetDeadline(time.Unix(1, 0)) // it is asked when there is something
	return nil
}

func (p *programs) attach(_ *Watch, e *entry) error {
	start, err := xunix.StartTime(e.pid)
	if err != nil {
		start = 0 // reaped meanwhile: its pidfd says so
	}
	e.start = p.clocks.start(start)
	if err := p.maps.Watched.Update(uint32(e.pid), e.start, ebpf.UpdateAny); err != nil {
		return fmt.Errorf("table of %d processes in the kernel: %w", p.maps.Watched.MaxEntries(), err)
	}
	return nil
}

// detach removes the process from the kernel's table, where it may be missing: attach may have failed.
func (p *programs) detach(e *entry) { _ = p.unwatch(e.pid) }

// unwatch removes a process from the kernel's table.
func (p *programs) unwatch(pid int) error { return p.maps.Watched.Delete(uint32(pid)) }

// drainNews reads all records that are there. It does not block: the ring is mapped.
func (p *programs) drainNews(w *Watch) error {
	for p.ring.AvailableBytes() > 0 {
		switch err := p.ring.ReadInto(&p.record); {
		case errors.Is(err, os.ErrDeadlineExceeded):
			continue // reported once, before records that came without a wake-up
		case err != nil:
			return err
		}
		ev, err := parseEvent(p.record.RawSample)
		if err != nil {
			return err
		}
		// The ring may still hold a record of a removed process whose number another process has now.
		if e := w.byPID[int(ev.pid)]; e != nil && (e.start == 0 || e.start == ev.start) {
			w.noteDeath(e, ev.exit, ev.at+p.clocks.monotonic)
		}
	}
	return nil
}

// sample walks over all threads of the machine, in the kernel.
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
