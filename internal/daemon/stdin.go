package daemon

import (
	"errors"
	"io"
	"math"
	"os"
	"sync"
)

// input carries standard input to the PEs that want it.
type input struct {
	notice func(format string, args ...any)

	mu      sync.Mutex
	dest    map[ID]*os.File
	pushers map[ID]*pusher // of what tools send
	lost    map[ID]bool    // what they sent had no reader
}

func (in *input) add(id ID, w *os.File) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.dest[id] = w
}

// run gives src to all readers, to each at its own pace, and closes each one's
// input when it has everything. One that has gone is left out.
func (in *input) run(src io.Reader) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch n := len(in.dest); {
	case src == nil || n == 0:
		return
	case n == 1:
		for id, w := range in.dest {
			go in.feed(id, w, struct{ io.Reader }{src}) // not to be closed
		}
		return
	}
	reader, begin := independent(src)
	for id, w := range in.dest {
		go in.feed(id, w, reader())
	}
	go func() {
		if err := begin(); err != nil && !errors.Is(err, errNoReader) {
			in.notice("standard input is cut: %v", err)
		}
	}()
}

// independent returns a function that makes readers of src, which do not wait
// for each other, and what is to be run when all have been made.
func independent(src io.Reader) (reader func() io.Reader, begin func() error) {
	if f, ok := src.(*os.File); ok {
		st, err := f.Stat()
		at, serr := f.Seek(0, io.SeekCurrent)
		if err == nil && serr == nil && st.Mode().IsRegular() {
			return func() io.Reader { return io.NewSectionReader(f, at, math.MaxInt64-at) }, func() error { return nil }
		}
	}
	sp := newSpool()
	return func() io.Reader { return sp.reader() }, func() error { return sp.fill(src) }
}

// feed gives a PE what it is to read.
func (in *input) feed(id ID, w *os.File, from io.Reader) {
	buf := make([]byte, readBytes)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				break // it does not read any more
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				in.notice("standard input of PE %v is cut: %v", id, err)
			}
			break
		}
	}
	if c, ok := from.(io.Closer); ok {
		_ = c.Close()
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	_ = w.Close()
	delete(in.dest, id)
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
