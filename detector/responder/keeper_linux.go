package responder

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/xunix"
)

// order is what the daemon tells the keeper by its standard input first.
type order struct {
	Tier  Tier
	_     [3]byte
	Files uint32 // descriptors from firstFile on that are the keeper's
	TTL   int64  // nanoseconds
}

// orderSize is the size of an order in bytes.
const orderSize = 16

// firstFile is the first descriptor that the keeper inherits. In the process tier it is the page, and the next one the
// socket.
const firstFile = 3

// readyWord is what a keeper says when it has begun. It says anything else to tell why it cannot.
const readyWord = "ready"

// notReal begins what a keeper says that may not go under SCHED_FIFO.
const notReal = "real time: "

// errRealTime reports that the keeper may not go under SCHED_FIFO.
var errRealTime = errors.New("the keeper must go before other processes")

// keeper is the daemon's side of the keeper: it starts one, and another one if that ends.
type keeper struct {
	command []string
	order   order
	files   []*os.File // that each keeper inherits
	log     zerolog.Logger
	over    sync.WaitGroup
	stopped chan struct{} // closed by stop

	mu  sync.Mutex
	cmd *exec.Cmd // the running one; nil: none, or stopped
}

// running is a keeper's process.
type running struct {
	cmd   *exec.Cmd
	in    *os.File // its end is the daemon's end
	out   *os.File // what it says
	began time.Time
}

// newKeeper returns a keeper that owns the files.
func newKeeper(cfg *Config, tier Tier, files ...*os.File) *keeper {
	return &keeper{
		command: cfg.Keeper, files: files, log: cfg.Logger, stopped: make(chan struct{}),
		order: order{Tier: tier, Files: uint32(len(files)), TTL: int64(cfg.TTL)},
	}
}

// start starts the first keeper, and waits until it is ready. If it fails, no other one is started.
func (k *keeper) start() error {
	p, err := k.begin()
	if err != nil {
		return err
	}
	if err := p.awaitReady(); err != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait() // it was killed
		p.close()
		return err
	}
	k.over.Go(func() { k.tend(p) })
	return nil
}

// startLater starts a keeper without waiting for it.
func (k *keeper) startLater() {
	k.over.Go(func() {
		p, err := k.begin()
		if errors.Is(err, os.ErrClosed) {
			return // stopped already
		}
		if err != nil {
			k.log.Warn().Err(err).Msg("the responder has no keeper yet: others will learn of this daemon's end by silence")
			p = k.again(keeperPause)
		}
		k.tend(p)
	})
}

// begin starts a process.
func (k *keeper) begin() (p *running, err error) {
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, stdin.Close(), in.Close())
	}
	p = &running{cmd: exec.Command(k.command[0], k.command[1:]...), in: in, out: out, began: time.Now()} //nolint:gosec // the caller's command
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.ExtraFiles = stdin, stdout, k.files
	p.cmd.Env = []string{"GOMAXPROCS=1"} // nothing of the daemon's
	p.cmd.SysProcAttr = xunix.LastingAttr()
	// The pipe takes the order before the process is there. So the keeper has it even if the daemon ends now.
	if err = binary.Write(in, binary.LittleEndian, &k.order); err == nil {
		err = k.launch(p)
	}
	_, _ = stdin.Close(), stdout.Close() // the process has them
	if err != nil {
		p.close()
		return nil, fmt.Errorf("start the keeper of the responder: %w", err)
	}
	return p, nil
}

// launch starts a process unless stop was called. stop kills it then.
func (k *keeper) launch(p *running) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case <-k.stopped:
		return os.ErrClosed
	default:
	}
	if err := xunix.AtOwnPriority(p.cmd.Start); err != nil {
		return err
	}
	k.cmd = p.cmd
	return nil
}

func (p *running) close() { _, _ = p.in.Close(), p.out.Close() } // pipes

// keeperPatience bounds the start of a keeper.
const keeperPatience = 10 * time.Second

// awaitReady waits until the keeper is ready.
func (p *running) awaitReady() error {
	if err := p.out.SetReadDeadline(time.Now().Add(keeperPatience)); err != nil {
		return err
	}
	const most = 4096
	text, err := io.ReadAll(io.LimitReader(p.out, most))
	said := string(bytes.TrimSpace(text))
	switch {
	case said == readyWord:
		return nil
	case err != nil:
		return fmt.Errorf("the keeper of the responder does not report itself (%v): %w", p.cmd.Args, err)
	case bytes.HasPrefix(text, []byte(notReal)):
		return fmt.Errorf("%w: %s", errRealTime, said[len(notReal):])
	}
	return fmt.Errorf("the keeper of the responder (%v) says %q, want %q", p.cmd.Args, said, readyWord)
}

// tend waits for the end of keepers, and starts others, until stop.
func (k *keeper) tend(p *running) {
	for p != nil {
		err := p.cmd.Wait()
		p.close()
		select {
		case <-k.stopped:
			return
		default:
		}
		k.log.Warn().Err(err).Msg("the keeper of the responder has ended, another one is started")
		pause := time.Duration(0)
		if time.Since(p.began) < keeperPause {
			pause = keeperPause
		}
		p = k.again(pause)
	}
}

// keeperPause is the time from the end of a keeper that has ended at once to the start of the next one. One that has run for so long
// has its successor immediately: in the tier Process nobody answers meanwhile, and others hold the node for dead soon.
const keeperPause = 100 * time.Millisecond

// again starts another keeper after a pause, and tries until it has started. It returns nil after stop.
func (k *keeper) again(pause time.Duration) *running {
	for ; ; pause = min(max(2*pause, keeperPause), 100*keeperPause) {
		select {
		case <-k.stopped:
			return nil
		case <-time.After(pause):
		}
		p, err := k.begin()
		if err == nil {
			return p
		}
		k.log.Debug().Err(err).Msg("the responder has no keeper")
	}
}

// owns says whether the keeper runs as a process, or is still to be reaped. It waits for a start that is under way. Of no
// keeper it is false.
func (k *keeper) owns(pid int) bool {
	if k == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cmd != nil && k.cmd.Process.Pid == pid
}

// stop ends the keeper, and closes the files.
func (k *keeper) stop() {
	k.mu.Lock()
	close(k.stopped)
	if k.cmd != nil {
		_ = k.cmd.Process.Kill() // an error: it has ended
	}
	k.mu.Unlock()
	k.over.Wait()
	for _, f := range k.files {
		_ = f.Close() // nothing was written
	}
}
