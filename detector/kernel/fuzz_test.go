//go:build linux

package kernel

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// FuzzEvent: a record of the ring buffer has one size, and everything in it is read.
func FuzzEvent(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		ev, err := parseEvent(b)
		if (err == nil) != (len(b) == eventSize) {
			t.Fatalf("%d bytes: error %v", len(b), err)
		}
		if err != nil {
			return
		}
		again := binary.LittleEndian.AppendUint64(nil, uint64(ev.at))
		again = binary.LittleEndian.AppendUint64(again, ev.start)
		again = binary.LittleEndian.AppendUint32(again, ev.pid)
		again = binary.LittleEndian.AppendUint32(again, uint32(ev.exit.Status))
		if !bytes.Equal(again, b[:24]) || ev.exit.OOM != (binary.LittleEndian.Uint32(b[24:]) != 0) {
			t.Errorf("%x is read as %+v", b, ev)
		}
	})
}

// FuzzSamples: the output of the iterator is read as a whole or not at all.
func FuzzSamples(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := parseSamples(nil, b)
		if (err == nil) != (len(b)%sampleSize == 0) || len(all)*sampleSize != len(b) && err == nil || err != nil && len(all) > 0 {
			t.Fatalf("%d bytes: %d samples, %v", len(b), len(all), err)
		}
		diagnose(all, all)
	})
}

// FuzzNotice: no packet of the process connector does harm, and an event has the right source,
// kind and length.
func FuzzNotice(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := parseNotice(b)
		if err != nil {
			if n != (notice{}) {
				t.Errorf("got notice %+v with error %v", n, err)
			}
			return
		}
		if len(b) < lengthOf(n.what) {
			t.Errorf("%d bytes are read as %+v", len(b), n)
		}
		if binary.NativeEndian.Uint32(b[connectorHeader:]) != n.what {
			t.Errorf("%x is read as %+v", b, n)
		}
	})
}

// FuzzThread: a thread's name may look like the rest of the line.
func FuzzThread(f *testing.F) {
	f.Fuzz(func(t *testing.T, name string, sched []byte) {
		s, ok := parseThread([]byte("42 ("+name+") D 1 1 1 0 -1 4194560 0 0"), sched)
		if !ok || s.thread != 42 || !s.uninterruptible() {
			t.Errorf("name %q: got %+v, %v", name, s, ok)
		}
		parseThread([]byte(name), sched)
	})
}

// FuzzOffsets: clock offsets are either read or refused.
func FuzzOffsets(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		if o, err := parseOffsets(text); err != nil && o != (offsets{}) {
			t.Errorf("%q: got %+v with error %v", text, o, err)
		}
	})
}

// TestNotice reads packets that a kernel sent.
func TestNotice(t *testing.T) {
	for name, want := range map[string]notice{
		"answer": {what: procAck, token: 0, at: 16966959636411},
		"exit":   {what: procExit, at: 16966960187538, process: 0x54b2, thread: 0x54b2},
		"killed": {what: procExit, at: 16966960187538, process: 0x54b2, thread: 0x54b2, status: uint32(syscall.SIGKILL)},
		"thread": {what: procFork, at: 1994788546495, process: 0x38c7, thread: 0x38c8},
		"exec":   {what: procExec, at: 1994788740708, process: 0x38c7, thread: 0x38c7},
	} {
		b, err := os.ReadFile(filepath.Join("testdata", "connector", name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseNotice(b)
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, want)
		}
		for cut := range len(b) {
			if _, err := parseNotice(b[:cut]); err == nil && cut < lengthOf(want.what) {
				t.Errorf("%s cut to %d bytes was read, want an error", name, cut)
			}
		}
	}
}

// TestThread reads thread states from /proc.
func TestThread(t *testing.T) {
	for stat, want := range map[string]struct {
		state uint32
		ok    bool
	}{
		"7 (a) R 1 1 1 0 -1 4194560 0":     {0, true},
		"7 (a) b) S 1 1 1 0 -1 4194560 0":  {taskInterruptible, true},
		"7 (a) I 1 1 1 0 -1 4194560 0":     {taskUninterruptible | taskNoLoad, true},
		"7 (a) T 1 1 1 0 -1 4194560 0":     {taskStopped, true},
		"7 (a) t 1 1 1 0 -1 4194560 0":     {taskTraced, true},
		"7 (a) Z 1 1 1 0 -1 4194564 0":     {},
		"7 (a) R 1 1 1 0 -1 4194564 0":     {}, // ending
		"7 (a) R 1 1 1 0 -1 x 0":           {},
		"x (a) R 1 1 1 0 -1 4194560 0":     {},
		"7 (a) R 1 1 1":                    {},
		"":                                 {},
		"7 (a":                             {},
		"7 (a) R) D 1 1 1 0 -1 4194560 0 ": {taskUninterruptible, true},
	} {
		s, ok := parseThread([]byte(stat), []byte("5 6 7\n"))
		if ok != want.ok || ok && (s != sample{ran: 5, switches: 7, thread: 7, state: want.state}) {
			t.Errorf("%q: got %+v, %v, want %+v", stat, s, ok, want)
		}
	}
	for _, sched := range []string{"", "5 6", "x 6 7"} {
		if s, ok := parseThread([]byte("7 (a) R 1 1 1 0 -1 4194560 0"), []byte(sched)); !ok || !s.running {
			t.Errorf("schedstat %q: got %+v, %v, want a thread that seems to run", sched, s, ok)
		}
	}
}

// TestOffsets: start times are converted to the clock of the machine.
func TestOffsets(t *testing.T) {
	o, err := parseOffsets("monotonic           0         0\nboottime            -2         30000000\n")
	if want := (offsets{boot: -1970 * time.Millisecond}); o != want || err != nil {
		t.Fatalf("got offsets %+v, %v, want %+v", o, err, want)
	}
	if got := o.kernelStart(1000); got != 1197 {
		t.Errorf("got start %d, want 1197", got)
	}
	for _, o := range []offsets{{}, {boot: time.Nanosecond}} {
		want := map[bool]uint64{true: 7, false: 0}[o.boot == 0]
		if got := o.kernelStart(7); got != want || o.kernelStart(0) != 0 {
			t.Errorf("%+v: got start %d, want %d", o, got, want)
		}
	}
	if _, err := parseOffsets("monotonic x 0"); err == nil {
		t.Error("a bad line was read, want an error")
	}
}
