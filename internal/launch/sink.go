package launch

import (
	"io"
	"os"
	"sync"
	"sync/atomic"
)

// pieceBytes is how much is written at once, so that a reader who is slow can
// be told from one who does not read.
const pieceBytes = 64 << 10

// sink writes in the order in which it is given text, by a goroutine of its
// own: a destination that nobody reads holds up that goroutine and those who
// choose to wait for it, and nobody else.
type sink struct {
	note   func(error)   // takes the results of writes
	writes atomic.Uint64 // that have ended

	mu    sync.Mutex
	queue []piece
	busy  bool // there is a goroutine
}

// piece is text to be written.
type piece struct {
	to   io.Writer
	text []byte
	done chan struct{}
}

// put queues text and returns a channel that is closed when it is written.
func (k *sink) put(to io.Writer, text []byte) <-chan struct{} {
	done := make(chan struct{})
	k.mu.Lock()
	defer k.mu.Unlock()
	k.queue = append(k.queue, piece{to, text, done})
	if !k.busy {
		k.busy = true
		go k.work()
	}
	return done
}

// waits says whether there is text that is not written.
func (k *sink) waits() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.busy
}

// work writes until the queue is empty.
func (k *sink) work() {
	for {
		k.mu.Lock()
		if len(k.queue) == 0 {
			k.busy = false
			k.mu.Unlock()
			return
		}
		next := k.queue[0]
		k.queue = k.queue[1:]
		k.mu.Unlock()
		k.write(next.to, next.text)
		close(next.done)
	}
}

func (k *sink) write(to io.Writer, text []byte) {
	for len(text) > 0 {
		part := text[:min(len(text), pieceBytes)]
		text = text[len(part):]
		if _, err := to.Write(part); err != nil {
			k.note(err)
			return
		}
		k.writes.Add(1)
	}
}

// distinct says whether two writers are different files. Of others it cannot be
// known whether what they do may be done at the same time.
func distinct(a, b io.Writer) bool {
	f, isFile := a.(*os.File)
	g, isToo := b.(*os.File)
	if !isFile || !isToo {
		return false
	}
	x, err := f.Stat()
	if err != nil {
		return false
	}
	y, err := g.Stat()
	return err == nil && !os.SameFile(x, y)
}
