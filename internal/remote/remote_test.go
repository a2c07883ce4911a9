package remote

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/detector/kernel"
	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/house/testenv"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
)

// Calls reach the node in order, with what they say, and answers come back.
func TestCalls(t *testing.T) {
	f := newFake()
	c, _ := begin(t, f, daemon.Config{}, silent())
	id := daemon.ID{Job: 2, PE: 7}
	if err := c.SetAgents([]string{"a:1", ""}); err != nil {
		t.Error(err)
	}
	if err := c.Launch(); err != nil {
		t.Error(err)
	}
	c.Signal(syscall.SIGTERM)
	c.Suspend()
	c.Resize(xunix.Window{Rows: 24, Columns: 80})
	c.Feed(daemon.Chunk{To: 3, Data: make([]byte, 300<<10), End: true})
	c.Feed(daemon.Chunk{To: daemon.AllReaders, End: true})
	c.Refuse(true)
	if err := c.FarFailed(daemon.FarFailure{PEs: []int{8, 9}, NodeLost: true, Before: true}); err != nil {
		t.Error(err)
	}
	if pid := c.PID(id); pid != 1007 {
		t.Errorf("process %d, want 1007", pid)
	}
	if !c.Stopped() || !c.Forsake(id) || !c.IsAtWork(id) || !c.HasGo(id) {
		t.Error("an answer is false, want true")
	}
	c.QuitGo(id, time.Second)
	if c.Tier() != "fake" || c.ToolURI() != "tcp://tools" {
		t.Errorf("tier %q, URI %q", c.Tier(), c.ToolURI())
	}
	c.Ask(wire.OrderCalls, time.Minute)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	want := []string{
		`agents ["a:1" ""]`, "launch", "signal 15", "suspend", "resize 24, 80",
		"feed 3: 131072 bytes, false", "feed 3: 131072 bytes, false", "feed 3: 45056 bytes, true", "feed -1: 0 bytes, true", "refuse true", "far failed [8 9], true, true",
		"pid 2.7", "stopped", "forsake 2.7", "at work 2.7", "go 2.7", "quit 2.7, 1s", fmt.Sprintf("ask %d, 1m0s", wire.OrderCalls), "close",
	}
	if got := f.noted(); !slices.Equal(got, want) {
		t.Errorf("calls %q, want %q", got, want)
	}
}

// A configuration of any size comes as it was sent, and so do answers of any size.
func TestLargeMessages(t *testing.T) {
	var cfg daemon.Config
	testenv.Fill(reflect.ValueOf(&cfg).Elem())
	for i := range 40000 {
		cfg.Apps[1].Env = append(cfg.Apps[1].Env, fmt.Sprintf("VARIABLE_%d=%s", i, strings.Repeat("x", i%100)))
	}
	f := newFake()
	c, _ := begin(t, f, cfg, silent())
	if !reflect.DeepEqual(f.cfg, cfg) {
		t.Error("another configuration came than was sent")
	}
	for pe := range 3 {
		f.answers = append(f.answers, daemon.Answer{ID: daemon.ID{PE: pe}, PID: 7, Asked: true, Text: bytes.Repeat([]byte{byte(pe)}, pe*pieceBytes*5+1)})
	}
	if got := c.Ask(wire.OrderStacks, patience); !reflect.DeepEqual(got, f.answers) {
		t.Errorf("%d answers came, want %d, or they differ", len(got), len(f.answers))
	}
	cfg.Apps[0].Env = []string{strings.Repeat("x", maxMessage)}
	if err := c.Start(cfg, silent()); err == nil || !strings.Contains(err.Error(), "want at most") {
		t.Errorf("a configuration without end: %v", err)
	}
}

// Errors of the node keep their meaning.
func TestErrors(t *testing.T) {
	c, s := pair(t, func(daemon.Config, daemon.Hooks) (daemon.Node, error) {
		return nil, fmt.Errorf("start: %w", &kernel.TierError{Tier: kernel.BPF, Missing: "CAP_BPF"})
	})
	err := c.Start(daemon.Config{}, silent())
	if tier := new(kernel.TierError); !errors.As(err, &tier) || tier.Missing != "CAP_BPF" || !strings.HasPrefix(err.Error(), "start: ") {
		t.Errorf("error %v, want a TierError", err)
	}
	if err := c.Launch(); err == nil || err.Error() != errNoNode.Error() {
		t.Errorf("launch without a step: %v, want %v", err, errNoNode)
	}
	if err := c.Close(); err != nil || s.Wait() != nil {
		t.Errorf("close without a step: %v; the server: %v", err, s.Wait())
	}
	f := newFake()
	f.err = fmt.Errorf("PE 3: %w", syscall.EAGAIN)
	c, s = begin(t, f, daemon.Config{}, silent())
	if err := c.Launch(); !errors.Is(err, syscall.EAGAIN) || err.Error() != f.err.Error() {
		t.Errorf("launch: %v, want %v", err, f.err)
	}
	if err := c.Start(daemon.Config{}, silent()); err == nil || !strings.Contains(err.Error(), "the node has one") {
		t.Errorf("second start: %v", err)
	}
	if err := c.Close(); !errors.Is(err, syscall.EAGAIN) || s.Wait() != nil {
		t.Errorf("close: %v, want %v; the server: %v", err, f.err, s.Wait())
	}
	if err := c.Launch(); !errors.Is(err, errClosed) {
		t.Errorf("launch after close: %v", err)
	}
}

// Programs are looked up where the node is, before anything is made.
func TestCheck(t *testing.T) {
	c, _ := pair(t, newFake().start)
	app := daemon.App{NPEs: 1, Program: "no-such-program", Dir: "/"}
	hint := new(daemon.HintError)
	if err := c.Check(&daemon.Config{Apps: []daemon.App{app}}); !errors.As(err, &hint) || hint.Hint == "" {
		t.Errorf("check of a program that is not there: %v, want an error with a hint", err)
	}
	app.Program = "/bin/sh"
	if err := c.Check(&daemon.Config{Apps: []daemon.App{app}}); err != nil {
		t.Errorf("check of a program that is there: %v", err)
	}
}

// Events that a front end does not take wait at the node, beyond a number that may be on the way.
func TestEventWindow(t *testing.T) {
	f, h := newFake(), new(hole)
	s := NewServer(h, f.start)
	s.Take(wire.Frame{Kind: wire.KindConfig, Stream: 1, Body: encode(codeSetup, setup{})})
	waitForAnswers(t, h, 1)
	for range eventWindow {
		f.events <- daemon.Event{Kind: daemon.Changed, Msg: strings.Repeat("x", 2*maxWords)}
	}
	select {
	case f.events <- daemon.Event{}:
		t.Errorf("event %d is taken, want it to wait", eventWindow+1)
	default:
	}
	s.Take(wire.Frame{Kind: wire.KindEventsTaken, Body: encode(wire.Integer, 2)})
	within(t, "two events", func() { f.events <- daemon.Event{}; f.events <- daemon.Event{} })
	select {
	case f.events <- daemon.Event{}:
		t.Error("a third event is taken, want it to wait")
	default:
	}
	if n := len(h.all()[1].Body); n < maxWords || n > maxWords+200 {
		t.Errorf("an event of a talkative PE has %d bytes, want %d of its words", n, maxWords)
	}
	s.Take(wire.Frame{Kind: wire.KindClose, Stream: 2})
	within(t, "close", func() { _ = s.Wait() })
}

// The node's log goes to that of the front end, as its level says; notices and texts of PEs come, too.
func TestLogs(t *testing.T) {
	var out bytes.Buffer // written by Take alone
	var notices, logs []string
	hooks := silent()
	hooks.Logger = zerolog.New(&out).Level(zerolog.InfoLevel).With().Int("node", 3).Logger()
	hooks.Notice = func(text string) { notices = append(notices, text) }
	hooks.Log = func(s daemon.Stream, text []byte) { logs = append(logs, fmt.Sprintf("%d %s", s, text)) }
	f := newFake()
	c, _ := begin(t, f, daemon.Config{}, hooks)
	f.hooks.Logger.Debug().Msg("details")
	f.hooks.Logger.Info().Int("pid", 123456789).Time(zerolog.TimestampFieldName, time.Unix(0, 0)).Msg("started")
	f.hooks.Logger.WithLevel(zerolog.FatalLevel).Err(errGone).Send()
	f.hooks.Notice("look")
	f.hooks.Notice(strings.Repeat("x", maxWords+1))
	f.hooks.Log(daemon.Stderr, []byte("text"))
	f.err = errGone
	_ = c.FarFailed(daemon.FarFailure{}) // what it returns is in TestCalls
	c.PID(daemon.ID{})                   // begins after the call before it
	f.err = nil
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	want := `{"level":"info","node":3,"pid":123456789,"message":"started"}` + "\n" + `{"level":"fatal","node":3,"error":"the cable is cut"}` + "\n"
	if out.String() != want {
		t.Errorf("log %q, want %q", out.String(), want)
	}
	if len(notices) != 3 || notices[0] != "look" || len(notices[1]) != maxWords || notices[2] != errGone.Error() || !slices.Equal(logs, []string{"1 text"}) {
		t.Errorf("notices %.20q, texts %q", notices, logs)
	}
}

// A log that comes faster than it is taken is cut, and that is said.
func TestLogIsCut(t *testing.T) {
	f, h := newFake(), new(hole)
	s := NewServer(h, f.start)
	s.Take(wire.Frame{Kind: wire.KindConfig, Stream: 1, Body: encode(codeSetup, setup{})})
	waitForAnswers(t, h, 1)
	text := bytes.Repeat([]byte{'x'}, logWindow/4)
	for range 7 {
		f.hooks.Log(daemon.Stdout, text)
	}
	if n := h.sent(wire.KindLog); n != 4 {
		t.Errorf("%d texts are on the way, want 4", n)
	}
	s.Take(wire.Frame{Kind: wire.KindLogTaken, Body: encode(wire.Integer, len(text))})
	frames := h.all()
	last := frames[len(frames)-1]
	if h.sent(wire.KindLog) != 5 || !strings.Contains(string(last.Body), "3 texts of a node's log are missing") {
		t.Errorf("the last text is %.100q, want that 3 are missing", last.Body)
	}
	s.Take(wire.Frame{Kind: wire.KindClose, Stream: 2})
	within(t, "close", func() { _ = s.Wait() })
}

// FuzzTake: nothing that the other side sends makes a client or a server panic, or keeps them from ending. The first byte
// says which of them takes the frames.
func FuzzTake(f *testing.F) {
	seed := func(server bool, frames ...wire.Frame) {
		b := []byte{0}
		if server {
			b[0] = 1
		}
		for i := range frames {
			b = frames[i].Append(b)
		}
		f.Add(b)
	}
	seed(true, wire.Frame{Kind: wire.KindConfig, Stream: 1, Body: encode(codeSetup, setup{})}, wire.Frame{Kind: wire.KindLaunch, Stream: 2},
		wire.Frame{Kind: wire.KindSignal, Body: encode(wire.Integer, 15)}, wire.Frame{Kind: wire.KindPID, Stream: 3, Body: encode(codeID, daemon.ID{})},
		wire.Frame{Kind: wire.KindChunk, Body: encode(codeChunk, daemon.Chunk{})}, wire.Frame{Kind: wire.KindClose, Stream: 9})
	seed(true, wire.Frame{Kind: wire.KindPiece, Stream: 1, Body: []byte{1}}, wire.Frame{Kind: wire.KindLastPiece, Stream: 1, Body: make([]byte, 9)})
	seed(false, wire.Frame{Kind: wire.KindOutputBegin, Stream: 1, Body: encode(codeSource, source{})},
		wire.Frame{Kind: wire.KindOutput, Stream: 1, Body: encode(codeText, text{Text: []byte("line\n")})}, wire.Frame{Kind: wire.KindOutputEnd, Stream: 1},
		wire.Frame{Kind: wire.KindEvent, Body: encode(codeEvent, daemon.Event{Kind: daemon.Exited})}, wire.Frame{Kind: wire.KindAnswer, Stream: 1, Body: encode(codeAnswer, answer{})})
	seed(false, wire.Frame{Kind: wire.KindLog, Body: encode(codeText, text{})}, wire.Frame{Kind: wire.KindLogLine, Body: []byte(`{"level":"info"}`)},
		wire.Frame{Kind: wire.KindNotice}, wire.Frame{Kind: wire.KindCredit, Body: encode(codeCredit, daemon.Credit{})}, wire.Frame{Kind: wire.KindPieceTaken, Stream: 1})
	f.Fuzz(func(_ *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		c, s := NewClient(new(hole)), NewServer(new(hole), newFake().start)
		hooks := silent()
		hooks.Logger = zerolog.New(new(bytes.Buffer))
		c.use(hooks, b[0]&2 != 0)
		take := c.Take
		if b[0]&1 != 0 {
			take = s.Take
		}
		for r := bytes.NewReader(b[1:]); ; {
			frame, err := wire.ReadFrame(r, wire.MaxBody)
			if err != nil {
				break
			}
			take(frame)
		}
		c.Lost(errGone)
		s.Lost(errGone)
		_, _ = c.Close(), s.Wait()
	})
}
