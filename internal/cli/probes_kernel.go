package cli

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/detector/kernel"
	"github.com/goshmem/goshmem/detector/responder"
	"github.com/goshmem/goshmem/internal/xunix"
)

// tryMemfd makes what a symmetric heap is: shared memory that nobody can
// shrink under the others.
func tryMemfd() finding {
	const hint = "symmetric heaps are sealed memfds (requires kernel >= 3.17)"
	size := int64(xunix.PageSize())
	f, err := xunix.Memfd("goshmem-doctor", size)
	if err != nil {
		return missing(err, hint)
	}
	defer func() { _ = f.Close() }()
	if err := xunix.SealSize(f); err != nil {
		return missing(err, hint)
	}
	if f.Truncate(0) == nil || f.Truncate(2*size) == nil {
		return missing(errors.New("a sealed memfd let itself be resized"), hint)
	}
	return fine("made and sealed one")
}

// tryUnixSockets hands a descriptor over, as a PE gets the heaps of others.
func tryUnixSockets() finding {
	const hint = "PEs get each other's heaps through an abstract unix socket (SCM_RIGHTS)"
	name := "@goshmem-doctor-" + rand.Text()
	return tried(passDescriptor(name), "passed a descriptor through an abstract one", hint)
}

// patience bounds what takes no time where it works.
const patience = 5 * time.Second

func passDescriptor(name string) error {
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: name, Net: "unixpacket"})
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	from, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: name, Net: "unixpacket"})
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	deadline := time.Now().Add(patience)
	if err := errors.Join(l.SetDeadline(deadline), from.SetDeadline(deadline)); err != nil {
		return err
	}
	to, err := l.AcceptUnix()
	if err != nil {
		return err
	}
	defer func() { _ = to.Close() }()
	if err := to.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := xunix.PeerOf(to); err != nil {
		return err
	}
	return passPipe(from, to)
}

// passPipe sends the read end of a pipe and reads through what arrives.
func passPipe(from, to *net.UnixConn) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _, _ = r.Close(), w.Close() }()
	const word = "goshmem"
	if _, err := io.WriteString(w, word); err != nil {
		return err
	}
	if err := xunix.SendFDs(from, []byte(word), []int{int(r.Fd())}); err != nil {
		return err
	}
	_, fds, err := xunix.RecvFDs(to, len(word), 1)
	if err != nil {
		return err
	}
	if len(fds) != 1 {
		xunix.CloseFDs(fds)
		return fmt.Errorf("received %d descriptors, want 1", len(fds))
	}
	got := os.NewFile(uintptr(fds[0]), "received")
	defer func() { _ = got.Close() }()
	buf := make([]byte, len(word))
	if _, err := io.ReadFull(got, buf); err != nil {
		return fmt.Errorf("read from the received descriptor: %w", err)
	}
	if string(buf) != word {
		return fmt.Errorf("read %q from the received descriptor, want %q", buf, word)
	}
	return nil
}

// tryLoopback connects as a PMIx client does. A new network namespace has a
// loopback device, but it is down.
func tryLoopback() finding {
	const hint = "PEs reach the PMIx server over 127.0.0.1; as root: ip link set lo up"
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return missing(err, hint)
	}
	defer func() { _ = l.Close() }()
	c, err := net.DialTimeout("tcp4", l.Addr().String(), patience)
	if err == nil {
		err = c.Close()
	}
	return tried(err, "connected over 127.0.0.1", hint)
}

func tryFutex() finding {
	return tried(xunix.TryFutex(), "slept on a shared word", "waiting PEs sleep on futexes")
}

// tryMembarrier registers this process, which does nothing but let the
// barriers of other processes reach it, and then uses one.
func tryMembarrier() finding {
	err := xunix.MembarrierRegister()
	if err == nil {
		err = xunix.Membarrier()
	}
	return tried(err, "used a global expedited one", "puts to waiting PEs take a locked instruction instead (requires kernel >= 4.16)")
}

func trySubreaper() finding {
	return tried(xunix.TrySubreaper(), "oshrun can be one", "grandchildren of a PE may outlive the job (requires kernel >= 3.4)")
}

func tryNamespaces() finding {
	return tried(xunix.TryNamespaces(false), "started a child in new network and pid namespaces",
		"tests with several simulated nodes only: run them as root or in a user namespace")
}

func tryUserNamespaces() finding {
	return tried(xunix.TryNamespaces(true), "started a child in new user, network and pid namespaces",
		"simulated nodes for ordinary users only; see /proc/sys/user/max_user_namespaces and the rules of the container or of AppArmor")
}

func tryBPF() finding {
	const hint = "optional, to watch processes from within the kernel: run as root or with CAP_BPF and CAP_PERFMON"
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return missing(err, hint)
	}
	held := "holds " + heldCapabilities(status)
	if err := xunix.TryBPF(); err != nil {
		return missing(fmt.Errorf("%w; %s", err, held), hint)
	}
	return fine("loaded a tracing program; %s", held)
}

// heldCapabilities names those of the effective capabilities in
// /proc/self/status that the kernel asks for where BPF is concerned.
func heldCapabilities(status []byte) string {
	var mask uint64
	for line := range strings.Lines(string(status)) {
		if hex, ok := strings.CutPrefix(line, "CapEff:"); ok {
			mask, _ = strconv.ParseUint(strings.TrimSpace(hex), 16, 64) // 0 if it is not a number
		}
	}
	var names []string
	for _, c := range []struct {
		bit  int
		name string
	}{{39, "CAP_BPF"}, {38, "CAP_PERFMON"}, {21, "CAP_SYS_ADMIN"}, {12, "CAP_NET_ADMIN"}} {
		if mask>>c.bit&1 != 0 {
			names = append(names, c.name)
		}
	}
	if names == nil {
		return "none of the capabilities for it"
	}
	return strings.Join(names, ", ")
}

func tryBTF() finding {
	const path = "/sys/kernel/btf/vmlinux"
	f, err := os.Open(path)
	if err == nil {
		err = f.Close()
	}
	return tried(err, path+" is readable", "optional, with bpf only (requires a kernel built with CONFIG_DEBUG_INFO_BTF)")
}

// tryWatchdog begins a watch as a job does that does not say how.
func tryWatchdog() finding {
	const hint = "deaths of PEs are learnt of when they can be reaped"
	w, err := kernel.Open(kernel.Config{Report: func(kernel.Report) {}, Logger: zerolog.Nop()})
	if err != nil {
		return missing(err, hint)
	}
	tier, passed := w.Tier(), w.Passed()
	if err := w.Close(); err != nil {
		return missing(err, hint)
	}
	if len(passed) == 0 {
		return fine("%v", tier)
	}
	return noted(tier.String(), "deaths are learnt of later than need be: "+oneLine(errors.Join(passed...)))
}

// tryResponder begins to answer pings as a daemon of a node does.
func tryResponder() finding {
	const hint = "other nodes cannot ask this one whether it lives"
	self, err := os.Executable()
	if err != nil {
		return missing(err, hint)
	}
	r, err := responder.Open(responder.Config{Listen: netip.AddrFrom4([4]byte{127, 0, 0, 1}), Keeper: []string{self, heartbeat}, Logger: zerolog.Nop()})
	if err != nil {
		return missing(err, hint)
	}
	tier, passed := r.Tier(), r.Passed()
	if err := r.Close(); err != nil {
		return missing(err, hint)
	}
	if len(passed) == 0 {
		return fine("%v", tier)
	}
	return noted(tier.String(), "a busy node is told from a dead one later than need be: "+oneLine(errors.Join(passed...)))
}

// oneLine returns the text of an error in one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
