package launch

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/goshmem/goshmem/internal/daemon"
)

const (
	// pieceBytes is how much is written at once, so that a reader who is slow can
	// be told from one who does not read.
	pieceBytes = 64 << 10
	// roomBytes is how much text of PEs waits to be written; who has more waits.
	roomBytes = 128 << 10
	// ownBytes and logBytes are how much of oshrun's own messages, and of its
	// log, waits. They are in addition, and who has more does not wait.
	ownBytes = 64 << 10
	logBytes = 32 << 10
)

// sink writes text to its destinations in the order in which it takes it. A
// goroutine of its own writes: a destination that nobody reads holds up that
// goroutine, and the PEs whose text finds no more room. Nothing else waits. The
// goroutine writes one batch while the next one is gathered, so two buffers
// are enough.
type sink struct {
	to      [2]io.Writer     // by stream
	dest    [2]daemon.Stream // by stream: the stream whose destination it has; the other one if both are one file
	note    func(error)      // takes the errors of writes
	writes  atomic.Uint64    // pieces that were written
	written daemon.Gauge     // bytes that were written, or could not be

	mu      sync.Mutex
	room    *sync.Cond  // for PEs: there is room, or a change of who may write
	next    batch       // the batch that is gathered
	spare   batch       // an empty batch with the buffers of the last one
	total   uint64      // bytes that were taken
	busy    bool        // the goroutine runs
	cut     bool        // text of PEs is not taken any more
	own     int         // bytes of oshrun's own in next
	dropped int         // lines of the log that found no room
	lines   [2]openLine // by destination: its last line
	hold    hold        // the source that may write alone
}

// batch is text for the destinations.
type batch struct {
	text  []byte
	parts []part
}

// part is a part of a batch: up to end, all for one destination.
type part struct {
	to  daemon.Stream
	own bool // oshrun's own words
	end int
}

func newSink(out, errs io.Writer, note func(error)) *sink {
	k := &sink{to: [2]io.Writer{out, errs}, dest: [2]daemon.Stream{daemon.Stdout, daemon.Stderr}, note: note}
	if same(out, errs) {
		k.dest[daemon.Stderr] = daemon.Stdout
	}
	k.room = sync.NewCond(&k.mu)
	return k
}

// add notes that the batch has grown by n bytes for a destination.
func (b *batch) add(to daemon.Stream, own bool, n int) {
	if last := len(b.parts) - 1; last >= 0 && b.parts[last].to == to && b.parts[last].own == own {
		b.parts[last].end += n
		return
	}
	b.parts = append(b.parts, part{to, own, len(b.text)})
}

// put appends to the next batch. The caller holds the lock.
func (k *sink) put(to daemon.Stream, own bool, text []byte) {
	k.next.text = append(k.next.text, text...)
	k.took(to, own, len(text))
}

// took notes that the next batch has grown, and starts the goroutine that writes it.
func (k *sink) took(to daemon.Stream, own bool, n int) {
	k.next.add(to, own, n)
	k.total += uint64(n)
	if own {
		k.own += n
	}
	if !k.busy {
		k.busy = true
		go k.work()
	}
}

// say takes oshrun's own words, whole lines, and does not wait. It returns false if
// more than most bytes of such words would wait then.
func (k *sink) say(to daemon.Stream, text []byte, most int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.own+len(text) > most && k.own > 0 {
		return false
	}
	k.sayNow(to, text)
	return true
}

// sayNow begins a line. The caller holds the lock.
func (k *sink) sayNow(to daemon.Stream, text []byte) {
	to = k.dest[to]
	k.breakLine(to, nil)
	k.put(to, true, text)
}

// log takes a line of the log.
func (k *sink) log(to daemon.Stream, text []byte) {
	if !k.say(to, text, logBytes) {
		k.mu.Lock()
		k.dropped++
		k.mu.Unlock()
	}
}

// flushed returns a channel that is closed when all that was taken so far has
// been written, or could not be.
func (k *sink) flushed() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.written.Reached(k.total)
}

// giveUp makes the sink take no more text of PEs, and lets PEs go on that wait for room.
func (k *sink) giveUp() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cut = true
	k.room.Broadcast()
}

// waits says whether there is text that is not written.
func (k *sink) waits() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.busy
}

// work writes until nothing is left.
func (k *sink) work() {
	for {
		k.mu.Lock()
		if len(k.next.parts) == 0 {
			k.busy = false
			k.mu.Unlock()
			return
		}
		b := k.next
		k.next, k.own = k.spare, 0
		if n := k.dropped; n > 0 {
			k.dropped = 0
			k.sayNow(daemon.Stderr, fmt.Appendf(nil, "oshrun: %d lines of the log are missing here: they came faster than they were read\n", n))
		}
		k.wake()
		k.mu.Unlock()
		k.write(&b)
		k.written.Add(len(b.text))
		k.mu.Lock()
		k.spare = batch{b.text[:0], b.parts[:0]}
		k.mu.Unlock()
	}
}

// wake lets the PE go on that waits longest for room. That PE wakes the next one if room is left.
func (k *sink) wake() {
	if k.hold.on {
		k.room.Broadcast() // only one may write, and it is not known which of them it is
	} else {
		k.room.Signal()
	}
}

// write writes a batch. After an error, what PEs have written is given up.
func (k *sink) write(b *batch) {
	begin := 0
	for _, p := range b.parts {
		text := b.text[begin:p.end]
		begin = p.end
		if k.isCut() && !p.own {
			continue
		}
		if err := k.writeTo(k.to[p.to], text); err != nil {
			k.note(err)
			k.giveUp()
		}
	}
}

func (k *sink) isCut() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cut
}

// writeTo writes text in pieces, which end with lines if they can.
func (k *sink) writeTo(w io.Writer, text []byte) error {
	for len(text) > 0 {
		n := len(text)
		if n > pieceBytes {
			n = pieceBytes
			if end := bytes.LastIndexByte(text[:n], '\n'); end >= 0 {
				n = end + 1
			}
		}
		if _, err := w.Write(text[:n]); err != nil {
			return err
		}
		text = text[n:]
		k.writes.Add(1)
	}
	return nil
}

// same says whether two writers are one, or write to one file.
func same(a, b io.Writer) bool {
	f, isFile := a.(*os.File)
	g, isToo := b.(*os.File)
	if !isFile || !isToo {
		return a != nil && b != nil && reflect.TypeOf(a).Comparable() && a == b
	}
	x, err := f.Stat()
	if err != nil {
		return false
	}
	y, err := g.Stat()
	return err == nil && os.SameFile(x, y)
}

// apart says whether two writers may be used at the same time: of others than
// files it is not known.
func apart(a, b io.Writer) bool {
	_, isFile := a.(*os.File)
	_, isToo := b.(*os.File)
	return isFile && isToo && !same(a, b)
}
