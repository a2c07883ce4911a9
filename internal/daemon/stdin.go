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

func newInput(notice func(format string, args ...any)) *input {
	return &input{dest: map[ID]*os.File{}, pushers: map[ID]*pusher{}, lost: map[ID]bool{}, notice: notice}
}

// addReader makes a PE read the input, by the pipe whose writing end is w.
func (in *input) addReader(id ID, w *os.File) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.dest[id] = w
}

// distribute gives src to all readers, to each at its own pace. It closes the input of a reader that has everything, and
// leaves out a reader that has gone.
func (in *input) distribute(src io.Reader) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch n := len(in.dest); {
	case src == nil || n == 0:
		return
	case n == 1:
		for id, w := range in.dest {
			go in.feedPE(id, w, struct{ io.Reader }{src}) // not to be closed
		}
		return
	}
	reader, begin := independentReaders(src)
	for id, w := range in.dest {
		go in.feedPE(id, w, reader())
	}
	go func() {
		if err := begin(); err != nil && !errors.Is(err, errNoReader) {
			in.notice("standard input is cut: %v", err)
		}
	}()
}

// independentReaders returns a function that makes readers of src, which do not wait
// for each other, and what is to be run when all have been made.
func independentReaders(src io.Reader) (reader func() io.Reader, begin func() error) {
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

// feedPE copies a reader to the input of a PE, and closes that at the end.
func (in *input) feedPE(id ID, w *os.File, from io.Reader) {
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

// close closes the inputs of all PEs, which ends writes that are under way.
func (in *input) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	for id, w := range in.dest {
		_ = w.Close()
		delete(in.dest, id)
	}
}
