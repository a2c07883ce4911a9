package kernel

import (
	"encoding/binary"
	"fmt"
)

// sample is what one thread of a watched process is doing, as the iterator of
// the kernel wrote it.
type sample struct {
	ran      uint64 // nanoseconds on a processor
	switches uint64
	pid      uint32
	thread   uint32
	state    uint32
	running  bool // right now
}

// sampleSize is sizeof(struct sample) of bpf/watch.bpf.c.
const sampleSize = 32

// parseSamples appends what the iterator wrote to out.
func parseSamples(out []sample, b []byte) ([]sample, error) {
	if len(b)%sampleSize != 0 {
		return out, fmt.Errorf("%d bytes of samples, want a multiple of %d", len(b), sampleSize)
	}
	for ; len(b) > 0; b = b[sampleSize:] {
		out = append(out, sample{
			ran: binary.LittleEndian.Uint64(b), switches: binary.LittleEndian.Uint64(b[8:]),
			pid: binary.LittleEndian.Uint32(b[16:]), thread: binary.LittleEndian.Uint32(b[20:]),
			state: binary.LittleEndian.Uint32(b[24:]), running: binary.LittleEndian.Uint32(b[28:]) != 0,
		})
	}
	return out, nil
}

// States of threads as the kernel has them, since Linux 4.14.
const (
	taskInterruptible   = 0x1
	taskUninterruptible = 0x2
	taskStopped         = 0x4
	taskTraced          = 0x8
	taskNoLoad          = 0x400  // uninterruptible, but idle and not stuck
	taskFrozen          = 0x8000 // by the freezer (Linux 6.1)
)

func (s sample) stopped() bool { return s.state&(taskStopped|taskTraced) != 0 }

func (s sample) uninterruptible() bool {
	return s.state&taskFrozen != 0 || s.state&(taskUninterruptible|taskNoLoad) == taskUninterruptible
}

func (s sample) runnable() bool {
	const sleeps = taskInterruptible | taskUninterruptible | taskStopped | taskTraced | taskFrozen
	return s.state&sleeps == 0
}

// idleSince says whether the thread has had no processor since an earlier sample of it.
func (s sample) idleSince(before sample) bool {
	return !s.running && s.ran == before.ran && s.switches == before.switches
}

// diagnose says what the threads of one process have been doing since an earlier
// look at them: Stopped, Stuck, Starved, or 0 for all that is in order. A single
// sample proves nothing but a stop: sleeping for a disk and waiting for a turn
// are what healthy threads do for a while.
func diagnose(before, now []sample) Kind {
	stopped, stuck, starved, ran := len(now) > 0, false, false, false
	for _, s := range now {
		stopped = stopped && s.stopped()
		b, known := findThread(before, s.thread)
		still := known && s.idleSince(b)
		stuck = stuck || still && s.uninterruptible() && b.uninterruptible()
		starved = starved || still && s.runnable() && b.runnable()
		ran = ran || !still && (known || s.ran > 0)
	}
	switch {
	case stopped:
		return Stopped
	case stuck:
		return Stuck
	case starved && !ran:
		return Starved
	}
	return 0
}

func findThread(all []sample, thread uint32) (sample, bool) {
	for _, s := range all {
		if s.thread == thread {
			return s, true
		}
	}
	return sample{}, false
}

// transition returns what to report when a process goes from one state to another:
// the end of the old one, then the new one; 0 is nothing.
func transition(from, to Kind) (end, begin Kind) {
	switch {
	case from == to:
		return 0, 0
	case from == Stopped:
		return Continued, to
	case from != 0:
		return Running, to
	}
	return 0, to
}
