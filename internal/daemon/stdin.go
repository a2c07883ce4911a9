package daemon

import (
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
)

// Readers are the PEs of the first job that read standard input. The zero Readers are none.
type Readers struct {
	All bool  // every PE
	PEs []int // these PEs, unless All
}

// Has says whether a PE reads standard input.
func (r Readers) Has(pe int) bool { return r.All || slices.Contains(r.PEs, pe) }

// span says whether PEs of several nodes read standard input.
func (r Readers) span(s *Share) bool { return s.hasOthers() && (r.All || len(r.PEs) > 1) }

// Standard input comes in streams: one for all readers together, or one for each of them.
const (
	// AllReaders names the stream of all PEs of a node that read standard input.
	AllReaders = -1
	// ChunkBytes is how much data a Chunk has at most.
	ChunkBytes = 64 << 10
	// StreamWindow is how much data of a stream may be under way: fed, and not yet given back as credit.
	StreamWindow = ChunkBytes
)

// Chunk is a piece of standard input.
type Chunk struct {
	To   int    // the stream: AllReaders, or a PE of the first job
	Data []byte // belongs to the node until its credit is back
	End  bool   // nothing follows in this stream
}

// Credit allows more data of a stream to be fed.
type Credit struct {
	To    int // the stream
	Bytes int // that were taken, or dropped
	// Gone says that nobody reads the stream any more. What is fed all the same is dropped, and its
	// credit comes back, too.
	Gone bool
}

// input carries standard input to the PEs that want it.
type input struct {
	notice func(format string, args ...any)
	credit func(Credit) // nil: nobody wants to know
	shared bool         // PEs of several nodes read the stream of all readers

	mu      sync.Mutex
	dest    map[ID]*os.File
	streams map[int]*stream // by Chunk.To
	pushers map[ID]*pusher  // of what tools send
	lost    map[ID]bool     // what they sent had no reader
}

func newInput(notice func(format string, args ...any), credit func(Credit)) *input {
	return &input{
		notice: notice, credit: credit,
		dest: map[ID]*os.File{}, streams: map[int]*stream{}, pushers: map[ID]*pusher{}, lost: map[ID]bool{},
	}
}

// addReader makes a PE read the input, by the pipe whose writing end is w.
func (in *input) addReader(id ID, w *os.File) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.dest[id] = w
}

// take passes a chunk on to its stream, which its first chunk opens.
func (in *input) take(c Chunk) {
	in.mu.Lock()
	st := in.streams[c.To]
	if st == nil {
		st = newStream(c.To, in.credit)
		in.streams[c.To] = st
		if !in.open(st) {
			st.gone = true // no goroutine has the stream: its lock is not needed
		}
	}
	in.mu.Unlock()
	st.put(c)
}

// open starts what carries a stream to its readers: to each at its own pace, and
// the input of each is closed when it has everything. A reader that has gone is left
// out. It returns false if there is no reader. The caller holds the lock.
//
// Several readers have a spool between the stream and them, so that the slowest holds up no other one. The same holds for
// one reader of this node if other nodes have more: the front end feeds all nodes alike, and would wait for this one.
func (in *input) open(st *stream) bool {
	to := map[ID]*os.File{}
	for id, w := range in.dest {
		if st.to == AllReaders || st.to == id.PE {
			to[id] = w
		}
	}
	switch {
	case len(to) == 0:
		return false
	case len(to) == 1 && (!in.shared || st.to != AllReaders):
		for id, w := range to {
			go in.feedPE(id, w, st)
		}
		return true
	}
	sp := newSpool()
	for id, w := range to {
		go in.feedPE(id, w, sp.reader())
	}
	go func() {
		defer st.abandon()
		if err := sp.fill(st); err != nil && !errors.Is(err, errNoReader) {
			in.notice("standard input is cut: %v", err)
		}
	}()
	return true
}

// feedPE gives a PE what it is to read, and closes from.
func (in *input) feedPE(id ID, w *os.File, from io.ReadCloser) {
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
	_ = from.Close() // never fails
	in.mu.Lock()
	defer in.mu.Unlock()
	_ = w.Close()
	delete(in.dest, id)
}

// close closes the inputs of all PEs, which ends writes that are under way.
func (in *input) close() {
	in.mu.Lock()
	for id, w := range in.dest {
		_ = w.Close()
		delete(in.dest, id)
	}
	streams := slices.Collect(maps.Values(in.streams))
	in.mu.Unlock()
	for _, st := range streams {
		st.abandon()
	}
}

// stream is a stream of standard input, to be read by one goroutine. Each Read gives back the
// credit for what the Read before has returned.
type stream struct {
	to     int
	credit func(Credit) // nil: nobody wants to know

	mu    sync.Mutex
	more  *sync.Cond // queue, ended or gone has changed
	queue [][]byte   // chunks that are not read as a whole
	taken int        // bytes that were read and whose credit is not given back
	ended bool       // the last chunk is in the queue, or was
	gone  bool       // nobody reads it any more
}

func newStream(to int, credit func(Credit)) *stream {
	st := &stream{to: to, credit: credit}
	st.more = sync.NewCond(&st.mu)
	return st
}

// put takes a chunk.
func (st *stream) put(c Chunk) {
	st.mu.Lock()
	gone := st.gone
	if !gone {
		if len(c.Data) > 0 {
			st.queue = append(st.queue, c.Data)
		}
		st.ended = st.ended || c.End
		st.more.Signal()
	}
	st.mu.Unlock()
	if gone {
		st.giveBack(len(c.Data), true)
	}
}

// giveBack tells whoever feeds the stream that it may go on. The caller does not hold the lock.
func (st *stream) giveBack(n int, gone bool) {
	if st.credit != nil && (n > 0 || gone) {
		st.credit(Credit{To: st.to, Bytes: n, Gone: gone})
	}
}

// Read waits for something to read, or the end of the stream.
func (st *stream) Read(b []byte) (int, error) {
	st.mu.Lock()
	n := st.taken
	st.taken = 0
	st.mu.Unlock()
	st.giveBack(n, false)
	st.mu.Lock()
	defer st.mu.Unlock()
	for len(st.queue) == 0 && !st.ended && !st.gone {
		st.more.Wait()
	}
	if len(st.queue) == 0 {
		return 0, io.EOF
	}
	n = copy(b, st.queue[0])
	st.taken = n
	if st.queue[0] = st.queue[0][n:]; len(st.queue[0]) == 0 {
		st.queue = st.queue[1:]
	}
	return n, nil
}

// Close drops what is not read, and gives back its credit.
func (st *stream) Close() error {
	st.abandon()
	return nil
}

// abandon lets nobody read the stream any more.
func (st *stream) abandon() {
	st.mu.Lock()
	was, n := st.gone, st.taken
	for _, data := range st.queue {
		n += len(data)
	}
	st.gone, st.queue, st.taken = true, nil, 0
	st.more.Signal()
	st.mu.Unlock()
	if !was {
		st.giveBack(n, true)
	}
}
