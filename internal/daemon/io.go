package daemon

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"sync"
	"time"
)

const (
	readBytes = 64 << 10
	// longLine is where a line is passed on in parts.
	longLine = 1 << 20
	// slowLine is how long a line that does not end is held back: a prompt.
	slowLine = 100 * time.Millisecond
)

// read passes a PE's output on in whole lines until its end.
func (s *Step) read(p *proc, f *os.File, stream Stream) {
	p.outputs.Go(func() {
		defer func() { _ = f.Close() }()
		lines(f, func(text []byte) {
			p.passing.Add(1)
			defer p.passing.Add(-1)
			s.cfg.Output(p.id, stream, text)
		})
	})
}

// lines calls out with text that ends with a line, except for parts of lines
// that are longer than longLine or take longer than slowLine, and for the rest
// at the end.
func lines(r io.Reader, out func(text []byte)) {
	buf := make([]byte, 0, readBytes)
	limit := newLineTimer(r)
	for {
		if len(buf) == cap(buf) {
			if cap(buf) >= longLine {
				out(buf)
				buf = buf[:0]
			} else {
				buf = append(make([]byte, 0, 2*cap(buf)), buf...)
			}
		}
		limit.watch(len(buf) > 0)
		n, err := r.Read(buf[len(buf):cap(buf)])
		fresh := buf[len(buf) : len(buf)+n]
		buf = buf[:len(buf)+n]
		if i := bytes.LastIndexAny(fresh, "\n\r"); i >= 0 { // a progress bar ends its lines by \r
			end := len(buf) - n + i + 1
			out(buf[:end])
			buf = buf[:copy(buf, buf[end:])]
			limit.watch(false) // what follows is another line
		}
		if err == nil {
			continue
		}
		if len(buf) > 0 {
			out(buf)
			buf = buf[:0]
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
	}
}

// lineTimer limits how long a reader waits for the end of a line.
type lineTimer struct {
	r       interface{ SetReadDeadline(t time.Time) error } // nil: it cannot be limited
	running bool
}

func newLineTimer(r io.Reader) *lineTimer {
	p := &lineTimer{}
	p.r, _ = r.(interface{ SetReadDeadline(t time.Time) error })
	return p
}

// watch starts the time when a line begins, and stops it when there is none.
func (p *lineTimer) watch(within bool) {
	if p.r == nil || within == p.running {
		return
	}
	p.running = within
	var at time.Time
	if within {
		at = time.Now().Add(slowLine)
	}
	_ = p.r.SetReadDeadline(at) // without it, a prompt comes late
}

// input carries standard input to the PEs that want it.
type input struct {
	mu   sync.Mutex
	dest map[ID]*os.File
}

func (in *input) add(id ID, w *os.File) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.dest[id] = w
}

// run copies src to all readers until its end, then closes them. The slowest
// reader sets the pace; one that has gone is left out.
func (in *input) run(src io.Reader) {
	if src == nil || len(in.dest) == 0 {
		return
	}
	go func() {
		defer in.close()
		buf := make([]byte, readBytes)
		for {
			n, err := src.Read(buf)
			if n > 0 && !in.write(buf[:n]) || err != nil {
				return
			}
		}
	}()
}

// write says whether anybody still reads.
func (in *input) write(b []byte) bool {
	in.mu.Lock()
	dest := maps.Clone(in.dest)
	in.mu.Unlock()
	for id, w := range dest {
		if _, err := w.Write(b); err != nil {
			_ = w.Close()
			in.mu.Lock()
			delete(in.dest, id)
			in.mu.Unlock()
		}
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.dest) > 0
}

// close ends everybody's input, and a write that is under way.
func (in *input) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	for id, w := range in.dest {
		_ = w.Close()
		delete(in.dest, id)
	}
}
