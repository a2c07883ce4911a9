package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
)

// mostAnswer bounds what is kept of an answer; the rest is dropped.
const mostAnswer = 16 << 20

// orderLine is the connection over which a PE takes orders.
type orderLine struct {
	conn    *net.UnixConn
	gone    chan struct{}         // closed when the connection has ended
	turn    chan struct{}         // has an element from an order to its answer
	answers chan wire.OrderPacket // as they come

	// replied says that the reply has been sent. Alerts may follow only then. The lock of the table guards it.
	replied bool
}

func newOrderLine(conn *net.UnixConn) *orderLine {
	return &orderLine{conn: conn, gone: make(chan struct{}), turn: make(chan struct{}, 1), answers: make(chan wire.OrderPacket)}
}

// takeAnswers takes the answers of a PE to orders until it hangs up or the step closes.
func (l *orderLine) takeAnswers(of ID, closing <-chan struct{}) error {
	buf := make([]byte, wire.MaxPacket)
	for {
		n, err := l.conn.Read(buf)
		if n == 0 || err != nil {
			return nil //nolint:nilerr // it has hung up, or the step closes
		}
		packet, err := wire.ParseOrder(buf[:n])
		if err != nil {
			return fmt.Errorf("PE %v: %w", of, err)
		}
		select {
		case l.answers <- packet:
		case <-closing:
			return nil
		}
	}
}

// ask sends an order and returns the answer. done is false for one that is not complete when the deadline passes, which
// late says, or when the PE hangs up.
func (l *orderLine) ask(o wire.Order, deadline time.Time) (text []byte, done, late bool) {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-l.gone:
		return nil, false, false
	case <-timer.C:
		return nil, false, true
	}
	_ = l.conn.SetWriteDeadline(deadline) // fails only on a closed connection, which writing reports
	if _, err := l.conn.Write((&wire.OrderPacket{Order: o}).Append(nil)); err != nil {
		return nil, false, errors.Is(err, os.ErrDeadlineExceeded)
	}
	for {
		select {
		case p := <-l.answers:
			if p.Order != o { // late: to an order that was given up
				continue
			}
			if len(text) < mostAnswer {
				text = append(text, p.Text...)
			}
			if p.Last {
				return text, true, false
			}
		case <-l.gone:
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

// orders gives orders to the PEs that run. It needs no lock but that of the table, and holds that while it looks who
// runs.
type orders struct{ table *table }

// ask is Step.Ask.
func (o *orders) ask(order wire.Order, atMost time.Duration) []Answer {
	deadline := time.Now().Add(atMost)
	pes, lines := o.running()
	answers := make([]Answer, len(pes))
	var asked sync.WaitGroup
	for i, p := range pes {
		answers[i] = Answer{ID: p.id, PID: p.pid, Asked: lines[i] != nil}
		if lines[i] != nil {
			asked.Go(func() {
				a := &answers[i]
				a.Text, a.Done, a.Late = lines[i].ask(order, deadline)
			})
		}
	}
	asked.Wait()
	for i, p := range pes {
		if a := &answers[i]; !a.Done {
			a.Ended, a.Left = o.stateOf(p)
		}
	}
	return answers
}

// running returns the PEs that run, and over which line each takes orders; nil: it takes none.
func (o *orders) running() (pes []*localPE, lines []*orderLine) {
	o.table.mu.Lock()
	defer o.table.mu.Unlock()
	for _, p := range o.table.started() {
		if !p.life.Ended() || p.life.Inside() {
			pes, lines = append(pes, p), append(lines, p.orders)
		}
	}
	return pes, lines
}

// stateOf says whether the process of a PE has ended, and whether the PE has left its job.
func (o *orders) stateOf(p *localPE) (ended, left bool) {
	is, held := o.table.lookAt(p)
	o.table.mu.Lock()
	defer o.table.mu.Unlock()
	return p.life.Dead() || !held || is.over(), p.life.Left()
}

// quitGo is Step.QuitGo. The processes are looked up first, and each gets the signal only if it still is the one that was
// found.
func (o *orders) quitGo(id ID, atMost time.Duration) {
	deadline := time.Now().Add(atMost)
	found := o.goProcesses(id)
	var p *localPE
	o.table.update(id, func(q *localPE) { p = q })
	if p == nil {
		return
	}
	for _, program := range found {
		program.signalProcess(syscall.SIGQUIT)
	}
	within(deadline, func() { <-p.reaped; p.outputs.Wait() })
}

// isAtWork is Step.IsAtWork.
func (o *orders) isAtWork(id ID) bool {
	processes, program := o.processesOf(id)
	for _, x := range processes {
		if x.pid == program {
			continue
		}
		if ready, _ := xunix.Running(x.pid); ready {
			return true
		}
	}
	return false
}

// goProcesses returns the processes of a PE that run Go programs.
func (o *orders) goProcesses(id ID) []identity {
	processes, _ := o.processesOf(id)
	return slices.DeleteFunc(processes, func(x identity) bool { return !isGo(x.pid) })
}

// processesOf returns the processes of a PE, and the number of its program: the process that has joined last.
func (o *orders) processesOf(id ID) (found []identity, program int) {
	var own identity
	o.table.update(id, func(p *localPE) { own, program = p.identity, p.programPID() })
	all := lookAround()
	if own.pid == 0 || all[own.pid].start != own.start {
		return nil, 0 // it has not been started, or is reaped: its number is another one's
	}
	for pid := range tree(all, own.pid) {
		found = append(found, identity{pid, all[pid].start})
	}
	return found, program
}
