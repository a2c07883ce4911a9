package xunix

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// niceOffset is what Getpriority returns for the nice value 0. It returns less for more.
const niceOffset = 20

// raised is by how much the nice value of a raised thread is below that of the process.
const raised = 10

// own is the priority of this process's threads.
var own struct {
	mu      sync.RWMutex // AtOwnPriority reads
	raised  bool
	nice    int          // of the process before RaisePriority
	keepers map[int]bool // the threads that keep it
	led     bool         // LeadSession was called
	session int          // what SessionNice returned before
}

// RaisePriority gives all threads of this process a nice value that is lower by 10, and so all that they start. KeepPriority
// is for those that start other processes. A further call does nothing.
//
// The nice value counts within a session (see SessionNice). A process that sleeps for most of the time takes nothing from others
// by it. It gets a processor soon after it wakes, though others of its session never sleep.
//
// EACCES: this process has no privileges.
func RaisePriority() error {
	own.mu.Lock()
	defer own.mu.Unlock()
	if own.raised {
		return nil
	}
	was, err := niceOf(0)
	if err != nil {
		return err
	}
	if err := raiseAll(was); err != nil {
		return err
	}
	own.raised, own.nice = true, was
	go raiseLater()
	return nil
}

// raiseLater raises threads that were being started when all others were raised.
func raiseLater() {
	for pause := 10 * time.Millisecond; pause <= 10*time.Second; pause *= 10 {
		time.Sleep(pause)
		own.mu.Lock()
		_ = raiseAll(own.nice) // it may fail where it did not before, and leaves a thread as it was
		own.mu.Unlock()
	}
}

// raiseAll raises all threads that do not keep their priority. A new thread has that of the one that starts it. So none is left
// once all threads of a list have it, but for one that is just being started: the kernel copies the priority of its starter
// first, and lists it later.
func raiseAll(was int) error {
	want := max(was-raised, minNice)
	for again := true; again; {
		again = false
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, t := range threads {
			tid, err := strconv.Atoi(t.Name())
			if err != nil || own.keepers[tid] {
				continue
			}
			switch nice, err := niceOf(tid); {
			case errors.Is(err, unix.ESRCH): // it has ended, and may have started another one
				again = true
			case err != nil:
				return err
			case nice != want:
				if err := unix.Setpriority(unix.PRIO_PROCESS, tid, want); err != nil && !errors.Is(err, unix.ESRCH) {
					return err
				}
				again = true
			}
		}
	}
	return nil
}

// niceOf returns the nice value of a thread; 0: the calling one.
func niceOf(tid int) (int, error) {
	n, err := unix.Getpriority(unix.PRIO_PROCESS, tid)
	return niceOffset - n, err
}

// KeepPriority gives the calling thread, to which its goroutine is locked for good, the nice value that this process had before
// RaisePriority, which may also come later. Processes that the thread starts have it too.
func KeepPriority() error {
	own.mu.Lock()
	defer own.mu.Unlock()
	if own.keepers == nil {
		own.keepers = map[int]bool{}
	}
	own.keepers[unix.Gettid()] = true
	if !own.raised {
		return nil
	}
	return unix.Setpriority(unix.PRIO_PROCESS, 0, own.nice)
}

// AtOwnPriority calls a function that starts a process, which gets the nice value that this process had before RaisePriority.
func AtOwnPriority(start func() error) error {
	own.mu.RLock()
	defer own.mu.RUnlock() // last: RaisePriority comes before this or behind it
	if !own.raised {
		return start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	now, err := niceOf(0)
	if err == nil && now != own.nice {
		err = unix.Setpriority(unix.PRIO_PROCESS, 0, own.nice)
		defer func() { _ = unix.Setpriority(unix.PRIO_PROCESS, 0, now) }() // it had that before, so it may
	}
	if err != nil {
		return err
	}
	return start()
}

// NewSession makes this process lead a new session. It must not lead a process group.
func NewSession() error {
	_, err := unix.Setsid()
	return os.NewSyscallError("setsid", err)
}

// LeadSession gives the session that this process leads, if it does, the nice value that this process has had so far against
// other sessions, as far as the kernel lets it: a new session has 0, so the nice value that a process inherits would weigh
// nothing any more. An ordinary user may set a value of 0 or more, one in 0.1 s among all processes.
//
// SessionNice goes on to return that value.
func LeadSession() {
	if sid, err := unix.Getsid(0); err != nil || sid != os.Getpid() {
		return
	}
	nice := SessionNice()
	own.mu.Lock()
	own.led, own.session = true, nice
	own.mu.Unlock()
	if nice != 0 {
		go leadSession(nice)
	}
}

// leadSession sets the nice value of this process's session, again if the kernel puts it off.
func leadSession(nice int) {
	const pause = 100 * time.Millisecond
	for errors.Is(SetSessionNice(os.Getpid(), nice, func() bool { return true }), unix.EAGAIN) {
		time.Sleep(pause)
	}
}
