package remote

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
)

// hole is a Peer whose other side says nothing.
type hole struct {
	mu     sync.Mutex
	frames []wire.Frame
}

func (h *hole) Send(f wire.Frame) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.frames = append(h.frames, f)
}

// all returns the frames that were sent.
func (h *hole) all() []wire.Frame {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.frames)
}

// sent returns how many frames of a kind were sent.
func (h *hole) sent(kind wire.Kind) (n int) {
	for _, f := range h.all() {
		if f.Kind == kind {
			n++
		}
	}
	return n
}

// checkGone checks what a call returns if the node is out of reach.
func checkGone(t *testing.T, name string, result any, err error, want string) {
	t.Helper()
	zero, isZero := without[name]
	switch {
	case isZero && (result != zero || err != nil):
		t.Errorf("%s: %v, %v, want %v", name, result, err, zero)
	case !isZero && name != "quit" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: error %v, want one with %q", name, err, want)
	}
}

// Every call that waits when the node is lost returns, and every later one at once.
func TestLossEndsCalls(t *testing.T) {
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := NewClient(new(hole))
				defer c.Close()
				begin := time.Now()
				done := make(chan struct{})
				go func() {
					defer close(done)
					result, err := call(c)
					checkGone(t, name, result, err, errGone.Error())
				}()
				synctest.Wait()
				select {
				case <-done:
					t.Fatal("the call returns without an answer")
				default:
				}
				c.Lost(errGone)
				<-done
				if name != "close" {
					result, err := call(c)
					checkGone(t, name, result, err, errGone.Error())
				}
				if waited := time.Since(begin); waited > 0 {
					t.Errorf("the call has waited for %v more", waited)
				}
			})
		})
	}
}

// Every call of a node that says nothing ends in time.
func TestTimeLimits(t *testing.T) {
	limits := map[string]time.Duration{"check": startAtMost, "start": startAtMost, "a large start": startAtMost, "launch": startAtMost, "add a job": startAtMost, "start a job": startAtMost, "drop a job": startAtMost, "close": closeAtMost, "ask": time.Second + transferAtMost, "quit": time.Second + transferAtMost}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := NewClient(new(hole))
				defer func() {
					c.Lost(errGone)
					_ = c.Close()
				}()
				begin := time.Now()
				result, err := call(c)
				checkGone(t, name, result, err, "not answered within")
				limit, own := limits[name]
				if !own {
					limit = queryAtMost
				}
				if took := time.Since(begin); took != limit {
					t.Errorf("the call has taken %v, want %v", took, limit)
				}
			})
		})
	}
}

// While the front end takes output, the time of Close does not run.
func TestCloseWaitsForOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClient(new(hole))
		reader := make(chan struct{})
		c.use(daemon.Hooks{Output: func(daemon.ID, daemon.Stream, []byte) { <-reader }}, false)
		c.Take(wire.Frame{Kind: wire.KindOutputBegin, Stream: 1, Body: encode(codeSource, source{})})
		c.Take(wire.Frame{Kind: wire.KindOutput, Stream: 1, Body: encode(codeText, text{Text: []byte("line\n")})})
		begin := time.Now()
		time.AfterFunc(time.Hour, func() { close(reader) })
		if err := c.Close(); err == nil || !strings.Contains(err.Error(), "not answered within") {
			t.Errorf("close: %v, want that the node does not answer", err)
		}
		if took := time.Since(begin); took < time.Hour+closeAtMost-time.Second || took > time.Hour+closeAtMost+time.Second {
			t.Errorf("close has taken %v, want an hour, and some %v more", took, closeAtMost)
		}
	})
}

// The last event of a node that is lost says so, and what came before is passed on.
func TestLossIsAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClient(new(hole))
		hooks := silent()
		hooks.Began = time.Now().Add(-time.Minute)
		c.use(hooks, false)
		for pe := range 3 {
			c.Take(wire.Frame{Kind: wire.KindEvent, Body: encode(codeEvent, daemon.Event{Kind: daemon.Exited, ID: daemon.ID{PE: pe}})})
		}
		c.Lost(errGone)
		c.Lost(errors.New("another reason"))
		c.Take(wire.Frame{Kind: wire.KindEvent, Body: encode(codeEvent, daemon.Event{Kind: daemon.Exited})})
		for pe := range 3 {
			if e := <-c.Events(); e.Kind != daemon.Exited || e.PE != pe {
				t.Errorf("event %+v, want the end of PE %d", e, pe)
			}
		}
		if e := <-c.Events(); e.Kind != daemon.NodeLost || e.Msg != errGone.Error() || e.At != time.Minute {
			t.Errorf("event %+v, want that the node is lost a minute after the job began", e)
		}
		synctest.Wait()
		select {
		case e := <-c.Events():
			t.Errorf("event %+v after the loss", e)
		default:
		}
		if err, lost := c.Close(), new(daemon.LostError); !errors.Is(err, errGone) || !errors.As(err, &lost) {
			t.Errorf("close: %v, want the loss", err)
		}
	})
}

// An error of a node that closes is not the loss of it.
func TestCloseFails(t *testing.T) {
	f := newFake()
	c, _ := begin(t, f, daemon.Config{}, silent())
	f.err = errors.New("broken")
	if err, lost := c.Close(), new(daemon.LostError); err == nil || err.Error() != "broken" || errors.As(err, &lost) {
		t.Errorf("close: %v, want the error of the node, not a loss", err)
	}
}

// All outputs of a node that is lost end: those in the middle of a text, those that only an event has spoken of, once each.
func TestLossEndsOutputs(t *testing.T) {
	c := NewClient(new(hole))
	var mu sync.Mutex
	var said []string
	c.use(daemon.Hooks{
		Output: func(id daemon.ID, s daemon.Stream, text []byte) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, fmt.Sprintf("%v.%d %s", id, s, text))
		},
		OutputEnd: func(id daemon.ID, s daemon.Stream) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, fmt.Sprintf("%v.%d end", id, s))
		},
	}, false)
	for pe := range 2 {
		number := uint32(pe + 1)
		c.Take(wire.Frame{Kind: wire.KindOutputBegin, Stream: number, Body: encode(codeSource, source{ID: daemon.ID{PE: pe}})})
		c.Take(wire.Frame{Kind: wire.KindOutput, Stream: number, Body: encode(codeText, text{Text: []byte("begin"), Goes: true})})
	}
	c.Take(wire.Frame{Kind: wire.KindOutput, Stream: 2, Body: encode(codeText, text{Text: []byte(", rest")})})
	c.Take(wire.Frame{Kind: wire.KindOutputEnd, Stream: 2})
	e := daemon.Event{Kind: daemon.Exited, ID: daemon.ID{PE: 7}, Written: daemon.Written{Stderr: 5}}
	c.Take(wire.Frame{Kind: wire.KindEvent, Body: encode(codeEvent, e)})
	c.Lost(errGone)
	if err := c.Close(); !errors.Is(err, errGone) {
		t.Errorf("close: %v, want the loss", err)
	}
	slices.Sort(said)
	if want := []string{"0.0 begin", "0.0 end", "1.0 begin, rest", "1.0 end", "7.1 end"}; !slices.Equal(said, want) {
		t.Errorf("said %q, want %q", said, want)
	}
}

// The credit of what a lost node was fed comes back, and so does that of what is fed later.
func TestLossGivesCreditBack(t *testing.T) {
	var credits []daemon.Credit // by the goroutine of the test
	c := NewClient(new(hole))
	c.use(daemon.Hooks{Credit: func(credit daemon.Credit) { credits = append(credits, credit) }}, false)
	c.Feed(daemon.Chunk{To: 1, Data: make([]byte, 1000)})
	c.Feed(daemon.Chunk{To: 2, Data: make([]byte, 10)})
	for _, back := range []daemon.Credit{{To: 1, Bytes: 400}, {To: 2, Bytes: 10, Gone: true}} {
		c.Take(wire.Frame{Kind: wire.KindCredit, Body: encode(codeCredit, back)})
	}
	c.Lost(errGone)
	c.Feed(daemon.Chunk{To: 3, Data: make([]byte, 3)})
	_ = c.Close() // TestLossIsAnEvent looks at its error
	want := []daemon.Credit{{To: 1, Bytes: 400}, {To: 2, Bytes: 10, Gone: true}, {To: 1, Bytes: 600, Gone: true}, {To: 3, Bytes: 3, Gone: true}}
	if !slices.Equal(credits, want) {
		t.Errorf("credits %+v, want %+v", credits, want)
	}
}

// A front end that is lost takes its node with it: PEs are killed, also those whose output waits for credit.
func TestLossClosesNode(t *testing.T) {
	h := new(hole)
	s := NewServer(h, startStep)
	cfg := daemon.Config{HeapSize: 1 << 20, MostPEs: 8, Apps: []daemon.App{{NPEs: 2, Path: "/bin/sh", Name: "sh", Args: []string{"-c", `[ $PMIX_RANK = 0 ] && exec sleep 1000; while :; do echo $$; done`}}}}
	s.Take(wire.Frame{Kind: wire.KindConfig, Stream: 1, Body: encode(codeSetup, setup{Config: cfg})})
	waitForAnswers(t, h, 1)
	s.Take(wire.Frame{Kind: wire.KindLaunch, Stream: 2})
	waitForAnswers(t, h, 2)
	n := s.running()
	pids := []int{n.PID(daemon.ID{}), n.PID(daemon.ID{PE: 1})}
	within(t, "output waits for credit", func() {
		for !waitsForCredit(s) {
			<-time.After(time.Millisecond)
		}
	})
	s.Lost(errGone)
	s.Lost(errors.New("another reason"))
	within(t, "end of the server", func() {
		if err := s.Wait(); !errors.Is(err, errGone) {
			t.Errorf("the server ends by %v, want the loss", err)
		}
	})
	for pe, pid := range pids {
		if pid == 0 || xunix.Kill(pid, 0) == nil {
			t.Errorf("process %d of PE %d runs, or has never run", pid, pe)
		}
	}
	if n := h.sent(wire.KindOutput); n == 0 || n > outputWindow/4 {
		t.Errorf("%d frames of output were sent", n)
	}
}

// waitForAnswers waits until a server has sent n answers.
func waitForAnswers(t *testing.T, h *hole, n int) {
	t.Helper()
	within(t, "answers", func() {
		for h.sent(wire.KindAnswer) < n {
			<-time.After(time.Millisecond)
		}
	})
}

// waitsForCredit says whether output waits.
func waitsForCredit(s *Server) bool {
	s.output.mu.Lock()
	defer s.output.mu.Unlock()
	return len(s.output.waits) > 0
}

// A loss during the start of a step closes it as soon as it has started.
func TestLossDuringStart(t *testing.T) {
	f, at, goOn := newFake(), make(chan struct{}), make(chan struct{})
	s := NewServer(new(hole), func(cfg daemon.Config, hooks daemon.Hooks) (daemon.Node, error) {
		close(at)
		<-goOn
		return f.start(cfg, hooks)
	})
	s.Take(wire.Frame{Kind: wire.KindConfig, Stream: 1, Body: encode(codeSetup, setup{})})
	<-at
	s.Lost(errGone)
	select {
	case <-s.Done():
		t.Error("the server ends while its step starts")
	default:
	}
	close(goOn)
	within(t, "end of the server", func() { _ = s.Wait() }) // TestLossClosesNode looks at its error
	if calls := f.noted(); !slices.Equal(calls, []string{"close"}) {
		t.Errorf("calls %q, want the close of the node", calls)
	}
}

// What the other side would never send ends the connection.
func TestNotUnderstood(t *testing.T) {
	for name, f := range map[string]wire.Frame{
		"kind":     {Kind: 0x02ff},
		"fence":    {Kind: wire.KindFence},
		"event":    {Kind: wire.KindEvent, Body: []byte{1}},
		"piece":    {Kind: wire.KindPiece},
		"output":   {Kind: wire.KindOutput, Stream: 3, Body: encode(codeText, text{})},
		"end":      {Kind: wire.KindOutputEnd, Stream: 3},
		"number 0": {Kind: wire.KindOutputBegin, Body: encode(codeSource, source{})},
	} {
		c := NewClient(new(hole))
		c.use(silent(), false)
		c.Take(f)
		select {
		case e := <-c.Events():
			if e.Kind != daemon.NodeLost || !strings.Contains(e.Msg, "not understood") {
				t.Errorf("%s: event %+v, want the loss of the node", name, e)
			}
		case <-time.After(patience):
			t.Errorf("%s: the client goes on", name)
		}
		_ = c.Close()
	}
	for name, f := range map[string]wire.Frame{
		"kind":   {Kind: 0x02ff},
		"answer": {Kind: wire.KindAnswer},
		"signal": {Kind: wire.KindSignal},
		"output": {Kind: wire.KindOutputTaken, Stream: 1, Body: encode(wire.Integer, 1)},
		"log":    {Kind: wire.KindLogTaken, Body: encode(wire.Integer, 1)},
		"events": {Kind: wire.KindEventsTaken, Body: encode(wire.Integer, -1)},
		"piece":  {Kind: wire.KindLastPiece},
	} {
		s := NewServer(new(hole), newFake().start)
		s.Take(f)
		within(t, name, func() {
			if err := s.Wait(); err == nil || !strings.Contains(err.Error(), "not understood") {
				t.Errorf("%s: the server ends by %v", name, err)
			}
		})
	}
}

// A loss in the middle of a large answer ends what sends it, and the error of the node's close is said, too.
func TestLossDuringAnswer(t *testing.T) {
	f, h := newFake(), new(hole)
	f.err = errors.New("a process is left")
	f.answers = []daemon.Answer{{Text: make([]byte, 3*pieceBytes)}}
	s := NewServer(h, f.start)
	s.Take(wire.Frame{Kind: wire.KindConfig, Stream: 1, Body: encode(codeSetup, setup{})})
	waitForAnswers(t, h, 1)
	s.Take(wire.Frame{Kind: wire.KindAsk, Stream: 2, Body: encode(codeOrder, order{})})
	within(t, "the first piece", func() {
		for h.sent(wire.KindPiece) == 0 {
			<-time.After(time.Millisecond)
		}
	})
	s.Lost(errGone)
	within(t, "end of the server", func() {
		if err := s.Wait(); !errors.Is(err, errGone) || !errors.Is(err, f.err) {
			t.Errorf("the server ends by %v, want the loss and the error of the close", err)
		}
		s.calls.Wait()
	})
	if n := h.sent(wire.KindPiece); n != 1 {
		t.Errorf("%d pieces were sent, want 1: the front end has not taken it", n)
	}
}
