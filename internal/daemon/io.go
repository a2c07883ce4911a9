package daemon

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

const (
	readBytes = 64 << 10
	// LongLine is the length at which a line is passed on in parts.
	LongLine = 1 << 20
	// slowLine is how long a line that does not end is held back: a prompt.
	slowLine = 100 * time.Millisecond
	// blockBytes is what buffers of programs are multiples of. A line that stops
	// at the end of one is no prompt: its rest comes with the next buffer.
	blockBytes = 4 << 10
	// slowBlock is how long a pause in a line may be that is longer than a block.
	slowBlock = time.Second
)

// outputs opens the outputs of PEs and passes on what they write.
type outputs struct {
	cfg      *settings
	reporter *reporter
	servers  *servers
	noPTY    sync.Once

	mu     sync.Mutex
	window xunix.Window // of the PEs' pseudo terminals
}

// open gives a PE its outputs, and returns the ends that its process writes to. With
// Config.Merge one pipe serves both, which keeps their order exact. A pseudo terminal never
// does: programs ask whether standard error is a terminal, and behave in another way there.
func (out *outputs) open(p *localPE) (theirs []*os.File, err error) {
	r, w := out.openPTY()
	pty := r != nil
	if !pty {
		if r, w, err = os.Pipe(); err != nil {
			return nil, err
		}
	}
	p.cmd.Stdout, p.cmd.Stderr, theirs = w, w, append(theirs, w)
	if err = p.addOutlet(r, pty); err != nil || out.cfg.Merge && !pty {
		return theirs, err
	}
	if r, w, err = os.Pipe(); err != nil {
		return theirs, err
	}
	p.cmd.Stderr, theirs = w, append(theirs, w)
	return theirs, p.addOutlet(r, false)
}

// addOutlet takes the reading end of the next of the PE's outputs.
func (p *localPE) addOutlet(f *os.File, pty bool) error {
	o, err := newOutlet(f, pty)
	if err == nil {
		p.outlets = append(p.outlets, o)
	}
	return err
}

// earlierAtMost bounds for how long text of standard error waits for what stands before it:
// the start of a line is held back for slowLine, and any time where a block ends.
const earlierAtMost = 2 * slowLine

// awaitEarlier returns when what the PE has written to standard output so far has been passed
// on. Without it a terminal would show an error before the output that led to it.
func (p *localPE) awaitEarlier() {
	limit := time.NewTimer(earlierAtMost)
	defer limit.Stop()
	select {
	case <-p.outlets[Stdout].passed.Reached(p.outlets[Stdout].mark()):
	case <-limit.C:
	}
}

// read passes a PE's output on until its end.
func (out *outputs) read(p *localPE, o *outlet, stream Stream) {
	pass := lines
	if out.cfg.Raw {
		pass = unchanged
	}
	p.outputs.Go(func() {
		defer func() { _ = o.Close() }()
		defer func() {
			o.passed.End()
			if out.cfg.OutputEnd != nil {
				out.cfg.OutputEnd(p.id, stream)
			}
		}()
		pass(o, func(text []byte) {
			p.passing.Add(1)
			if out.cfg.Merge && stream == Stderr {
				p.awaitEarlier()
			}
			out.servers.passOutput(p, stream == Stderr && !out.cfg.Merge, text)
			out.cfg.Output(p.id, stream, text)
			p.passing.Add(-1)
			o.passed.Add(len(text))
		})
	})
}

// unchanged calls out with what it reads as it comes.
func unchanged(r io.Reader, out func(text []byte)) {
	buf := make([]byte, readBytes)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			out(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

// lines calls out with text that ends with a line, except for parts of lines
// that are longer than LongLine or take too long, and for the rest at the end.
// A part of LongLine bytes is followed by more, or by no bytes if that takes too
// long.
func lines(r io.Reader, out func(text []byte)) {
	buf := make([]byte, 0, readBytes)
	limit := newLineTimer(r)
	long, fresh := false, 0 // the line is long; the last read brought that much
	for {
		if len(buf) == cap(buf) {
			if cap(buf) < LongLine {
				buf = append(make([]byte, 0, 2*cap(buf)), buf...)
			} else {
				out(buf)
				buf, long = buf[:0], true
			}
		}
		limit.watch(patience(len(buf), fresh, long))
		n, err := r.Read(buf[len(buf):min(cap(buf), len(buf)+readBytes)])
		fresh = n
		buf = buf[:len(buf)+n]
		if end := lineEnd(buf, n); end > 0 {
			out(buf[:end])
			buf, long = buf[:copy(buf, buf[end:])], false
			limit.watch(0) // what follows is another line
		}
		if err == nil || errors.Is(err, os.ErrDeadlineExceeded) && limit.more() {
			continue
		}
		if len(buf) > 0 || long {
			out(buf)
			buf, long = buf[:0], false
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
	}
}

// lineEnd returns where the last line ends of text with n new bytes, 0 if none
// does. A progress bar ends its lines by \r, but \r\n is not torn.
func lineEnd(text []byte, n int) int {
	from := max(len(text)-n-1, 0) // a \r that was last is not any more
	fresh := text[from:]
	end := lastIndex(fresh, '\n')
	if cr := lastIndex(fresh[end+1:], '\r'); cr >= 0 && end+1+cr < len(fresh)-1 {
		end += 1 + cr
	}
	if end < 0 {
		return 0
	}
	return from + end + 1
}

// lastIndex is bytes.LastIndexByte, which is slow where it finds nothing.
func lastIndex(text []byte, c byte) int {
	if bytes.IndexByte(text, c) < 0 {
		return -1
	}
	return bytes.LastIndexByte(text, c)
}

// patience returns how long to wait for more of a line of which held bytes are
// there, fresh ones of them new: 0 means any time.
func patience(held, fresh int, long bool) time.Duration {
	switch {
	case long:
		return slowBlock
	case held == 0, fresh > 0 && fresh%blockBytes == 0:
		return 0
	case held >= blockBytes:
		return slowBlock
	default:
		return slowLine
	}
}

// limitSteps is the number of steps in which a lineTimer waits. A machine that stands still for a
// while ends one step and not the limit: afterwards the rest of the line has time to come.
const limitSteps = 4

// lineTimer limits how long a reader waits for the end of a line.
type lineTimer struct {
	r     interface{ SetReadDeadline(t time.Time) error } // nil: it cannot be limited
	limit time.Duration                                   // that runs; 0: none
	steps int                                             // of the limit that have not ended
}

func newLineTimer(r io.Reader) *lineTimer {
	p := &lineTimer{}
	p.r, _ = r.(interface{ SetReadDeadline(t time.Time) error })
	return p
}

// watch sets the limit, 0 for none. That of a short line runs from its begin,
// that of a long one from its last part.
func (p *lineTimer) watch(limit time.Duration) {
	if p.r == nil || limit == p.limit && limit != slowBlock {
		return
	}
	p.limit, p.steps = limit, limitSteps
	p.begin()
}

// more begins the next step of the limit, and says whether there was one left.
func (p *lineTimer) more() bool {
	p.steps--
	p.begin()
	return p.steps > 0
}

// begin begins a step of the limit, or the time without one.
func (p *lineTimer) begin() {
	var at time.Time
	if p.limit > 0 && p.steps > 0 {
		at = time.Now().Add(p.limit / limitSteps)
	}
	_ = p.r.SetReadDeadline(at) // without it, a prompt comes late
}
