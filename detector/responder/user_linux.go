package responder

import (
	"errors"
	"net/netip"
	"os"
	"sync"
	"syscall"

	"github.com/goshmem/goshmem/internal/xunix"
)

// user is the tier User: a goroutine of the daemon answers.
type user struct {
	page *page
	over sync.WaitGroup
}

func openUser(r *Responder) (source, error) {
	// A keeper that could not begin had the socket, and package exec has made it one that blocks: Close would not end reads.
	raw, err := r.socket.SyscallConn()
	if err == nil {
		var serr error
		err = raw.Control(func(fd uintptr) { serr = syscall.SetNonblock(int(fd), true) })
		err = errors.Join(err, serr)
	}
	if err != nil {
		return nil, &TierError{User, "a socket that does not block", err}
	}
	u := &user{page: &page{}}
	u.page.set(&r.cfg, r.addr, os.Getpid(), 0)
	u.over.Go(func() { u.serve(r) })
	return u, nil
}

// serve answers until the socket is closed.
func (u *user) serve(r *Responder) {
	m := &mind{page: u.page, kill: killProcess}
	var b [pingRoom]byte
	for {
		n, from, err := r.socket.ReadFromUDPAddrPort(b[:])
		if err != nil {
			return // closed
		}
		if out := m.respond(b[:n]); out != nil {
			u.send(r, out, from)
		}
		if u.page.fences.Load() != 0 {
			r.noteFence()
		}
	}
}

// send sends an answer. One that does not go out is asked for again.
func (u *user) send(r *Responder, out []byte, to netip.AddrPort) {
	if _, err := r.socket.WriteToUDPAddrPort(out, to); err != nil {
		r.cfg.Logger.Debug().Err(err).Stringer("to", to).Msg("an answer of the responder is lost")
	}
}

func (u *user) shared() *page { return u.page }

func (u *user) startOf(pid int) (uint64, error) { return xunix.StartTime(pid) }

func (u *user) owns(int) bool { return false }

func (u *user) close() error {
	u.over.Wait()
	return nil
}
