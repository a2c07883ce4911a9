package kernel

import (
	"encoding/binary"
	"fmt"
)

// sample is the state of one thread of a watched process at one moment.
type sample struct {
	ran      uint64 // nanoseconds on a processor since the thread began
	switches uint64 // how often the thread was given a processor
	pid      uint32
	thread   uint32
	state    uint32 // the kernel's state bits
	running  bool   // on a processor now
}

// sampleSize is sizeof(struct sample) of bpf/watch.bpf.c.
const sampleSize = 32

// parseSamples appends to out the samples that the kernel's iterator wrote.
func parseSamples(out []sample, b []byte) ([]sample, error) {
	if len(b)%sampleSize != 0 {
		return out, fmt.Errorf("samples of threads: %d bytes, want a multiple of %d", len(b), sampleSize)
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

// State bits of threads in the kernel, since Linux 4.14.
const (
	taskInterruptible   = 0x1
	taskUninterruptible = 0x2
	taskStopped         = 0x4
	taskTraced          = 0x8
	taskNoLoad          = 0x400  // set with taskUninterruptible: an idle kernel thread, not stuck
	taskFrozen          = 0x8000 // frozen by the freezer (Linux 6.1)
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

// diagnose compares two walks over the threads of one process. It returns Stopped, Stuck, Starved, or 0
// for a healthy process. Only Stopped can be told from one walk: healthy threads sleep for a disk or wait
// for a processor, too, but not for long.
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

// transition returns the reports for a change of state: the end of the old state, then the new state. 0
// stands for no report.
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
