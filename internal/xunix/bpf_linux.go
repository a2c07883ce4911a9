package xunix

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TracingProgram is a BPF program that traces the kernel or sees packets, ready to load: its instructions hold the
// offsets of the running kernel and the descriptors of their maps.
type TracingProgram struct {
	Name     string // the kernel keeps 15 bytes
	License  string
	Code     []byte // instructions of 8 bytes
	Attach   uint32 // TraceRawTracepoint, TraceIterator or TCXIngress
	AttachTo uint32 // number of the tracepoint's or iterator's type among the kernel's types; TCXIngress: 0
}

// Values of TracingProgram.Attach.
const (
	TraceRawTracepoint = unix.BPF_TRACE_RAW_TP
	TraceIterator      = unix.BPF_TRACE_ITER
	TCXIngress         = unix.BPF_TCX_INGRESS
)

// LoadTracing loads a program into the kernel and returns its descriptor, which is closed on exec.
//
// The verifier returns EAGAIN when a signal interrupts it, as Go's preemption signals may. LoadTracing tries again
// up to 10 times.
func LoadTracing(p *TracingProgram) (fd int, err error) {
	if len(p.Code) == 0 || len(p.Code)%8 != 0 {
		return -1, fmt.Errorf("bpf BPF_PROG_LOAD: code of %d bytes, want a multiple of 8 above 0", len(p.Code))
	}
	license, err := unix.BytePtrFromString(p.License)
	if err != nil {
		return -1, fmt.Errorf("bpf BPF_PROG_LOAD: license %q: %w", p.License, err)
	}
	attr := struct { // the head of union bpf_attr for BPF_PROG_LOAD, on 64-bit systems
		progType, insnCount    uint32
		insns, license         unsafe.Pointer
		logLevel, logSize      uint32
		logBuf                 unsafe.Pointer
		kernVersion, flags     uint32
		name                   [unix.BPF_OBJ_NAME_LEN]byte
		ifindex, attachType    uint32
		btfFD, funcInfoSize    uint32
		funcInfo               unsafe.Pointer
		funcInfos, lineRecSize uint32
		lineInfo               unsafe.Pointer
		lineInfos, attachTo    uint32
	}{
		progType: programType(p.Attach), insnCount: uint32(len(p.Code) / 8),
		insns: unsafe.Pointer(unsafe.SliceData(p.Code)), license: unsafe.Pointer(license),
		attachType: p.Attach, attachTo: p.AttachTo,
	}
	copy(attr.name[:unix.BPF_OBJ_NAME_LEN-1], p.Name)
	const attempts = 10
	for i := 1; ; i++ {
		n, _, e := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_LOAD, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
		runtime.KeepAlive(&attr)
		switch {
		case e == 0:
			return int(n), nil
		case e != unix.EAGAIN || i == attempts:
			return -1, fmt.Errorf("bpf BPF_PROG_LOAD: %w", e)
		}
	}
}

// programType returns the type of programs that are attached in a way.
func programType(attach uint32) uint32 {
	if attach == TCXIngress {
		return unix.BPF_PROG_TYPE_SCHED_CLS
	}
	return unix.BPF_PROG_TYPE_TRACING
}
