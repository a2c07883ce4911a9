package stream

import (
	"slices"
	"testing"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/symheap/layout"
)

// holder is an Executor that holds each stream of messages from its second record on.
type holder struct {
	quiet
	r *Receiver
}

func (h *holder) Execute(s Source, _ *record.Record) (record.Status, uint64) {
	if h.n++; h.n >= 2 && s.Class == layout.ClassMessage {
		h.r.Hold(s)
	}
	return 0, 0
}

// A held stream takes what comes, and says that it is done only when it is released: also after a new connection, on which nothing is
// sent again.
func TestHold(t *testing.T) {
	of := Source{Node: 1, Class: layout.ClassMessage}
	body := slices.Concat(onePut, onePut)
	records := func(first uint64) []byte {
		h := Header{Kind: KindRecords, Class: layout.ClassMessage, Number: first, N: 2, Bytes: uint32(len(body))}
		return append(h.Append(nil), body...)
	}
	r := NewReceiver(ReceiverConfig{Nodes: 2})
	x := &holder{r: r}
	get := func(generation uint32, data []byte) {
		t.Helper()
		if err := r.Received(1, generation, data, x); err != nil {
			t.Fatal(err)
		}
	}
	replies := func() (all []Header) {
		for node, ok := r.Turn(); ok; node, ok = r.Turn() {
			for f := (Frame{}); r.Next(node, &f); {
				all = append(all, f.Header)
			}
		}
		return all
	}
	expect := func(want ...Header) {
		t.Helper()
		if got := replies(); !slices.Equal(got, want) {
			t.Errorf("replies %+v, want %+v", got, want)
		}
	}
	done := func(kind Kind, number, word uint64) Header {
		return Header{Kind: kind, Class: layout.ClassMessage, Number: number, Word: word}
	}
	hello := Header{Kind: KindHello}
	r.Opened(1, 1)
	get(1, hello.Append(nil))
	expect(Header{Kind: KindWelcome})
	get(1, records(0))
	expect()
	if r.Owes() {
		t.Error("the receiver owes a done, want none while the stream is held")
	}
	r.Remind(of)
	expect(done(KindDone, 0, 0))
	get(1, records(2))
	expect()
	r.Opened(1, 2)
	get(2, hello.Append(nil))
	expect(done(KindExecuted, 4, 0), Header{Kind: KindWelcome})
	get(2, records(2)) // again
	if x.n != 4 {
		t.Errorf("%d records are executed, want 4", x.n)
	}
	r.Remind(Source{Node: 1, Class: layout.ClassMessage, Incarnation: 7}) // another one
	r.Release(Source{Node: 1, Class: layout.ClassOneSided})
	expect()
	r.Release(of)
	expect(done(KindDone, 4, 0))
	r.Release(of)
	r.Remind(of)
	expect()
}

// The death of a source, or of its node, ends a hold.
func TestHoldOfTheDead(t *testing.T) {
	of := Source{Node: 1, Local: 2, Class: layout.ClassMessage}
	r := NewReceiver(ReceiverConfig{Nodes: 2})
	r.Hold(of)
	r.DropPE(1, 2, 0)
	if r.heldStream(of) != nil {
		t.Error("the stream of a dead PE is held")
	}
	r.DropNode(1)
	r.Hold(of)
	r.Remind(of)
	r.Release(of)
	if _, ok := r.Turn(); ok {
		t.Error("there is something to tell a dead node")
	}
}

// A class of a PE's records is dropped while another one goes on. What the other side still says of the dropped one is ignored, also when a
// new connection begins.
func TestDropClass(t *testing.T) {
	s := sending(t, 2)
	if err := s.Add(&Block{Number: 1, Node: 1, Class: layout.ClassMessage, Body: slices.Concat(onePut, onePut)}); err != nil {
		t.Fatal(err)
	}
	expectRequests(t, s, "records 0.1.0: 0+2, 0")
	s.DropClass(0, layout.ClassOneSided)
	expectSunk(t, s, 1, "", Header{Kind: KindDone, Number: 2})
	expectSunk(t, s, 1, "", Header{Kind: KindValue, Number: 1, Word: 77, N: 3})
	s.Broken(1, 1)
	s.Retry(1)
	expectRequests(t, s, "hello 0.0.0: 0")
	s.Opened(1, 2)
	expectSunk(t, s, 2, "", Header{Kind: KindExecuted, Number: 2, Word: 2})
	expectSunk(t, s, 2, "done 1.0.1: 1", Header{Kind: KindExecuted, Class: layout.ClassMessage, Number: 1, Word: 1})
	expectSunk(t, s, 2, "", Header{Kind: KindWelcome})
	expectRequests(t, s, "records 0.1.0: 1+1, 1")
	if !s.HasRecords(0) {
		t.Error("a message is under way, and there are no records")
	}
	expectSunk(t, s, 2, "done 1.0.1: 2", Header{Kind: KindDone, Class: layout.ClassMessage, Number: 2})
	if s.HasRecords(0) || s.IsBusy(1) {
		t.Error("the messages are done, and there are records")
	}
}
