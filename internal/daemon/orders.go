package daemon

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
)

// mostAnswer bounds what is kept of an answer; the rest is dropped.
const mostAnswer = 16 << 20

// taker is the connection over which a PE takes orders.
type taker struct {
	conn *net.UnixConn
	gone chan struct{} // closed when the connection has ended

	turn    chan struct{} // has an element from an order to its answer
	answers chan wire.OrderPacket

	replied bool // under Step.mu: the reply has been sent, behind which news may follow
}

func newTaker(conn *net.UnixConn) *taker {
	return &taker{conn: conn, gone: make(chan struct{}), turn: make(chan struct{}, 1), answers: make(chan wire.OrderPacket)}
}

// employ sends the reply to a PE that asks for orders. The PE takes orders before
// it has the reply, as it may go on at once, and be asked: those given meanwhile
// wait. Of several processes of a PE the last that asked gets the orders.
func (s *Step) employ(t *taker, p *proc, reply func() error) error {
	t.turn <- struct{}{}
	defer func() { <-t.turn }()
	s.mu.Lock()
	before := p.orders
	p.orders = t
	s.mu.Unlock()
	err := reply()
	s.mu.Lock()
	if err != nil {
		if p.orders == t {
			p.orders = before
		}
		s.mu.Unlock()
		return err
	}
	t.replied = true
	p.job.stirred = p.job.stirred || p.job.failures > 0 // which it may have missed
	s.mu.Unlock()
	s.stir()
	return t.conn.SetDeadline(time.Time{})
}

// obey takes the answers to orders until the PE hangs up.
func (s *Step) obey(t *taker, p *proc) error {
	buf := make([]byte, wire.MaxPacket)
	for {
		n, err := t.conn.Read(buf)
		if n == 0 || err != nil {
			return nil //nolint:nilerr // it has hung up, or the step closes
		}
		packet, err := wire.ParseOrder(buf[:n])
		if err != nil {
			return fmt.Errorf("PE %v: %w", p.id, err)
		}
		select {
		case t.answers <- packet:
		case <-s.closing:
			return nil
		}
	}
}

// ask sends an order and returns the answer. done is false for one that is not complete when the deadline passes, which
// late says, or when the PE hangs up.
func (t *taker) ask(o wire.Order, deadline time.Time) (text []byte, done, late bool) {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-t.gone:
		return nil, false, false
	case <-timer.C:
		return nil, false, true
	}
	_ = t.conn.SetWriteDeadline(deadline) // fails only on a closed connection, which writing reports
	if _, err := t.conn.Write((&wire.OrderPacket{Order: o}).Append(nil)); err != nil {
		return nil, false, errors.Is(err, os.ErrDeadlineExceeded)
	}
	for {
		select {
		case p := <-t.answers:
			if p.Order != o { // late: to an order that was given up
				continue
			}
			if len(text) < mostAnswer {
				text = append(text, p.Text...)
			}
			if p.Last {
				return text, true, false
			}
		case <-t.gone:
			return text, false, false
		case <-timer.C:
			return text, false, true
		}
	}
}

// Answer is what a PE has to say to an order.
type Answer struct {
	ID
	PID   int
	Asked bool // the PE takes orders
	Done  bool // the answer is complete
	Late  bool // it was not complete in time; otherwise the PE has hung up
	Ended bool // there is no answer, and the PE's process has ended
	Left  bool // there is no answer, and the PE has left the job by Finalize; its process may still run
	Text  []byte
}

// Ask gives an order to all PEs that run and returns their answers, at most
// within the time given. A PE that takes no orders has none.
func (s *Step) Ask(o wire.Order, atMost time.Duration) []Answer {
	deadline := time.Now().Add(atMost)
	var answers []Answer
	var takers []*taker
	var asks []*proc
	s.mu.Lock()
	for _, p := range s.started() {
		if !p.life.Ended() || p.life.Inside() {
			answers = append(answers, Answer{ID: p.id, PID: p.pid(), Asked: p.orders != nil})
			takers, asks = append(takers, p.orders), append(asks, p)
		}
	}
	s.mu.Unlock()
	var asked sync.WaitGroup
	for i, t := range takers {
		if t != nil {
			asked.Go(func() {
				a := &answers[i]
				a.Text, a.Done, a.Late = t.ask(o, deadline)
			})
		}
	}
	asked.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range asks {
		if a := &answers[i]; !a.Done {
			a.Ended = p.life.Dead() || p.life.Ended() || look(p.pid()).over()
			a.Left = p.life.Left()
		}
	}
	return answers
}

// HasGo says whether there are Go programs among the processes of a PE.
func (s *Step) HasGo(id ID) bool { return len(s.goOf(id)) > 0 }

// QuitGo sends SIGQUIT to those, whose runtime then prints the stacks of all
// goroutines and ends the program, and waits for that and the output, at most
// for the time given. Other programs would only make a core file.
func (s *Step) QuitGo(id ID, atMost time.Duration) {
	deadline := time.Now().Add(atMost)
	pids := s.goOf(id)
	var p *proc
	s.with(id, func(q *proc) {
		if p = q; p.life.Ended() {
			return // its number may be somebody else's
		}
		for _, pid := range pids {
			_ = xunix.Kill(pid, syscall.SIGQUIT)
		}
	})
	if p != nil {
		within(deadline, func() { <-p.reaped; p.outputs.Wait() })
	}
}

// goOf returns the processes of a PE that run Go programs.
func (s *Step) goOf(id ID) (pids []int) {
	pid := s.PID(id)
	if pid == 0 {
		return nil
	}
	for pid := range tree(lookAround(), pid) {
		if isGo(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// isGo says whether a process runs a Go program.
func isGo(pid int) bool {
	f, err := os.Open(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return false
	}
	last := lastExe.Load()
	if last == nil || !last.same(info) {
		_, err = buildinfo.Read(f)
		last = &exe{info, err == nil}
		lastExe.Store(last)
	}
	return last.isGo
}

// exe is a program's file and what it was found to be. The PEs of a job mostly
// run the same one, and to look into it takes longer than all else that is done
// for a PE that joins.
type exe struct {
	os.FileInfo
	isGo bool
}

var lastExe atomic.Pointer[exe]

// same says whether a file is this one, unchanged.
func (e *exe) same(as os.FileInfo) bool {
	return os.SameFile(e.FileInfo, as) && e.ModTime().Equal(as.ModTime()) && e.Size() == as.Size()
}
