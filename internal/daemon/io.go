package daemon

import (
	"bytes"
	"io"
	"maps"
	"os"
	"sync"
)

const (
	readBytes = 64 << 10
	// longLine is where a line is passed on in parts.
	longLine = 1 << 20
)

// read passes a PE's output on in whole lines until its end.
func (s *Step) read(p *proc, f *os.File, stream Stream) {
	p.outputs.Go(func() {
		defer func() { _ = f.Close() }()
		lines(f, func(text []byte) { s.cfg.Output(p.pe, stream, text) })
	})
}

// lines calls out with text that ends with a line, except for parts of lines
// longer than longLine and for the rest at the end.
func lines(r io.Reader, out func(text []byte)) {
	buf := make([]byte, 0, readBytes)
	for {
		if len(buf) == cap(buf) {
			if cap(buf) >= longLine {
				out(buf)
				buf = buf[:0]
			} else {
				buf = append(make([]byte, 0, 2*cap(buf)), buf...)
			}
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		fresh := buf[len(buf) : len(buf)+n]
		buf = buf[:len(buf)+n]
		if i := bytes.LastIndexAny(fresh, "\n\r"); i >= 0 { // a progress bar ends its lines by \r
			end := len(buf) - n + i + 1
			out(buf[:end])
			buf = buf[:copy(buf, buf[end:])]
		}
		if err != nil {
			if len(buf) > 0 {
				out(buf)
			}
			return
		}
	}
}

// input carries standard input to the PEs that want it.
type input struct {
	mu   sync.Mutex
	dest map[int]*os.File
}

func (in *input) add(pe int, w *os.File) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.dest[pe] = w
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
	for pe, w := range dest {
		if _, err := w.Write(b); err != nil {
			_ = w.Close()
			in.mu.Lock()
			delete(in.dest, pe)
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
	for pe, w := range in.dest {
		_ = w.Close()
		delete(in.dest, pe)
	}
}
