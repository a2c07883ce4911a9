package stream

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/symheap/layout"
)

// journal notes what a machine wants done.
type journal struct {
	lines  []string
	status record.Status
}

func (j *journal) note(format string, args ...any) {
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

// Execute implements Executor.
func (j *journal) Execute(s Source, r *record.Record) (record.Status, uint64) {
	j.note("%v of %d.%d.%d.%d", r.Op, s.Node, s.Local, s.Class, s.Incarnation)
	return j.status, 77
}

// Done implements Sink.
func (j *journal) Done(local layout.Local, class, node int, count uint64) {
	j.note("done %d.%d.%d: %d", node, local, class, count)
}

// Data implements Sink.
func (j *journal) Data(local layout.Local, to uint64, data []byte) {
	j.note("data %d at %d: %s", local, to-base, data)
}

// Answer implements Sink.
func (j *journal) Answer(local layout.Local, slot uint32, number uint64, status record.Status, value uint64) {
	j.note("answer %d slot %d #%d: %v, %d", local, slot, number, status, value)
}

// take returns the lines and forgets them.
func (j *journal) take() string {
	lines := strings.Join(j.lines, "; ")
	j.lines = nil
	return lines
}

// The records of the tests.
var (
	onePut   = record.AppendPut(nil, 0, base, []byte("12345678"))
	oneFetch = record.AppendAtomicFetch(nil, 0, base, record.CodeOf(record.AtomicAdd, 8), 1, 0, 3)
	oneGet   = record.AppendGet(nil, 1, base+64, 5, base+8, 4)
	oneTeam  = record.AppendTeam(nil, record.TeamLater, []byte("message"))
	oneLast  = record.AppendTeam(nil, record.TeamSoon, []byte("message"))
	oneStrip = record.AppendGetStrided(nil, 1, base+64, record.Shape{Step: 16, Block: 8, N: 3}, base+8, 5)
)

// recordsFrame returns a frame of records of local PE 0.
func recordsFrame(incarnation uint32, first, answered uint64, records ...[]byte) []byte {
	body := slices.Concat(records...)
	h := Header{Kind: KindRecords, Incarnation: incarnation, Number: first, Word: answered, N: uint32(len(records)), Bytes: uint32(len(body))}
	return append(h.Append(nil), body...)
}

// bare returns a frame without a body.
func bare(h Header) []byte { return h.Append(nil) }

// replies returns what the Receiver wants to send to node 1, in readable form.
func replies(r *Receiver) string {
	var out []string
	var f Frame
	for {
		node, ok := r.Turn()
		if !ok {
			return strings.Join(out, "; ")
		}
		for r.Next(node, &f) {
			slot, status := f.slotAndStatus()
			line := fmt.Sprintf("%v %d.%d.%d: %d", f.Kind, f.Local, f.Class, f.Incarnation, f.Number)
			switch f.Kind {
			case KindExecuted:
				line += fmt.Sprintf(", %d", f.Word)
			case KindValue:
				line += fmt.Sprintf(" slot %d %v %d", slot, status, f.Word)
			case KindData:
				line += fmt.Sprintf(" slot %d %v to %d from %+v", slot, status, f.Word-base, f.Read)
			default:
			}
			out = append(out, line)
		}
	}
}

// greeted returns a Receiver to which node 1 has said hello on its connection 1.
func greeted(t *testing.T) *Receiver {
	t.Helper()
	r := NewReceiver(ReceiverConfig{Nodes: 2})
	hello(t, r, 1, "welcome 0.0.0: 0")
	return r
}

// hello opens connection g of node 1, sends the greeting, and expects the reply.
func hello(t *testing.T, r *Receiver, g uint32, want string, greeting ...Header) {
	t.Helper()
	r.Opened(1, g)
	for _, h := range append(greeting, Header{Kind: KindHello}) {
		if err := r.Received(1, g, bare(h), &journal{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := replies(r); got != want {
		t.Errorf("reply to the greeting: %q, want %q", got, want)
	}
}

// receive gives a Receiver bytes and expects what it executes.
func receive(t *testing.T, r *Receiver, g uint32, j *journal, want string, frames ...[]byte) {
	t.Helper()
	if err := r.Received(1, g, slices.Concat(frames...), j); err != nil {
		t.Errorf("Received: %v", err)
	}
	if got := j.take(); got != want {
		t.Errorf("executed %q, want %q", got, want)
	}
}

func expectReplies(t *testing.T, r *Receiver, want string) {
	t.Helper()
	if got := replies(r); got != want {
		t.Errorf("replies %q, want %q", got, want)
	}
}

// TestAnswers follows answers from the record to the acknowledgement.
func TestAnswers(t *testing.T) {
	r, j := greeted(t), &journal{}
	receive(t, r, 1, j, "put of 1.0.0.0; fetch of 1.0.0.0; get of 1.0.0.0; strided get of 1.0.0.0", recordsFrame(0, 0, 0, onePut, oneFetch, oneGet, oneStrip))
	expectReplies(t, r, "value 0.0.0: 1 slot 3 ok 77; "+
		"data 0.0.0: 2 slot 4 ok to 8 from {Local:1 Offset:8388672 Length:5 Strided:false Shape:{Step:0 Block:0 N:0}}; "+
		"data 0.0.0: 3 slot 5 ok to 8 from {Local:1 Offset:8388672 Length:24 Strided:true Shape:{Step:16 Block:8 N:3}}; "+
		"done 0.0.0: 4")

	// The connection breaks. Of the answers, the sender has the first.
	r.Broken(1, 1)
	hello(t, r, 2, "executed 0.0.0: 4, 2; welcome 0.0.0: 0; "+
		"data 0.0.0: 2 slot 4 ok to 8 from {Local:1 Offset:8388672 Length:5 Strided:false Shape:{Step:0 Block:0 N:0}}; "+
		"data 0.0.0: 3 slot 5 ok to 8 from {Local:1 Offset:8388672 Length:24 Strided:true Shape:{Step:16 Block:8 N:3}}; "+
		"done 0.0.0: 4", Header{Kind: KindAnswered, Number: 2})

	// A bad request and one to a dead PE have answers without data. What the sender has is forgotten.
	j.status = record.StatusBad
	receive(t, r, 2, j, "get of 1.0.0.0", recordsFrame(0, 4, 4, oneGet))
	expectReplies(t, r, "value 0.0.0: 4 slot 4 bad request 77; done 0.0.0: 5")
	j.status = record.StatusDead
	receive(t, r, 2, j, "put of 1.0.0.0; fetch of 1.0.0.0", recordsFrame(0, 5, 5, onePut, oneFetch))
	expectReplies(t, r, "value 0.0.0: 6 slot 3 target dead 77; done 0.0.0: 7")
	if k := r.nodes[1].streams[0].answers.n; k != 1 {
		t.Errorf("%d answers are kept, want the one that is not acknowledged", k)
	}
}

func TestDuplicates(t *testing.T) {
	r, j := greeted(t), &journal{}
	receive(t, r, 1, j, "put of 1.0.0.0; put of 1.0.0.0", recordsFrame(0, 0, 0, onePut, onePut))
	receive(t, r, 1, j, "", recordsFrame(0, 0, 0, onePut, onePut))
	receive(t, r, 1, j, "fetch of 1.0.0.0", recordsFrame(0, 1, 0, onePut, oneFetch))
	expectReplies(t, r, "value 0.0.0: 2 slot 3 ok 77; done 0.0.0: 3")
}

func TestIncarnations(t *testing.T) {
	r, j := greeted(t), &journal{}
	receive(t, r, 1, j, "fetch of 1.0.0.1; put of 1.0.0.1", recordsFrame(1, 0, 0, oneFetch, onePut))
	receive(t, r, 1, j, "put of 1.0.0.3", recordsFrame(3, 0, 0, onePut))
	expectReplies(t, r, "done 0.0.3: 1")
	receive(t, r, 1, j, "", recordsFrame(1, 2, 0, onePut), recordsFrame(2, 0, 0, onePut))
	expectReplies(t, r, "")

	// A death that is known drops what waits to be sent and what comes.
	receive(t, r, 1, j, "fetch of 1.0.0.3", recordsFrame(3, 1, 0, oneFetch))
	r.DropPE(1, 0, 3)
	r.DropPE(1, 0, 2)
	expectReplies(t, r, "")
	receive(t, r, 1, j, "", recordsFrame(3, 2, 0, onePut))
	hello(t, r, 2, "executed 0.0.3: 2, 2; welcome 0.0.0: 0")
	receive(t, r, 2, j, "put of 1.0.0.4", recordsFrame(4, 0, 0, onePut))
	r.DropNode(1)
	r.Opened(1, 3)
	receive(t, r, 3, j, "", recordsFrame(4, 1, 0, onePut))
	r.DropPE(1, 0, 4)
	expectReplies(t, r, "")
}

// TestLateConnections: what comes of a connection that was replaced, or about it, has no effect.
func TestLateConnections(t *testing.T) {
	r, j := greeted(t), &journal{}
	frame := recordsFrame(0, 0, 0, onePut)
	receive(t, r, 1, j, "", frame[:40])
	hello(t, r, 2, "welcome 0.0.0: 0")
	r.Opened(1, 1)
	receive(t, r, 1, j, "", frame[40:])
	r.Broken(1, 1)
	receive(t, r, 2, j, "put of 1.0.0.0", frame)
	r.Sent(1, 1, 100, 100)
	expectReplies(t, r, "done 0.0.0: 1")

	s := sending(t, 1)
	s.Broken(1, 0)
	s.Retry(1)
	if err := s.Received(1, 1, bare(Header{Kind: KindDone, Number: 1}), j); err != nil || j.take() != "done 1.0.0: 1" {
		t.Errorf("a done after news of an older connection: %v", err)
	}
}

func TestReceiverRefuses(t *testing.T) {
	start := func(h Header) [][]byte { return [][]byte{bare(h)} }
	cut := recordsFrame(0, 0, 0, onePut, onePut)
	cut[32+24] = 0
	long := recordsFrame(0, 0, 0, onePut, onePut)
	long[24] = 1
	for _, c := range []struct {
		name   string
		first  bool // before the greeting
		frames [][]byte
		want   string
	}{
		{"records before hello", true, [][]byte{recordsFrame(0, 0, 0, onePut)}, "kind"},
		{"second hello", false, start(Header{Kind: KindHello}), "kind"},
		{"greeting after hello", false, start(Header{Kind: KindAnswered}), "kind"},
		{"frame of a receiver", false, start(Header{Kind: KindDone}), "kind"},
		{"gap", false, [][]byte{recordsFrame(0, 1, 0, onePut)}, "first number is 1, want at most the 0"},
		{"gap of a new incarnation", false, [][]byte{recordsFrame(0, 0, 0, onePut), recordsFrame(1, 1, 0, onePut)}, "first number is 1, want at most the 0"},
		{"answers that were not given", false, [][]byte{recordsFrame(0, 0, 1, onePut)}, "answered"},
		{"answers before the first record", true, start(Header{Kind: KindAnswered, Number: 1}), "answered"},
		{"bad record", false, [][]byte{cut}, "op is 0"},
		{"put from the heap", false, [][]byte{recordsFrame(0, 0, 0, onePut, onePutFrom)}, fmt.Sprintf("op is %d", record.OpPutFrom)},
		{"more bytes than records", false, [][]byte{long}, "bytes is 48, want 24"},
		{"too many requests", false, [][]byte{
			recordsFrame(0, 0, 0, slices.Repeat([][]byte{oneFetch}, 100)...), recordsFrame(0, 100, 0, slices.Repeat([][]byte{oneFetch}, 100)...),
			recordsFrame(0, 200, 0, slices.Repeat([][]byte{oneFetch}, 57)...),
		}, "answers to wait for is 257, want at most 256"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := NewReceiver(ReceiverConfig{Nodes: 2})
			r.Opened(1, 1)
			if !c.first {
				r = greeted(t)
			}
			j := &journal{}
			err := r.Received(1, 1, slices.Concat(c.frames...), j)
			if !errors.Is(err, ErrFrame) || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "node 1: ") {
				t.Errorf("error %v, want one of node 1 about %s", err, c.want)
			}
			j.take()
			if err := r.Received(1, 1, recordsFrame(0, 0, 0, onePut), j); err != nil || j.take() != "" {
				t.Errorf("after the error: %v, want that all is ignored", err)
			}
			expectReplies(t, r, "")
			if r.Opened(1, 2); r.nodes[1].state != greeting {
				t.Error("the next connection does not begin with a greeting")
			}
		})
	}
	t.Run("records before the welcome", func(t *testing.T) {
		r := NewReceiver(ReceiverConfig{Nodes: 2})
		r.Opened(1, 1)
		err := r.Received(1, 1, append(bare(Header{Kind: KindHello}), recordsFrame(0, 0, 0, onePut)...), &journal{})
		if !errors.Is(err, ErrFrame) {
			t.Errorf("error %v, want %v", err, ErrFrame)
		}
	})
}

// requests returns what the Sender wants to send, in readable form.
func requests(s *Sender) string {
	var out []string
	var f Frame
	for {
		node, ok := s.Turn()
		if !ok {
			return strings.Join(out, "; ")
		}
		for s.Next(node, &f) {
			line := fmt.Sprintf("%v %d.%d.%d: %d", f.Kind, f.Local, f.Class, f.Incarnation, f.Number)
			if f.Kind == KindRecords {
				line += fmt.Sprintf("+%d, %d", f.N, f.Word)
			}
			out = append(out, line)
		}
	}
}

// add gives a Sender a block of local PE 0 for node 1.
func add(t *testing.T, s *Sender, number int, first uint64, records ...[]byte) {
	t.Helper()
	if err := s.Add(&Block{Number: number, Node: 1, First: first, Body: slices.Concat(records...)}); err != nil {
		t.Fatal(err)
	}
}

// sending returns a Sender that has sent n puts on connection 1.
func sending(t *testing.T, n int) *Sender {
	t.Helper()
	s := NewSender(SenderConfig{Near: 2, Nodes: 2, Limits: testLimits})
	add(t, s, 0, 0, slices.Repeat([][]byte{onePut}, n)...)
	expectRequests(t, s, "hello 0.0.0: 0")
	s.Opened(1, 1)
	expectSunk(t, s, 1, "", Header{Kind: KindWelcome})
	expectRequests(t, s, fmt.Sprintf("records 0.0.0: 0+%d, 0", n))
	return s
}

func expectRequests(t *testing.T, s *Sender, want string) {
	t.Helper()
	if got := requests(s); got != want {
		t.Errorf("requests %q, want %q", got, want)
	}
}

// expectSunk gives the Sender a frame without a body and expects what it tells the PE.
func expectSunk(t *testing.T, s *Sender, g uint32, want string, h Header) {
	t.Helper()
	j := &journal{}
	if err := s.Received(1, g, bare(h), j); err != nil {
		t.Errorf("%+v: %v", h, err)
	}
	if got := j.take(); got != want {
		t.Errorf("%+v: told %q, want %q", h, got, want)
	}
}

// TestResend follows records over a connection that breaks.
func TestResend(t *testing.T) {
	s := sending(t, 4)
	add(t, s, 0, 0, slices.Repeat([][]byte{onePut}, 5)...) // the block grows
	add(t, s, 7, 5, oneFetch, oneFetch)
	expectRequests(t, s, "records 0.0.0: 4+1, 0; records 0.0.0: 5+2, 0")
	expectSunk(t, s, 1, "done 1.0.0: 2", Header{Kind: KindDone, Number: 2})
	expectSunk(t, s, 1, "answer 0 slot 3 #5: ok, 77", Header{Kind: KindValue, Number: 5, Word: 77, N: 3})
	expectSunk(t, s, 1, "", Header{Kind: KindValue, Number: 5, Word: 78, N: 3}) // again
	s.Broken(1, 1)
	add(t, s, 8, 7, onePut)
	expectRequests(t, s, "")
	s.Retry(1)
	expectRequests(t, s, "answered 0.0.0: 6; hello 0.0.0: 0")
	s.Opened(1, 2)
	expectSunk(t, s, 1, "", Header{Kind: KindDone, Number: 7}) // late
	expectSunk(t, s, 2, "done 1.0.0: 6", Header{Kind: KindExecuted, Number: 6, Word: 6})
	expectSunk(t, s, 2, "", Header{Kind: KindWelcome})
	expectRequests(t, s, "records 0.0.0: 6+1, 6; records 0.0.0: 7+1, 6")
	if !s.IsBusy(1) {
		t.Error("IsBusy is false with records that are not done")
	}
	expectSunk(t, s, 2, "answer 0 slot 3 #6: ok, 1", Header{Kind: KindValue, Number: 6, Word: 1, N: 3})
	expectSunk(t, s, 2, "done 1.0.0: 8", Header{Kind: KindDone, Number: 8})
	expectSunk(t, s, 2, "done 1.0.0: 8", Header{Kind: KindDone, Number: 8}) // a reminder
	s.Broken(1, 2)
	s.Retry(1)
	expectRequests(t, s, "")
	if s.IsBusy(1) {
		t.Error("IsBusy is true although all is done")
	}
	add(t, s, 0, 8, onePut) // the block again
	expectRequests(t, s, "answered 0.0.0: 8; hello 0.0.0: 0")
}

// TestDataInPieces: data goes to its place as it comes, and the slot is completed after it.
func TestDataInPieces(t *testing.T) {
	s := sending(t, 2)
	j := &journal{}
	h := Header{Kind: KindData, Number: 1, Word: base + 8, N: 4, Bytes: 5}
	frame := append(h.Append(nil), "hello"...)
	want := []string{"data 0 at 8: he", "data 0 at 10: ll", "data 0 at 12: o; answer 0 slot 4 #1: ok, 0", ""}
	for i, piece := range [][]byte{frame[:34], frame[34:36], frame[36:], frame} {
		if err := s.Received(1, 1, piece, j); err != nil {
			t.Fatal(err)
		}
		if got := j.take(); got != want[i] {
			t.Errorf("piece %d: %q, want %q", i, got, want[i])
		}
	}
}

func TestSenderDrops(t *testing.T) {
	s := sending(t, 2)
	s.DropPE(0)
	expectSunk(t, s, 1, "", Header{Kind: KindDone, Number: 2})
	add(t, s, 3, 77, onePut) // of the dead PE
	expectRequests(t, s, "")
	if s.IsBusy(1) {
		t.Error("IsBusy is true although the only PE with records is dead")
	}
	s.StartPE(0, 4)
	add(t, s, 3, 0, onePut)
	expectRequests(t, s, "records 0.0.4: 0+1, 0")
	expectSunk(t, s, 1, "", Header{Kind: KindDone, Number: 1, Incarnation: 3})
	expectSunk(t, s, 1, "done 1.0.0: 1", Header{Kind: KindDone, Number: 1, Incarnation: 4})
	add(t, s, 4, 1, onePut)
	s.DropNode(1)
	s.Opened(1, 9)
	s.Broken(1, 9)
	s.Retry(1)
	add(t, s, 4, 1, onePut)
	expectRequests(t, s, "")
	expectSunk(t, s, 1, "", Header{Kind: KindDone, Number: 2, Incarnation: 4})
}

func TestSenderRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		h    Header
		want string
	}{
		{"second welcome", Header{Kind: KindWelcome}, "kind"},
		{"executed after the welcome", Header{Kind: KindExecuted}, "kind"},
		{"frame of a sender", Header{Kind: KindHello}, "kind"},
		{"PE of another node", Header{Kind: KindDone, Local: 2}, "local PE"},
		{"incarnation to come", Header{Kind: KindDone, Incarnation: 1}, "incarnation"},
		{"done before it was sent", Header{Kind: KindDone, Number: 3}, "done is 3, want at most the 2"},
		{"answer before the request", Header{Kind: KindValue, Number: 2}, "number is 2, want less than the 2"},
		{"data into the control region", Header{Kind: KindData, Word: 64, Bytes: 8}, "answer to request 0 of local PE 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, j := sending(t, 2), &journal{}
			err := s.Received(1, 1, append(bare(c.h), make([]byte, c.h.Bytes)...), j)
			if !errors.Is(err, ErrFrame) || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "node 1: ") {
				t.Errorf("error %v, want one of node 1 about %s", err, c.want)
			}
			if got := j.take(); got != "" {
				t.Errorf("told %q, want nothing", got)
			}
			expectSunk(t, s, 1, "", Header{Kind: KindDone, Number: 2})
			expectRequests(t, s, "")
			s.Broken(1, 1)
			s.Retry(1)
			expectRequests(t, s, "hello 0.0.0: 0")
		})
	}
	waiting := func(t *testing.T) *Sender {
		s := sending(t, 2)
		expectSunk(t, s, 1, "done 1.0.0: 1", Header{Kind: KindDone, Number: 1})
		s.Broken(1, 1)
		s.Retry(1)
		expectRequests(t, s, "answered 0.0.0: 1; hello 0.0.0: 0")
		s.Opened(1, 2)
		return s
	}
	for _, c := range []struct {
		name string
		h    Header
		want string
	}{
		{"done before the welcome", Header{Kind: KindDone, Number: 1}, "kind"},
		{"more executed than there are", Header{Kind: KindExecuted, Number: 3}, "executed is 3"},
		{"more done than executed", Header{Kind: KindExecuted, Number: 1, Word: 2}, "executed is 1, want 2 to 2"},
		{"welcome that forgets what was done", Header{Kind: KindWelcome}, "welcome: 0 records"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := waiting(t).Received(1, 2, bare(c.h), &journal{})
			if !errors.Is(err, ErrFrame) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one about %s", err, c.want)
			}
		})
	}
}

func TestAddRefuses(t *testing.T) {
	good := Block{Number: 1, Node: 1, First: 2, Body: onePut}
	for _, c := range []struct {
		name   string
		change func(b *Block)
		want   string // empty: good
	}{
		{"good", func(*Block) {}, ""},
		{"nothing new", func(b *Block) { b.Body = nil }, ""},
		{"local PE", func(b *Block) { b.Local = 2 }, "local PE is 2"},
		{"number", func(b *Block) { b.Number = layout.WireBlocks }, "number is 256"},
		{"node", func(b *Block) { b.Node = 2 }, "node is 2"},
		{"class", func(b *Block) { b.Class = layout.WireClasses }, "class is 2"},
		{"fill", func(b *Block) { b.Body = make([]byte, layout.WireBody+8) }, "fill is 4040"},
		{"gap", func(b *Block) { b.First = 3 }, "first is 3, want 2"},
		{"again", func(b *Block) { b.First = 1 }, "first is 1, want 2"},
		{"block that is not done", func(b *Block) { b.Number = 0 }, "first is 2, want 0"},
		{"block that shrinks", func(b *Block) { b.Number, b.First = 0, 0 }, "first is 0, want 0"},
		{"put from behind the heap", func(b *Block) { b.Body = slices.Concat(onePut, onePutFrom, putFrom(testLimits.SegmentSize)) }, "from is"},
		{"put from the heap", func(b *Block) { b.Body = slices.Concat(onePutFrom, onePut) }, ""},
		{"bad record", func(b *Block) { b.Body = append(slices.Clone(onePut), make([]byte, 24)...) }, "record 3 of its stream to node 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, b := sending(t, 2), good
			c.change(&b)
			err := s.Add(&b)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("error %v, want none", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// TestTakingTurns: a stream with much to send does not hold up another one.
func TestTakingTurns(t *testing.T) {
	s := NewSender(SenderConfig{Near: 2, Nodes: 2})
	for i := range 3 {
		add(t, s, i, uint64(2*i), onePut, onePut)
	}
	if err := s.Add(&Block{Local: 1, Node: 1, Body: onePut}); err != nil {
		t.Fatal(err)
	}
	expectRequests(t, s, "hello 0.0.0: 0")
	s.Opened(1, 1)
	expectSunk(t, s, 1, "", Header{Kind: KindWelcome})
	expectRequests(t, s, "records 0.0.0: 0+2, 0; records 1.0.0: 0+1, 0; records 0.0.0: 2+2, 0; records 0.0.0: 4+2, 0")
}

// TestWindow: what is posted and not sent is bounded.
func TestWindow(t *testing.T) {
	s := NewSender(SenderConfig{Near: 1, Nodes: 2, Window: Window{Frames: 100, Bytes: 120}})
	for i := range 4 {
		add(t, s, i, uint64(i), onePut)
	}
	expectRequests(t, s, "hello 0.0.0: 0")
	s.Opened(1, 1)
	s.Sent(1, 1, 1, HeaderSize)
	expectSunk(t, s, 1, "", Header{Kind: KindWelcome})
	expectRequests(t, s, "records 0.0.0: 0+1, 0; records 0.0.0: 1+1, 0; records 0.0.0: 2+1, 0")
	s.Sent(1, 0, 1, HeaderSize+24) // of an earlier connection
	expectRequests(t, s, "")
	s.Sent(1, 1, 1, HeaderSize+24)
	expectRequests(t, s, "records 0.0.0: 3+1, 0")

	r := NewReceiver(ReceiverConfig{Nodes: 2, Window: Window{Frames: 2, Bytes: 1000}})
	hello(t, r, 2, "welcome 0.0.0: 0")
	receive(t, r, 2, &journal{}, "fetch of 1.0.0.0; fetch of 1.0.0.0", recordsFrame(0, 0, 0, oneFetch, oneFetch))
	expectReplies(t, r, "value 0.0.0: 0 slot 3 ok 77")
	r.Sent(1, 1, 2, 2*HeaderSize)
	expectReplies(t, r, "")
	r.Sent(1, 2, 1, HeaderSize)
	expectReplies(t, r, "value 0.0.0: 1 slot 3 ok 77")
	r.Sent(1, 2, 2, 2*HeaderSize)
	expectReplies(t, r, "done 0.0.0: 2")
}

// TestNoAllocation: a record costs no allocation on either side.
func TestNoAllocation(t *testing.T) {
	s, r := sending(t, 1), greeted(t)
	x, k := &quiet{}, &quiet{}
	body := slices.Repeat(oneFetch, 100)
	frame := make([]byte, 0, 1<<12)
	var f Frame
	first := uint64(1)
	receive(t, r, 1, &journal{}, "put of 1.0.0.0", recordsFrame(0, 0, 0, onePut))
	carry := func() {
		if err := s.Add(&Block{Number: 5, Node: 1, First: first, Body: body[:len(oneFetch)]}); err != nil {
			t.Fatal(err)
		}
		first++
		for node, ok := s.Turn(); ok; node, ok = s.Turn() {
			for s.Next(node, &f) {
				frame = append(f.Append(frame[:0]), f.Body...)
				s.Sent(1, 1, 1, f.Size())
				if err := r.Received(1, 1, frame, x); err != nil {
					t.Fatal(err)
				}
			}
		}
		for node, ok := r.Turn(); ok; node, ok = r.Turn() {
			for r.Next(node, &f) {
				frame = f.Append(frame[:0])
				r.Sent(1, 1, 1, f.Size())
				if err := s.Received(1, 1, frame, k); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	carry()
	if n := testing.AllocsPerRun(1000, carry); n != 0 {
		t.Errorf("%v allocations for a fetch, want none", n)
	}
	if x.n != k.n || x.n < 1000 {
		t.Errorf("%d records executed, %d answers, want the same", x.n, k.n)
	}
}

// quiet counts.
type quiet struct{ n int }

func (q *quiet) Execute(Source, *record.Record) (record.Status, uint64) { q.n++; return 0, 0 }
func (q *quiet) PutWords(Source, []byte, int) int                       { return 0 }
func (q *quiet) Done(layout.Local, int, int, uint64)                    {}
func (q *quiet) Data(layout.Local, uint64, []byte)                      {}
func (q *quiet) Answer(layout.Local, uint32, uint64, record.Status, uint64) {
	q.n++
}
