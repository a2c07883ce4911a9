package packet

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var testKey = Key{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

const testJob = 0x1122334455667788

// draw draws a datagram.
func draw(t *rapid.T) Packet {
	p := Packet{
		Kind:       Kind(rapid.IntRange(int(Ping), int(lastKind)).Draw(t, "kind")),
		For:        rapid.Int32().Draw(t, "for"),
		Of:         rapid.Int32().Draw(t, "of"),
		From:       rapid.Int32().Draw(t, "from"),
		At:         rapid.Int64().Draw(t, "at"),
		Inc:        rapid.Uint32().Draw(t, "inc"),
		Tick:       rapid.Uint32().Draw(t, "tick"),
		Job:        rapid.Uint64().Draw(t, "job"),
		DaemonDead: rapid.Bool().Draw(t, "dead"),
		Starved:    rapid.Bool().Draw(t, "starved"),
		Fenced:     rapid.Bool().Draw(t, "fenced"),
	}
	if p.Kind == News {
		if body := rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "body"); len(body) > 0 {
			p.Body = body
		}
	}
	return p
}

// TestRoundTrip: what is appended is parsed again, whatever stands before it.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t)
		b := p.Append([]byte("before"), &testKey)[len("before"):]
		if len(b) != Size+len(p.Body) {
			t.Fatalf("%d bytes with a body of %d", len(b), len(p.Body))
		}
		got, err := Parse(b, p.Job, &testKey)
		if diff := cmp.Diff(p, got); err != nil || diff != "" {
			t.Errorf("%v: %s", err, diff)
		}
	})
}

// TestEachBitCounts: no bit of a datagram may be changed, and the size may not.
func TestEachBitCounts(t *testing.T) {
	p := Packet{Kind: News, For: 1, Of: 2, From: 3, At: 4, Inc: 5, Tick: 6, Job: testJob, Body: []byte("body")}
	b := p.Append(nil, &testKey)
	for i := range 8 * len(b) {
		b[i/8] ^= 1 << (i % 8)
		if _, err := Parse(b, testJob, &testKey); !errors.Is(err, ErrPacket) {
			t.Errorf("bit %d changed: error %v", i, err)
		}
		b[i/8] ^= 1 << (i % 8)
	}
	for n := range len(b) {
		if _, err := Parse(b[:n], testJob, &testKey); !errors.Is(err, ErrPacket) {
			t.Errorf("cut to %d bytes: error %v", n, err)
		}
	}
	if _, err := Parse(append(b, 0), testJob, &testKey); !errors.Is(err, ErrPacket) {
		t.Errorf("a byte more: error %v", err)
	}
}

// TestOthers: datagrams of other jobs and by other keys are told apart.
func TestOthers(t *testing.T) {
	p := Packet{Kind: Ping, Job: testJob}
	b := p.Append(nil, &testKey)
	if _, err := Parse(b, testJob+1, &testKey); !errors.Is(err, ErrJob) {
		t.Errorf("another job: error %v, want %v", err, ErrJob)
	}
	if _, err := Parse(b, testJob, &Key{1}); !errors.Is(err, ErrMAC) {
		t.Errorf("another key: error %v, want %v", err, ErrMAC)
	}
	p.Kind, p.Body = Answer, []byte{1}
	if _, err := Parse(p.Append(nil, &testKey), testJob, &testKey); !errors.Is(err, ErrPacket) {
		t.Errorf("an answer with a body: error %v", err)
	}
	for _, kind := range []Kind{0, lastKind + 1} {
		p := Packet{Kind: kind, Job: testJob}
		if _, err := Parse(p.Append(nil, &testKey), testJob, &testKey); !errors.Is(err, ErrPacket) {
			t.Errorf("kind %d: error %v", kind, err)
		}
	}
}

// TestLayout: the places of all fields are those that programs in the kernel know.
func TestLayout(t *testing.T) {
	p := Packet{
		Kind: Answer, For: 0x01020304, Of: FrontEnd, From: 0x21222324, At: 0x3132333435363738, Inc: 0x41424344, Tick: 0x51525354,
		Job: 0x6162636465666768, DaemonDead: true, Fenced: true,
	}
	const want = "47534831" + "02" + "05" + "0000" + "04030201" + "ffffffff" + "3837363534333231" + "44434241" + "54535251" +
		"6867666564636261" + "24232221" + "00000000"
	b := p.Append(nil, &testKey)
	if got := hex.EncodeToString(b[:headerSize]); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestMAC: the MAC is that of SipHash-2-4's authors for their key and 15 bytes.
func TestMAC(t *testing.T) {
	if got := testKey.sum([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}); got != 0xa129ca6149be45e5 {
		t.Errorf("got %x", got)
	}
}

// TestNoGarbage: neither direction allocates.
func TestNoGarbage(t *testing.T) {
	p := Packet{Kind: Answer, Job: testJob}
	b := p.Append(make([]byte, 0, Size), &testKey)
	bad := bytes.Clone(b)
	bad[50]++
	if n := testing.AllocsPerRun(100, func() {
		b = p.Append(b[:0], &testKey)
		if _, err := Parse(b, testJob, &testKey); err != nil {
			t.Error(err)
		}
		if _, err := Parse(bad, testJob, &testKey); err == nil {
			t.Error("no error")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzParse: what is read is written again in the same bytes, and all else is refused with ErrPacket. To get past the MAC,
// the target parses the input with the right MAC as well.
func FuzzParse(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		checkParse(t, b)
		if len(b) >= Size {
			b = bytes.Clone(b)
			n := len(b) - macSize
			sum := testKey.sum(b[:n])
			for i := range macSize {
				b[n+i] = byte(sum >> (8 * i))
			}
			checkParse(t, b)
		}
	})
}

func checkParse(t *testing.T, b []byte) {
	t.Helper()
	p, err := Parse(b, testJob, &testKey)
	if err != nil {
		if !errors.Is(err, ErrPacket) || p.Kind != 0 {
			t.Errorf("%x: error %v, packet %+v", b, err, p)
		}
		return
	}
	if again := p.Append(nil, &testKey); !bytes.Equal(again, b) {
		t.Errorf("%x\nis read as %+v\nand written as %x", b, p, again)
	}
}
