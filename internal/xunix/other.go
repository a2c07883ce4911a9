//go:build !linux

package xunix

import (
	"context"
	"net/netip"
	"os"
	"syscall"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/internal/plan"
)

// AllowTracer has nothing to do here.
func AllowTracer(int) {}

// ReadMemory is not supported here.
func ReadMemory(int, unsafe.Pointer, uint64, int) error { return ErrNotSupported }

// WriteMemory is not supported here.
func WriteMemory(int, uint64, unsafe.Pointer, int) error { return ErrNotSupported }

// PageSize returns the size of a memory page in bytes.
func PageSize() int { return os.Getpagesize() }

// Memfd is not supported here.
func Memfd(string, int64) (*os.File, error) { return nil, ErrNotSupported }

// SealSize is not supported here.
func SealSize(*os.File) error { return ErrNotSupported }

// SealForWriters is not supported here.
func SealForWriters(*os.File) error { return ErrNotSupported }

// Map is not supported here.
func Map(int, uintptr, bool) (unsafe.Pointer, error) { return nil, ErrNotSupported }

// FileSize is not supported here.
func FileSize(int) (uint64, error) { return 0, ErrNotSupported }

// ReadAt is not supported here.
func ReadAt(int, []byte, int64) error { return ErrNotSupported }

// Reserve is not supported here.
func Reserve(uintptr) (unsafe.Pointer, error) { return nil, ErrNotSupported }

// MapShared is not supported here.
func MapShared(int, unsafe.Pointer, uintptr) error { return ErrNotSupported }

// AdviseHuge is not supported here.
func AdviseHuge(unsafe.Pointer, uintptr) error { return ErrNotSupported }

// Unmap is not supported here.
func Unmap(unsafe.Pointer, uintptr) error { return ErrNotSupported }

// RaisePriority is not supported here.
func RaisePriority() error { return ErrNotSupported }

// LeadSession does nothing here.
func LeadSession() {}

// NewSession is not supported here.
func NewSession() error { return ErrNotSupported }

// KeepPriority does nothing here.
func KeepPriority() error { return nil }

// AtOwnPriority calls start.
func AtOwnPriority(start func() error) error { return start() }

// MemoryTotal is not supported here.
func MemoryTotal() (uint64, error) { return 0, ErrNotSupported }

// FutexWait is not supported here.
func FutexWait(*uint32, uint32, time.Duration) error { return ErrNotSupported }

// FutexWaitSoon is not supported here.
func FutexWaitSoon(*uint32, uint32, time.Duration) error { return ErrNotSupported }

// FutexWake does nothing here.
func FutexWake(*uint32, int) {}

// NewEvent is not supported here.
func NewEvent() (int, error) { return -1, ErrNotSupported }

// PostEvent does nothing here.
func PostEvent(int) {}

// SchedYield does nothing here.
func SchedYield() {}

// MembarrierRegister is not supported here.
func MembarrierRegister() error { return ErrNotSupported }

// Membarrier is not supported here.
func Membarrier() error { return ErrNotSupported }

// DefaultAction is not supported here.
func DefaultAction(syscall.Signal) error { return ErrNotSupported }

// KillSelf ends the calling process.
func KillSelf() { os.Exit(137) }

// Subreaper is not supported here.
func Subreaper() error { return ErrNotSupported }

// Peer is the process at the other end of a unix socket, as the kernel recorded it at the connect.
type Peer struct {
	PID      int
	UID, GID uint32
}

// PeerOf is not supported here.
func PeerOf(syscall.Conn) (Peer, error) { return Peer{}, ErrNotSupported }

// DialPackets is not supported here.
func DialPackets(context.Context, string) (*os.File, error) { return nil, ErrNotSupported }

// DialTCP is not supported here.
func DialTCP(context.Context, netip.AddrPort) (*os.File, error) { return nil, ErrNotSupported }

// PacketPair is not supported here.
func PacketPair() (here, there *os.File, err error) { return nil, nil, ErrNotSupported }

// PacketConn is not supported here.
func PacketConn(uintptr) (*os.File, error) { return nil, ErrNotSupported }

// Leash is not supported here.
func Leash(*os.File, int) error { return ErrNotSupported }

// LeashHold is not supported here.
func LeashHold(*os.File, *os.File) (*os.File, *os.File, error) {
	return nil, nil, ErrNotSupported
}

// Socket identifies a socket of this machine.
type Socket struct{ Inode, UID uint32 }

// FindSocket is not supported here.
func FindSocket(netip.AddrPort, netip.AddrPort) (Socket, error) { return Socket{}, ErrNotSupported }

// Foreground says whether this process may read the terminal fd.
func Foreground(uintptr) bool { return true }

// IsTerminal says whether fd is a terminal.
func IsTerminal(uintptr) bool { return false }

// SendAtOnce is not supported here.
func SendAtOnce(syscall.Conn, []byte) error { return ErrNotSupported }

// SendFDs is not supported here.
func SendFDs(syscall.Conn, []byte, []int) error { return ErrNotSupported }

// KeepFD is not supported here.
func KeepFD(int) (int, error) { return 0, ErrNotSupported }

// RecvAtOnce is not supported here.
func RecvAtOnce(syscall.Conn, []byte) (int, error) { return 0, ErrNotSupported }

// RecvFDs is not supported here.
func RecvFDs(syscall.Conn, int, int) ([]byte, []int, error) { return nil, nil, ErrNotSupported }

// CloseFDs does nothing here.
func CloseFDs([]int) {}

// WaitExited is not supported here.
func WaitExited(int) error { return ErrNotSupported }

// TryWait is not supported here.
func TryWait() error { return ErrNotSupported }

// AnyEnded returns false here.
func AnyEnded() bool { return false }

// KillGroup is not supported here.
func KillGroup(int, syscall.Signal) error { return ErrNotSupported }

// Kill is not supported here.
func Kill(int, syscall.Signal) error { return ErrNotSupported }

// KillSame is not supported here.
func KillSame(int, func() bool, syscall.Signal) error { return ErrNotSupported }

// Reap does nothing here.
func Reap(int) {}

// ReapEnded does nothing here.
func ReapEnded(int) {}

// NotifyEnds does nothing here.
func NotifyEnds(chan<- os.Signal) {}

// ChildAttr is not supported here.
func ChildAttr() *syscall.SysProcAttr { return nil }

// SessionAttr is not supported here.
func SessionAttr() *syscall.SysProcAttr { return nil }

// LastingAttr has no attributes here.
func LastingAttr() *syscall.SysProcAttr { return nil }

// SessionNice returns 0 here.
func SessionNice() int { return 0 }

// SetSessionNice is not supported here.
func SetSessionNice(int, int, func() bool) error { return ErrNotSupported }

// TakeStandardIO is not supported here.
func TakeStandardIO() (in, out *os.File, err error) { return nil, nil, ErrNotSupported }

// ReadNow reads nothing here.
func ReadNow(*os.File, int) []byte { return nil }

// Held is not supported here.
func Held(*syscall.SysProcAttr) *syscall.SysProcAttr { return nil }

// LetGoStopped is not supported here.
func LetGoStopped(int) error { return ErrNotSupported }

// LetGo is not supported here.
func LetGo(int) error { return ErrNotSupported }

// Monotonic returns the time since this process began. That suffices, as no processes share memory here.
func Monotonic() time.Duration { return time.Since(began) }

var began = time.Now()

// Umask is not known here.
func Umask() int { return -1 }

// SetUmask is not supported here.
func SetUmask(int) {}

// ChildOpenFiles is not supported here.
func ChildOpenFiles() (uint64, error) { return 0, ErrNotSupported }

// SetOpenFiles is not supported here.
func SetOpenFiles(int, uint64) (uint64, error) { return 0, ErrNotSupported }

// RaiseOOMScore is not supported here.
func RaiseOOMScore(int, int) error { return ErrNotSupported }

// Affinity is not supported here.
func Affinity() ([]int, error) { return nil, ErrNotSupported }

// SetAffinity is not supported here.
func SetAffinity([]int) error { return ErrNotSupported }

// Topology is not supported here.
func Topology() (plan.Topology, error) { return nil, ErrNotSupported }

// ProcessTimeOf returns 0 here.
func ProcessTimeOf(int) (time.Duration, error) { return 0, ErrNotSupported }

// Running reports every process as sleeping here.
func Running(int) (ready, ok bool) { return false, true }

// ProcessTime returns 0 here.
func ProcessTime() time.Duration { return 0 }

// Usage returns zeros here.
func Usage(*os.ProcessState) (maxRSS uint64, voluntary, involuntary int64) { return 0, 0, 0 }

// PeakMemory is not supported here.
func PeakMemory(int) (uint64, bool) { return 0, false }
