package stream

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/agent/record"
)

var onePutFrom = putFrom(base + 64)

// putFrom returns a put of 8 bytes from an offset.
func putFrom(from uint64) []byte { return record.AppendPutFrom(nil, 0, base, 8, from) }

// frames returns the frames that a Sender has for node 1: their first records and their number, and where the data lies if
// they are a put from the heap.
func frames(s *Sender) string {
	var out []string
	var f Frame
	for node, ok := s.Turn(); ok; node, ok = s.Turn() {
		for s.Next(node, &f) {
			line := fmt.Sprintf("%d+%d", f.Number, f.N)
			if f.Read.Length > 0 {
				line += fmt.Sprintf(" from %d of PE %d", f.Read.Offset-base, f.Read.Local)
			}
			if want := len(f.Body) + int(f.Read.Length); f.Read.Length > 0 && int(f.Bytes) != want+len(f.Lead) || f.Read.Length == 0 && int(f.Bytes) != want {
				line += fmt.Sprintf(", %d bytes instead of %d", f.Bytes, want)
			}
			out = append(out, line)
		}
	}
	return strings.Join(out, "; ")
}

// A put from the heap goes alone, and the records around it go in their order. After a new connection those that are not
// executed go again.
func TestPutsFrom(t *testing.T) {
	s := sending(t, 1)
	body := slices.Concat(onePut, oneFetch, onePutFrom, putFrom(base+128), onePut)
	add(t, s, 1, 1, body[:len(body)-len(onePut)])
	if got, want := frames(s), "1+2; 3+1 from 64 of PE 0; 4+1 from 128 of PE 0"; got != want {
		t.Errorf("frames %q, want %q", got, want)
	}
	add(t, s, 1, 1, body) // the block has got one more
	if got, want := frames(s), "5+1"; got != want {
		t.Errorf("frames %q, want %q", got, want)
	}
	s.Broken(1, 1)
	s.Retry(1)
	frames(s) // the greeting
	s.Opened(1, 2)
	expectSunk(t, s, 2, "done 1.0.0: 1", Header{Kind: KindExecuted, Number: 4, Word: 1})
	expectSunk(t, s, 2, "", Header{Kind: KindWelcome})
	if got, want := frames(s), "4+1 from 128 of PE 0; 5+1"; got != want {
		t.Errorf("frames after a new connection %q, want %q", got, want)
	}
	if f := s.Fault(); f != nil {
		t.Errorf("fault %+v, want none", f)
	}
}

// A PE whose records change after they were added is dropped before any memory outside of its heap is read.
func TestPutsFromThatChange(t *testing.T) {
	for name, change := range map[string]func(body []byte){
		"source": func(body []byte) { copy(body[len(onePut):], putFrom(testLimits.SegmentSize-8)) },
		"length": func(body []byte) { copy(body[len(onePut):], record.AppendPutFrom(nil, 0, base, record.MaxPut+8, base)) },
		"op":     func(body []byte) { body[len(onePut)] = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			s := sending(t, 1)
			body := slices.Concat(onePut, onePutFrom)
			if err := s.Add(&Block{Number: 1, Node: 1, First: 1, Body: body}); err != nil {
				t.Fatal(err)
			}
			change(body)
			if got := frames(s); strings.Contains(got, "from") {
				t.Errorf("frames %q, want no put from the heap", got)
			}
			if f := s.Fault(); f == nil || f.Local != 0 || !strings.Contains(f.Err.Error(), "block 1 has changed") {
				t.Errorf("fault %+v, want one of block 1 of local PE 0", f)
			}
			if f := s.Fault(); f != nil {
				t.Errorf("fault %+v for the second time", f)
			}
			if s.IsBusy(1) || !s.pes[0].dropped {
				t.Error("the PE is not dropped")
			}
		})
	}
}

// PutWords implements Executor: each record is noted by Execute.
func (j *journal) PutWords(Source, []byte, int) int { return 0 }
