package bmg

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

func messages() []Msg {
	return []Msg{
		{},
		{Payloads: []Payload{report(3, 2, 1)}},
		{Payloads: []Payload{
			{Key: Key{Kind: KindPE, Job: 7, ID: 1 << 40, Inc: 1}, Origin: 5, Cause: 1<<24 | 9, At: 123456789},
			{Key: Key{Kind: KindEvent, ID: 2, Inc: 1, Seq: 1 << 50}, Origin: 2, Data: []byte("event")},
			{Key: Key{Kind: KindRevoke, Job: 1, ID: 1<<64 - 1, Inc: 9}},
			{Key: Key{Kind: KindAbort, Inc: 1}, Cause: 255, At: -1},
		}},
		{Acks: []Key{{Kind: KindNode, ID: 1, Inc: 1}, {Kind: KindEvent, ID: 1, Inc: 1, Seq: 1}}},
	}
}

func TestCodec(t *testing.T) {
	t.Parallel()
	for _, m := range messages() {
		b := m.Append(nil)
		got, err := ParseMsg(b, 8)
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%+v is parsed as %+v, %v", m, got, err)
		}
		for n := range b {
			if _, err := ParseMsg(b[:n], 8); !errors.Is(err, ErrMessage) {
				t.Errorf("%d of %d bytes of %+v: %v, want %v", n, len(b), m, err, ErrMessage)
			}
		}
		if _, err := ParseMsg(append(b, 0), 8); !errors.Is(err, ErrMessage) {
			t.Errorf("a byte more of %+v: %v, want %v", m, err, ErrMessage)
		}
	}
}

func TestStrangeBytes(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]Msg{
		"kind":           {Payloads: []Payload{{Key: Key{Kind: 9, Inc: 1}}}},
		"incarnation":    {Payloads: []Payload{{Key: Key{Kind: KindPE}}}},
		"node":           {Payloads: []Payload{report(8, 1, 0)}},
		"number":         {Payloads: []Payload{{Key: Key{Kind: KindEvent, Inc: 1}}}},
		"origin":         {Payloads: []Payload{report(1, 1, 8)}},
		"data":           {Payloads: []Payload{{Key: Key{Kind: KindPE, Inc: 1}, Data: []byte{1}}}},
		"acknowledgment": {Acks: []Key{{Kind: KindAbort}}},
	} {
		if got, err := ParseMsg(m.Append(nil), 8); !errors.Is(err, ErrMessage) {
			t.Errorf("%s: parsed as %+v, %v, want %v", name, got, err, ErrMessage)
		}
	}
}

// FuzzParseMsg parses any bytes. What is parsed is written as it was, takes no more room than it must, and does a
// machine no harm.
func FuzzParseMsg(f *testing.F) {
	for _, m := range messages() {
		f.Add(m.Append(nil))
	}
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseMsg(b, 8)
		if err != nil {
			return
		}
		if again := m.Append(nil); !bytes.Equal(again, b) {
			t.Errorf("%x is parsed as %+v, which is %x", b, m, again)
		}
		if payloadBytes*cap(m.Payloads)+keyBytes*cap(m.Acks) > len(b) {
			t.Errorf("%d bytes make lists of %d and %d", len(b), cap(m.Payloads), cap(m.Acks))
		}
		machine, err := New(Config{N: 8, Me: 3, Resend: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, from := range []Node{1, 1, 2} {
			for _, a := range machine.Step(Event{Kind: Recv, From: from, Inc: 1, Msg: m}, nil) {
				if a.Kind == Send && (a.To == 3 || a.To < 0 || a.To > 7) {
					t.Errorf("%+v makes a message to %d", m, a.To)
				}
			}
			machine.Step(Event{Kind: Tick}, nil)
		}
	})
}
