package stream

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/symheap/layout"
)

func TestHeaderForm(t *testing.T) {
	h := Header{Kind: KindData, Class: 1, Local: 0x0203, Incarnation: 0x04050607, Number: 8, Word: 9, N: 10, Bytes: 11}
	want := []byte{
		8, 1, 3, 2, 7, 6, 5, 4, 8, 0, 0, 0, 0, 0, 0, 0,
		9, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 11, 0, 0, 0,
	}
	if got := h.Append(nil); !bytes.Equal(got, want) {
		t.Errorf("% x, want % x", got, want)
	}
	if got := parseHeader(want); got != h {
		t.Errorf("%+v, want %+v", got, h)
	}
}

func TestHeaderCheck(t *testing.T) {
	const ofSender, ofReceiver = true, false
	for _, c := range []struct {
		name     string
		h        Header
		ofSender bool
		field    string // empty: good
	}{
		{"hello", Header{Kind: KindHello}, ofSender, ""},
		{"welcome", Header{Kind: KindWelcome}, ofReceiver, ""},
		{"kind 0", Header{}, ofSender, "kind"},
		{"kind too great", Header{Kind: kindEnd}, ofReceiver, "kind"},
		{"done of a sender", Header{Kind: KindDone}, ofSender, "kind"},
		{"records of a receiver", Header{Kind: KindRecords, N: 1, Bytes: 24}, ofReceiver, "kind"},
		{"class", Header{Kind: KindDone, Class: layout.WireClasses}, ofReceiver, "class"},
		{"local PE", Header{Kind: KindDone, Local: layout.MaxLocal}, ofReceiver, "local PE"},
		{"hello with a body", Header{Kind: KindHello, Bytes: 1}, ofSender, "bytes"},
		{"records", Header{Kind: KindRecords, N: 168, Bytes: layout.WireBody}, ofSender, ""},
		{"no records", Header{Kind: KindRecords, Bytes: 24}, ofSender, "n"},
		{"too many records", Header{Kind: KindRecords, N: 2, Bytes: 40}, ofSender, "n"},
		{"records longer than a block", Header{Kind: KindRecords, N: 1, Bytes: layout.WireBody + 8}, ofSender, "bytes"},
		{"records behind the last number", Header{Kind: KindRecords, Number: 1<<64 - 1, N: 1, Bytes: 24}, ofSender, "first number"},
		{"data", Header{Kind: KindData, N: 255, Bytes: record.MaxGet}, ofReceiver, ""},
		{"data, too long", Header{Kind: KindData, Bytes: record.MaxGet + 1}, ofReceiver, "bytes"},
		{"no data", Header{Kind: KindData}, ofReceiver, "bytes"},
		{"value", Header{Kind: KindValue, N: 255 | uint32(record.StatusBad)<<16}, ofReceiver, ""},
		{"slot", Header{Kind: KindValue, N: 256}, ofReceiver, "slot"},
		{"status", Header{Kind: KindData, N: 3 << 16, Bytes: 1}, ofReceiver, "status"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.h.check(c.ofSender)
			switch {
			case c.field == "" && err != nil:
				t.Errorf("error %v, want none", err)
			case c.field != "" && (!errors.Is(err, ErrFrame) || !strings.Contains(err.Error(), ": "+c.field+" is ")):
				t.Errorf("error %v, want one about %s", err, c.field)
			}
		})
	}
}

// collect parses data that comes in pieces, and returns the frames in readable form and what is wrong.
func collect(ofSender bool, data []byte, cut func(left int) int) (frames []string, err error) {
	p := parser{ofSender: ofSender}
	var body []byte
	for len(data) > 0 {
		n := min(max(cut(len(data)), 1), len(data))
		err := p.each(data[:n], func(out *piece) error {
			if out.at != len(body) {
				return fmt.Errorf("a piece at %d after %d bytes", out.at, len(body))
			}
			body = append(body, out.body...)
			if out.whole {
				if len(body) != int(out.Bytes) {
					return fmt.Errorf("body of %d bytes, want %d", len(body), out.Bytes)
				}
				frames = append(frames, fmt.Sprintf("%+v %x", *out.Header, body))
				body = body[:0]
			}
			return nil
		})
		if err != nil {
			return frames, err
		}
		data = data[n:]
	}
	return frames, nil
}

// someFrames returns frames of both sides.
func someFrames() (ofSender, ofReceiver []byte) {
	records := record.AppendSignal(record.AppendPut(nil, 0, layout.HeapOffset, []byte("12345")), 0, layout.HeapOffset, record.SignalSet, 1)
	for _, h := range []Header{
		{Kind: KindAnswered, Class: 1, Local: 3, Number: 7},
		{Kind: KindHello},
		{Kind: KindRecords, Incarnation: 1, Number: 5, N: 2, Bytes: uint32(len(records))},
		{Kind: KindRecords, Number: 7, N: 2, Bytes: uint32(len(records))},
	} {
		ofSender = h.Append(ofSender)
		ofSender = append(ofSender, records[:h.Bytes]...)
	}
	data := []byte("the data of an answer")
	for _, h := range []Header{
		{Kind: KindExecuted, Local: 1, Number: 9, Word: 8},
		{Kind: KindWelcome},
		{Kind: KindValue, Number: 8, Word: 77, N: 3},
		{Kind: KindData, Number: 9, Word: layout.HeapOffset, N: 4, Bytes: uint32(len(data))},
		{Kind: KindDone, Number: 10},
	} {
		ofReceiver = h.Append(ofReceiver)
		ofReceiver = append(ofReceiver, data[:h.Bytes]...)
	}
	return ofSender, ofReceiver
}

// TestPieces: frames are the same in whatever pieces they come.
func TestPieces(t *testing.T) {
	ofSender, ofReceiver := someFrames()
	for _, c := range []struct {
		ofSender bool
		data     []byte
		frames   int
	}{{true, ofSender, 4}, {false, ofReceiver, 5}} {
		want, err := collect(c.ofSender, c.data, func(left int) int { return left })
		if err != nil || len(want) != c.frames {
			t.Fatalf("%d frames, %v, want %d", len(want), err, c.frames)
		}
		for size := 1; size < 80; size++ {
			got, err := collect(c.ofSender, c.data, func(int) int { return size })
			if err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("pieces of %d bytes: %v\n%q\nwant\n%q", size, err, got, want)
			}
		}
	}
}

// FuzzParser: any bytes give the same frames and the same error in one piece and in others.
func FuzzParser(f *testing.F) {
	ofSender, ofReceiver := someFrames()
	f.Add(true, ofSender, []byte{1, 40, 3})
	f.Add(false, ofReceiver, []byte{31, 1, 33, 5})
	f.Add(false, ofSender, []byte{7})
	f.Fuzz(func(t *testing.T, ofSender bool, data, cuts []byte) {
		want, wantErr := collect(ofSender, data, func(left int) int { return left })
		i := 0
		got, err := collect(ofSender, data, func(left int) int {
			if len(cuts) == 0 {
				return left
			}
			i++
			return int(cuts[i%len(cuts)])
		})
		if strings.Join(got, "\n") != strings.Join(want, "\n") || fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("%q, %v\nwant\n%q, %v", got, err, want, wantErr)
		}
	})
}

// inPieces calls give with parts of data, as long as cuts says.
func inPieces(data, cuts []byte, give func(part []byte) error) {
	for i := 0; len(data) > 0; i++ {
		n := len(data)
		if len(cuts) > 0 {
			n = min(n, 1+int(cuts[i%len(cuts)]))
		}
		if give(data[:n]) != nil {
			return
		}
		data = data[n:]
	}
}

// FuzzReceiver: whatever another node sends, the Receiver keeps within its bounds and sends only good frames.
func FuzzReceiver(f *testing.F) {
	ofSender, _ := someFrames()
	f.Add(ofSender[:64], slices.Concat(recordsFrame(0, 0, 0, onePut, oneFetch, oneGet, oneStrip), recordsFrame(0, 3, 2, oneStrip, onePut)), []byte{40, 3})
	f.Add(bare(Header{Kind: KindHello}), slices.Concat(recordsFrame(3, 0, 0, oneFetch), recordsFrame(5, 0, 0, oneFetch), recordsFrame(4, 0, 0, oneFetch)), []byte{})
	f.Fuzz(func(t *testing.T, greeting, data, cuts []byte) {
		r := NewReceiver(ReceiverConfig{Nodes: 2})
		r.Opened(1, 1)
		x := &checker{t: t}
		give := func(part []byte) error {
			err := r.Received(1, 1, part, x)
			var f Frame
			for node, ok := r.Turn(); ok; node, ok = r.Turn() {
				for r.Next(node, &f) {
					if err := f.check(false); err != nil {
						t.Fatal(err)
					}
					r.Sent(1, 1, 1, f.Size())
				}
			}
			return err
		}
		inPieces(greeting, cuts, give)
		inPieces(bare(Header{Kind: KindHello}), cuts, give)
		inPieces(data, cuts, give)
		if n := len(r.nodes[1].streams); n > layout.MaxLocal*layout.WireClasses {
			t.Fatalf("%d streams", n)
		}
		for i := range r.nodes[1].streams {
			if n := r.nodes[1].streams[i].answers.n; n > maxAnswers {
				t.Fatalf("%d answers are kept", n)
			}
		}
	})
}

// checker is an Executor that checks records, and a Sink that checks answers.
type checker struct{ t *testing.T }

func (x *checker) Execute(_ Source, r *record.Record) (record.Status, uint64) {
	if testLimits.Check(r) != nil {
		return record.StatusBad, 0
	}
	return record.StatusOK, 1
}

func (x *checker) PutWords(_ Source, body []byte, most int) int {
	_, _, _, ok := record.PutWordAt(body)
	return min(most, map[bool]int{true: 1}[ok])
}

func (x *checker) Done(local layout.Local, class, node int, count uint64) {
	if local != 0 || class != 0 || node != 1 || count > 6 {
		x.t.Fatalf("Done of PE %d, class %d, node %d: %d", local, class, node, count)
	}
}

func (x *checker) Data(local layout.Local, to uint64, data []byte) {
	if err := testLimits.CheckAnswer(to, uint64(len(data))); err != nil || int(local) >= 2 {
		x.t.Fatalf("data of PE %d: %v", local, err)
	}
}

func (x *checker) Answer(local layout.Local, slot uint32, number uint64, status record.Status, _ uint64) {
	if local != 0 || slot >= layout.WireSlots || number >= 6 || !status.IsValid() {
		x.t.Fatalf("answer to %d of PE %d, slot %d, %v", number, local, slot, status)
	}
}

// FuzzSender: whatever another node replies, the Sender tells the PEs nothing that cannot be, and goes on with a
// next connection.
func FuzzSender(f *testing.F) {
	_, ofReceiver := someFrames()
	f.Add([]byte{}, ofReceiver[64:], []byte{30, 9})
	f.Add(bare(Header{Kind: KindExecuted, Number: 3, Word: 2}), slices.Concat(bare(Header{Kind: KindValue, Number: 4, N: 3}), bare(Header{Kind: KindDone, Number: 6})), []byte{})
	f.Fuzz(func(t *testing.T, reply, data, cuts []byte) {
		s := sending(t, 2)
		add(t, s, 2, 2, oneFetch, oneGet, oneFetch, onePut)
		requests(s)
		s.Broken(1, 1)
		s.Retry(1)
		requests(s)
		s.Opened(1, 2)
		give := func(part []byte) error {
			err := s.Received(1, 2, part, &checker{t})
			var f Frame
			for node, ok := s.Turn(); ok; node, ok = s.Turn() {
				for s.Next(node, &f) {
					if err := f.check(true); err != nil {
						t.Fatal(err)
					}
					if n, err := record.Count(f.Body); f.Kind == KindRecords && (err != nil || n != int(f.N)) {
						t.Fatalf("%d records, %v, in a frame of %d", n, err, f.N)
					}
				}
			}
			return err
		}
		inPieces(reply, cuts, give)
		inPieces(bare(Header{Kind: KindWelcome}), cuts, give)
		inPieces(data, cuts, give)
		if st := s.nodes[1].streams[0]; st.done > st.next || st.answered > st.next {
			t.Fatalf("stream %+v", st)
		}
		busy := s.IsBusy(1)
		s.Broken(1, 2)
		s.Retry(1)
		if got := requests(s); (got != "") != busy {
			t.Fatalf("next greeting %q, busy %v", got, busy)
		}
	})
}

func TestTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q turns
		q.grow(5)
		var model []int
		for range rapid.IntRange(0, 50).Draw(t, "steps") {
			if i := rapid.IntRange(-2, 4).Draw(t, "what"); i >= 0 {
				q.add(i)
				if !slices.Contains(model, i) {
					model = append(model, i)
				}
			} else if i == -2 {
				got, ok := q.pop()
				if ok != (len(model) > 0) || ok && got != model[0] {
					t.Fatalf("pop: %d, %v, want the first of %v", got, ok, model)
				}
				model = model[min(1, len(model)):]
			} else if rapid.IntRange(0, 9).Draw(t, "clear") == 0 {
				q.clear()
				model = nil
			}
			if q.isEmpty() != (len(model) == 0) {
				t.Fatalf("isEmpty: %v, want what %v is", q.isEmpty(), model)
			}
		}
	})
}

func TestRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g ring
		var model []uint64 // numbers of the answers
		sent, number := 0, uint64(0)
		for range rapid.IntRange(0, 400).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				if sent < len(model) {
					g.markSent()
					sent++
				}
			case 1:
				up := uint64(rapid.IntRange(0, int(number)).Draw(t, "answered"))
				g.acknowledge(up)
				for len(model) > 0 && model[0] < up {
					model = model[1:]
					sent = max(sent-1, 0)
				}
			case 2:
				if rapid.IntRange(0, 9).Draw(t, "rewind") == 0 {
					g.rewind()
					sent = 0
				}
			default:
				if g.isFull() != (len(model) == maxAnswers) {
					t.Fatalf("isFull: %v with %d answers", g.isFull(), len(model))
				}
				if !g.isFull() {
					g.push(answer{number: number})
					model = append(model, number)
				}
				number += uint64(rapid.IntRange(1, 3).Draw(t, "gap"))
			}
			a := g.unsent()
			if (a == nil) != (sent == len(model)) || a != nil && a.number != model[sent] {
				t.Fatalf("unsent: %+v, want answer %d of %v", a, sent, model)
			}
			if len(g.room) > maxAnswers {
				t.Fatalf("room for %d answers, want at most %d", len(g.room), maxAnswers)
			}
		}
	})
}
