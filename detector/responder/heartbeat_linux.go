package responder

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// priority is that of the keeper under SCHED_FIFO, of 1 to 99. Few things of a machine go before it.
const priority = 50

// RunKeeper is the work of "oshrun heartbeat", which a daemon starts. It ends some time after the daemon has.
func RunKeeper() error {
	runtime.LockOSThread()
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGTSTP)
	var o order
	if err := o.read(os.Stdin); err != nil {
		return fmt.Errorf("oshrun starts its heartbeats itself: %w", err)
	}
	if o.Tier == Kernel {
		return holdFiles(o)
	}
	return answerPings(o)
}

// read reads the order of the daemon.
func (o *order) read(in io.Reader) error {
	var b [orderSize]byte
	if _, err := io.ReadFull(in, b[:]); err != nil {
		return fmt.Errorf("order of the daemon: %w", err)
	}
	if err := binary.Read(bytes.NewReader(b[:]), binary.LittleEndian, o); err != nil {
		return fmt.Errorf("order of the daemon: %w", err)
	}
	if o.Tier != Kernel && (o.Tier != Process || o.Files != 2) || o.TTL < 0 {
		return fmt.Errorf("order of the daemon: tier %v with %d files and a TTL of %d ns, want kernel, or process with 2", o.Tier, o.Files, o.TTL)
	}
	return nil
}

// report tells the daemon that the keeper is ready, or why it is not.
func report(text string) {
	_, _ = os.Stdout.WriteString(text + "\n") // the daemon may have ended
	_ = os.Stdout.Close()
}

// holdFiles keeps the inherited descriptors until some time after the daemon's end. The kernel answers as long.
func holdFiles(o order) error {
	report(readyWord)
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return fmt.Errorf("wait for the end of the daemon: %w", err)
	}
	<-time.After(max(time.Duration(o.TTL), 1))
	return nil
}

// pingRoom is the size of the buffer for datagrams. Those that are larger get no answer.
const pingRoom = 128

// Numbers of what the keeper waits for.
const (
	idInput = 1 + iota
	idSocket
)

// pulse is a keeper that answers.
type pulse struct {
	mind
	daemonSeen watched
	socket     int
	poll       *xunix.Epoll
	dies       time.Time // when the keeper ends; zero: the daemon lives
	ttl        time.Duration
	from       xunix.Sender
	b          [pingRoom]byte
	ready      []xunix.Readiness
	waiting    time.Duration // what the next wait takes at most; negative: no limit
}

// memory bounds the garbage of the keeper. Answers leave none, but fences do, and looks at a daemon that stands still.
const memory = 64 << 20

// answerPings answers until some time after the daemon's end. It goes under SCHED_FIFO and collects hardly any garbage:
// nothing keeps it from answering but the kernel itself.
func answerPings(o order) error {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(memory)
	at, err := xunix.Map(firstFile, pageSize, true)
	if err != nil {
		report(err.Error())
		return nil
	}
	k := &pulse{socket: firstFile + 1, ttl: time.Duration(o.TTL), ready: make([]xunix.Readiness, 0, 2), waiting: -1}
	k.mind = mind{page: (*page)(at), kill: killProcess, killDaemon: true}
	k.daemonSeen.page = k.page
	k.starved = k.daemonSeen.isStarved
	if k.poll, err = xunix.NewEpoll(); err == nil {
		defer k.poll.Close()
		err = errors.Join(k.poll.Add(0, idInput, false), k.poll.Add(k.socket, idSocket, false))
	}
	if err != nil {
		report(err.Error())
		return nil
	}
	_ = xunix.LockMemory() // without it, an answer may wait for a page of the program
	if err := xunix.GoRealTime(priority); err != nil {
		report(notReal + err.Error())
		return nil
	}
	report(readyWord)
	return k.serve()
}

// serve answers. It allocates nothing for answers.
func (k *pulse) serve() (err error) {
	for {
		if !k.dies.IsZero() {
			if k.waiting = time.Until(k.dies); k.waiting <= 0 {
				return nil
			}
		}
		if k.ready, _, err = k.poll.Wait(k.ready[:0], k.waiting); err != nil {
			return err
		}
		for _, at := range k.ready {
			switch at.ID {
			case idInput:
				k.noteEnd()
			case idSocket:
				if err := k.drain(); err != nil {
					return err
				}
			}
		}
	}
}

// noteEnd notes the end of the daemon. The daemon writes nothing after its order.
func (k *pulse) noteEnd() {
	k.poll.Remove(0)
	k.ended.Store(1)
	k.dies = time.Now().Add(k.ttl)
}

// drain answers what has come.
func (k *pulse) drain() error {
	for {
		n, err := xunix.ReceiveDatagram(k.socket, k.b[:], &k.from)
		if errors.Is(err, xunix.ErrAgain) {
			return nil
		}
		if err != nil {
			return err
		}
		if out := k.respond(k.b[:n]); out != nil {
			_ = xunix.SendDatagram(k.socket, out, &k.from) // a lost answer is asked for again
		}
	}
}

// stillFor is how long a tick must not have changed to stand still. The kernel program has the same.
const stillFor = 20 * time.Millisecond

// watched is the daemon as the keeper sees it.
type watched struct {
	page    *page
	tick    uint32
	since   time.Duration // when tick was seen first; 0: never
	looked  time.Duration // when starved was found
	starved bool
}

// isStarved says whether the tick stands still while a thread of the daemon is runnable. It looks at threads once in a
// while only, as it reads a file of each.
func (w *watched) isStarved() bool {
	tick, now := w.page.tick.Load(), xunix.Monotonic()
	if tick != w.tick || w.since == 0 {
		w.tick, w.since = tick, now
		return false
	}
	if now-w.since < stillFor {
		return false
	}
	if now-w.looked >= stillFor {
		w.looked = now
		w.starved, _ = xunix.Running(int(w.page.daemon))
	}
	return w.starved
}
