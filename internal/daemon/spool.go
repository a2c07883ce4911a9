package daemon

import (
	"errors"
	"io"
	"os"
	"sync"

	"github.com/goshmem/goshmem/internal/xunix"
)

const (
	// spoolMost is how far the fastest reader may be ahead of the slowest.
	spoolMost = 1 << 30
	// punchBytes is how much is freed at once.
	punchBytes = 4 << 20
)

// spool lets several readers read one stream, each at its own pace: what the
// slowest has still to read waits in a file without a name.
type spool struct {
	most int64

	mu      sync.Mutex
	more    *sync.Cond // for readers: end or over has changed
	less    *sync.Cond // for the filler: the readers have
	file    *os.File
	end     int64 // of what the file holds
	freed   int64 // it holds nothing before; the filler writes it
	over    bool  // the filler has ended: nothing will follow
	readers map[*spoolReader]bool
}

// spoolReader reads a spool from its begin.
type spoolReader struct {
	sp *spool
	at int64
}

func newSpool() *spool {
	sp := &spool{most: spoolMost, readers: map[*spoolReader]bool{}}
	sp.more, sp.less = sync.NewCond(&sp.mu), sync.NewCond(&sp.mu)
	return sp
}

// reader returns a further reader; all are made before fill is called.
func (sp *spool) reader() io.ReadCloser {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	r := &spoolReader{sp: sp}
	sp.readers[r] = true
	return r
}

// errNoReader ends the filling of a spool that nobody reads.
var errNoReader = errors.New("nobody reads")

// fill copies src to its end.
func (sp *spool) fill(src io.Reader) error {
	file, err := spoolFile()
	sp.mu.Lock()
	sp.file = file
	sp.mu.Unlock()
	buf := make([]byte, readBytes)
	for err == nil {
		var n int
		n, err = src.Read(buf)
		if werr := sp.write(buf[:n]); werr != nil {
			err = werr
		}
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.over = true
	sp.more.Broadcast()
	sp.closeUnused()
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// spoolFile returns a file without a name: on disk, or in memory where the file
// system for temporary files has none such.
func spoolFile() (*os.File, error) {
	f, err := xunix.Unnamed(os.TempDir())
	if err == nil {
		return f, nil
	}
	mem, merr := xunix.Memfd("goshmem-stdin", 0)
	if merr != nil {
		return nil, errors.Join(err, merr)
	}
	return mem, nil
}

// write appends b. It waits while the slowest reader is too far behind, and
// where the file can hold no more, until all have read what it holds.
func (sp *spool) write(b []byte) error {
	for len(b) > 0 {
		if err := sp.awaitReaders(sp.most - 1); err != nil {
			return err
		}
		n, err := sp.file.WriteAt(b, sp.end)
		b = b[n:]
		sp.mu.Lock()
		sp.end += int64(n)
		held := sp.end > sp.slowest()
		sp.more.Broadcast()
		sp.mu.Unlock()
		switch {
		case err == nil:
		case !held && n == 0:
			return err
		default:
			if err := sp.awaitReaders(0); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitReaders waits until the slowest reader is at most that many bytes behind, and gives back what all have read.
func (sp *spool) awaitReaders(most int64) error {
	sp.mu.Lock()
	for {
		if len(sp.readers) == 0 {
			sp.mu.Unlock()
			return errNoReader
		}
		at := sp.slowest()
		if sp.end-at <= most {
			sp.mu.Unlock()
			sp.punch(at, most == 0)
			return nil
		}
		sp.less.Wait()
	}
}

// slowest returns how far the slowest reader has come. The caller holds the lock.
func (sp *spool) slowest() int64 {
	at := sp.end
	for r := range sp.readers {
		at = min(at, r.at)
	}
	return at
}

// punch gives back what the file holds before at, if it is much or all of it is wanted. Only the filler calls it, without
// the lock: the readers have all come to at, and none goes back.
func (sp *spool) punch(at int64, all bool) {
	if !all && at-sp.freed < punchBytes || at == sp.freed {
		return
	}
	if xunix.Punch(sp.file, sp.freed, at) == nil { // otherwise it takes more room, until the end
		sp.mu.Lock()
		sp.freed = at
		sp.mu.Unlock()
	}
}

// closeUnused closes the file if the filler has ended and no reader is left. The caller holds the lock.
func (sp *spool) closeUnused() {
	if sp.over && len(sp.readers) == 0 && sp.file != nil {
		_ = sp.file.Close()
	}
}

// Read waits for something to read.
func (r *spoolReader) Read(b []byte) (int, error) {
	sp := r.sp
	sp.mu.Lock()
	for r.at == sp.end && !sp.over {
		sp.more.Wait()
	}
	n := min(int64(len(b)), sp.end-r.at)
	sp.mu.Unlock()
	if n == 0 {
		return 0, io.EOF
	}
	got, err := sp.file.ReadAt(b[:n], r.at)
	sp.mu.Lock()
	defer sp.mu.Unlock()
	r.at += int64(got)
	sp.less.Signal()
	return got, err
}

// Close lets the others go on without this reader.
func (r *spoolReader) Close() error {
	sp := r.sp
	sp.mu.Lock()
	defer sp.mu.Unlock()
	delete(sp.readers, r)
	sp.less.Signal()
	sp.closeUnused()
	return nil
}
