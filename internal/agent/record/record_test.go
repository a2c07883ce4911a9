package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/goshmem/goshmem/symheap/layout"
)

// testLimits are those of a node with 4 PEs and heaps of 4 MiB.
var testLimits = Limits{
	Near:        4,
	SegmentSize: layout.HeapOffset + 4<<20 + layout.WireSize,
	Words:       Range{4096, 4096 + 64},
	Rooms:       Range{layout.HeapOffset + 4<<20 + 1<<16, layout.HeapOffset + 4<<20 + 2<<16},
}

const (
	testHeap = layout.HeapOffset
	testEnd  = layout.HeapOffset + 4<<20
)

// parseOne parses b, which is one record.
func parseOne(t rapid.TB, b []byte) Record {
	t.Helper()
	var r Record
	rest, err := Parse(b, &r)
	if err != nil || len(rest) > 0 {
		t.Fatalf("Parse: %v, %d bytes left, want one record", err, len(rest))
	}
	return r
}

func TestSizes(t *testing.T) {
	var room [MaxRecord]byte
	shape := Shape{Step: 24, Block: 8, N: 5}
	_, data := ReservePutStrided(room[:0], 0, 0, shape)
	if len(data) != 40 {
		t.Errorf("room of a strided put of 40 bytes: %d bytes", len(data))
	}
	strided, _ := ReservePutStrided(room[:0], 0, 0, shape)
	for _, c := range []struct {
		name      string
		got, want int
	}{
		{"put of 8", len(AppendPut(nil, 0, 0, make([]byte, 8))), 24},
		{"put of 9", len(AppendPut(nil, 0, 0, make([]byte, 9))), SizePut(9)},
		{"longest put", len(AppendPut(nil, 0, 0, make([]byte, MaxPut))), MaxRecord},
		{"strided put", len(strided), SizePutStrided(40)},
		{"longest strided put", SizePutStrided(MaxPutStrided), MaxRecord},
		{"get", len(AppendGet(nil, 0, 0, 1, 0, 0)), SizeGet},
		{"strided get", len(AppendGetStrided(nil, 0, 0, shape, 0, 0)), SizeGetStrided},
		{"atomic", len(AppendAtomic(nil, 0, 0, 0, 0, 0)), SizeAtomic},
		{"fetch", len(AppendAtomicFetch(nil, 0, 0, 0, 0, 0, 0)), SizeAtomicFetch},
		{"fetch once", len(AppendFetchOnce(nil, 0, 0, 0, 0, 0, 1, 0)), SizeFetchOnce},
		{"signal", len(AppendSignal(nil, 0, 0, 0, 0)), SizeSignal},
		{"put from the heap", len(AppendPutFrom(nil, 0, 0, MaxPut, 0)), SizePutFrom},
	} {
		if c.got != c.want || c.got%8 != 0 {
			t.Errorf("%s: %d bytes, want %d", c.name, c.got, c.want)
		}
	}
}

// TestForm fixes the bytes of a record.
func TestForm(t *testing.T) {
	room := bytes.Repeat([]byte{0xff}, MaxRecord)
	got := AppendPut(room[:0], 3, 0x0102030405060708, []byte("abc"))
	want := append([]byte{1, 0, 3, 0, 3, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1}, "abc\x00\x00\x00\x00\x00"...)
	if !bytes.Equal(got, want) {
		t.Errorf("put of abc: % x, want % x", got, want)
	}
}

// TestFields appends records but messages (TestMessageFields) with random fields and finds the same fields in what Parse returns.
func TestFields(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := func(name string) uint64 { return rapid.Uint64().Draw(t, name) }
		pe, off := layout.Local(rapid.IntRange(0, layout.MaxLocal-1).Draw(t, "pe")), word("off")
		code := rapid.Byte().Draw(t, "code")
		a, b := word("a"), word("b")
		slot := rapid.Uint64Range(0, layout.WireSlots-1).Draw(t, "slot")
		s := Shape{Step: word("step"), Block: rapid.Uint64Range(1, 60).Draw(t, "block"), N: rapid.Uint64Range(1, 60).Draw(t, "n")}
		data := rapid.SliceOfN(rapid.Byte(), 1, 64).Draw(t, "data")
		op := Op(rapid.IntRange(int(OpPut), int(OpTeam)).Draw(t, "op"))

		want := Record{Op: op, Local: uint16(pe), Offset: off}
		var record []byte
		switch op {
		case OpPut:
			record, want.Length = AppendPut(nil, pe, off, data), uint32(len(data))
		case OpPutStrided:
			var room []byte
			record, room = ReservePutStrided(nil, pe, off, s)
			data = bytes.Repeat(data, 1+len(room)/len(data))[:len(room)]
			copy(room, data)
			want.Length = uint32(len(data))
		case OpGet:
			record, want.Length = AppendGet(nil, pe, off, int(s.N), a, slot), uint32(s.N)
		case OpGetStrided:
			record, want.Length = AppendGetStrided(nil, pe, off, s, a, slot), uint32(s.Block*s.N)
		case OpAtomic:
			record, want.Code = AppendAtomic(nil, pe, off, code, a, b), code
		case OpAtomicFetch:
			record, want.Code = AppendAtomicFetch(nil, pe, off, code, a, b, slot), code
		case OpFetchOnce:
			record, want.Code = AppendFetchOnce(nil, pe, off, code, a, b, a+1, slot), code
		case OpSignal:
			record, want.Code = AppendSignal(nil, pe, off, code, a), code
		case OpPutFrom:
			record, want.Length = AppendPutFrom(nil, pe, off, len(data), a), uint32(len(data))
		case OpTeam:
			off, want.Local, want.Offset = 0, 0, 0
			code %= TeamLater + 1
			record, want.Length, want.Code = AppendTeam(nil, code, data), uint32(len(data)), code
		}
		r := parseOne(t, record)
		if r.Size() != len(record) || r.Op != op || r.Code != want.Code || r.Local != want.Local || r.Length != want.Length || r.Offset != off {
			t.Fatalf("%+v, want %+v with %d bytes", r, want, len(record))
		}
		if may := op == OpTeam && code == TeamLater; r.MayWait() != may {
			t.Fatalf("%+v: MayWait is %t, want %t", r, !may, may)
		}
		switch op {
		case OpPut, OpTeam:
			if !bytes.Equal(r.Data(), data) {
				t.Fatalf("data % x, want % x", r.Data(), data)
			}
		case OpPutStrided:
			if !bytes.Equal(r.Data(), data) || r.Shape() != s {
				t.Fatalf("data % x of %+v, want % x of %+v", r.Data(), r.Shape(), data, s)
			}
		case OpGet:
			if r.To() != a || r.Slot() != slot {
				t.Fatalf("to %d, slot %d, want %d, %d", r.To(), r.Slot(), a, slot)
			}
		case OpGetStrided:
			if r.To() != a || r.Slot() != slot || r.Shape() != s {
				t.Fatalf("to %d, slot %d of %+v, want %d, %d of %+v", r.To(), r.Slot(), r.Shape(), a, slot, s)
			}
		case OpAtomic, OpAtomicFetch, OpFetchOnce:
			if r.Operand() != a || r.Cond() != b || op.Fetches() && r.Slot() != slot || op == OpFetchOnce && r.Number() != a+1 {
				t.Fatalf("operand %d, cond %d, slot %d, want %d, %d, %d", r.Operand(), r.Cond(), r.Slot(), a, b, slot)
			}
		case OpSignal:
			if r.Operand() != a {
				t.Fatalf("value %d, want %d", r.Operand(), a)
			}
		case OpPutFrom:
			if r.From() != a || r.Operand() != 0 || r.Data() != nil {
				t.Fatalf("from %d, operand %d, data % x, want %d and nothing else", r.From(), r.Operand(), r.Data(), a)
			}
			put := parseOne(t, append(AppendPutHead(nil, &r), append(data, make([]byte, -len(data)&7)...)...))
			if put.Op != OpPut || put.Code != 0 || put.Local != r.Local || put.Offset != off || !bytes.Equal(put.Data(), data) {
				t.Fatalf("%+v became %+v", r, put)
			}
		}
	})
}

func TestCountAndSkip(t *testing.T) {
	var b []byte
	var ends []int
	for i := range 5 {
		b = AppendPut(b, 0, 0, make([]byte, 1+7*i))
		ends = append(ends, len(b))
	}
	if n, err := Count(b); n != 5 || err != nil {
		t.Errorf("Count: %d, %v, want 5", n, err)
	}
	if n, from, err := Survey(b); n != 5 || from || err != nil {
		t.Errorf("Survey: %d, %t, %v, want 5 and false", n, from, err)
	}
	if n, from, err := Survey(AppendPut(AppendPutFrom(b, 0, 0, 8, 0), 0, 0, nil)); n != 7 || !from || err != nil {
		t.Errorf("Survey with a put from the heap: %d, %t, %v, want 7 and true", n, from, err)
	}
	if n, err := Count(b[:ends[2]+8]); n != 3 || err == nil {
		t.Errorf("Count of 3 records and a part: %d, %v, want 3 and an error", n, err)
	}
	for i, end := range ends {
		if rest, err := Skip(b, i+1); err != nil || len(rest) != len(b)-end {
			t.Errorf("Skip of %d: %d bytes left, %v, want %d", i+1, len(rest), err, len(b)-end)
		}
	}
	if _, err := Skip(b, 6); err == nil {
		t.Error("Skip of 6 among 5 records: no error")
	}
}

func TestParseRefuses(t *testing.T) {
	put := AppendPut(nil, 0, testHeap, make([]byte, 8))
	long := func(op Op, length uint32) []byte {
		b := make([]byte, 2*MaxRecord)
		b[0] = byte(op)
		binary.LittleEndian.PutUint32(b[4:], length)
		return b
	}
	for _, c := range []struct {
		name  string
		b     []byte
		field string
	}{
		{"nothing", nil, "size"},
		{"half a header", put[:8], "size"},
		{"no payload", put[:16], "size"},
		{"part of a payload", put[:23], "size"},
		{"op 0", make([]byte, 64), "op"},
		{"op too great", append([]byte{byte(opEnd)}, make([]byte, 63)...), "op"},
		{"long put", long(OpPut, MaxPut+1), "length"},
		{"very long put", long(OpPut, 1<<32-1), "length"},
		{"long strided put", long(OpPutStrided, MaxPutStrided+1), "length"},
		{"get to slot 256", AppendGet(nil, 1, testHeap, 8, 0, 256), "slot"},
		{"strided get to slot 2^40", AppendGetStrided(nil, 1, testHeap, Shape{16, 8, 3}, 0, 1<<40), "slot"},
		{"fetch to slot 256", AppendAtomicFetch(nil, 0, testHeap, 0, 0, 0, 256), "slot"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r Record
			_, err := Parse(c.b, &r)
			expectField(t, err, c.field)
		})
	}
	for _, b := range [][]byte{long(OpPut, MaxPut), long(OpPutStrided, MaxPutStrided)} {
		var r Record
		if rest, err := Parse(b, &r); err != nil || len(rest) != MaxRecord {
			t.Errorf("Parse of the longest %v: %v, %d bytes left", r.Op, err, len(rest))
		}
	}
}

// expectField fails unless err is an *Error about a field; about none if field is empty.
func expectField(t *testing.T, err error, field string) {
	t.Helper()
	var e *Error
	switch {
	case field == "" && err != nil:
		t.Errorf("error %v, want none", err)
	case field != "" && (!errors.As(err, &e) || e.Field != field):
		t.Errorf("error %v, want one about %s", err, field)
	}
}

func TestCheck(t *testing.T) {
	strided := func(off uint64, s Shape) []byte {
		b, _ := ReservePutStrided(nil, 0, off, s)
		return b
	}
	put := func(pe layout.Local, off uint64, n int) []byte { return AppendPut(nil, pe, off, make([]byte, n)) }
	with := func(b []byte, at int, v byte) []byte { b[at] = v; return b }
	word := func(b []byte, at int, v uint64) []byte { binary.LittleEndian.PutUint64(b[at:], v); return b }
	shape := Shape{Step: 16, Block: 8, N: 3}
	for _, c := range []struct {
		name  string
		b     []byte
		field string // empty: good
	}{
		{"put", put(3, testHeap, 8), ""},
		{"put at the end", put(0, testEnd-5, 5), ""},
		{"put of a word of the control region", put(0, 4096+56, 8), ""},
		{"put to PE 4 of 4", put(4, testHeap, 8), "local PE"},
		{"put before the heap", put(0, testHeap-1, 8), "offset"},
		{"put behind the heap", put(0, testEnd-4, 5), "offset"},
		{"put into the wire region", put(0, testEnd, 8), "offset"},
		{"put around the address range", put(0, 1<<64-4, 8), "offset"},
		{"put behind the words", put(0, 4096+57, 8), "offset"},
		{"put with a code", with(put(0, testHeap, 8), 1, 1), "code"},
		{"put of nothing", put(0, testHeap, 0), "length"},

		{"strided put", strided(testHeap, shape), ""},
		{"strided put at the end", strided(testEnd-40, shape), ""},
		{"strided put of one block needs no step", strided(testHeap, Shape{Step: 0, Block: 8, N: 1}), ""},
		{"strided put behind the heap", strided(testEnd-39, shape), "offset"},
		{"strided put to the words", strided(4096, shape), "offset"},
		{"strided put with a code", with(strided(testHeap, shape), 1, 1), "code"},
		{"strided put of nothing", strided(testHeap, Shape{Step: 8, Block: 8}), "length"},
		{"strided put, overlapping blocks", strided(testHeap, Shape{Step: 7, Block: 8, N: 2}), "step"},
		{"strided put, huge step", strided(testHeap, Shape{Step: 1 << 63, Block: 8, N: 3}), "step"},
		{"strided put, block 0", word(strided(testHeap, shape), 24, 0), "block"},
		{"strided put, block greater than length", word(strided(testHeap, shape), 24, 25), "block"},
		{"strided put, block and n do not give length", word(strided(testHeap, shape), 24, 7), "n"},
		{"strided put, huge n", word(strided(testHeap, shape), 32, 1<<61+3), "n"},
		{"strided put to PE 4 of 4", with(strided(testHeap, shape), 2, 4), "local PE"},

		{"get", AppendGet(nil, 1, testHeap, MaxGet, 0, 255), ""},
		{"get too long", AppendGet(nil, 1, testHeap, MaxGet+1, 0, 0), "length"},
		{"get of nothing", AppendGet(nil, 1, testHeap, 0, 0, 0), "length"},
		{"get behind the heap", AppendGet(nil, 1, testEnd-7, 8, 0, 0), "offset"},
		{"get with a code", with(AppendGet(nil, 1, testHeap, 8, 0, 0), 1, 9), "code"},
		{"strided get", AppendGetStrided(nil, 1, testHeap, shape, 0, 0), ""},
		{"strided get, longest", AppendGetStrided(nil, 1, testHeap, Shape{16, 8, MaxGetStrided / 8}, 0, 0), ""},
		{"strided get, too long", AppendGetStrided(nil, 1, testHeap, Shape{16, 8, MaxGetStrided/8 + 1}, 0, 0), "length"},

		{"atomic", AppendAtomic(nil, 0, testHeap+8, CodeOf(AtomicAdd, 8), 1, 0), ""},
		{"atomic on 4 bytes", AppendAtomic(nil, 0, testHeap+4, CodeOf(AtomicXor, 4), 1, 0), ""},
		{"atomic on a word of the control region", AppendAtomic(nil, 0, 4096, CodeOf(AtomicAdd, 8), 1, 0), ""},
		{"atomic, not aligned", AppendAtomic(nil, 0, testHeap+4, CodeOf(AtomicAdd, 8), 1, 0), "offset"},
		{"atomic on 4 bytes, not aligned", AppendAtomic(nil, 0, testHeap+2, CodeOf(AtomicAdd, 4), 1, 0), "offset"},
		{"atomic load without an answer", AppendAtomic(nil, 0, testHeap, CodeOf(AtomicLoad, 8), 0, 0), "code"},
		{"atomic, unknown code", AppendAtomic(nil, 0, testHeap, uint8(atomicEnd), 0, 0), "code"},
		{"atomic with a length", with(AppendAtomic(nil, 0, testHeap, CodeOf(AtomicAdd, 8), 0, 0), 4, 8), "length"},
		{"atomic behind the heap", AppendAtomic(nil, 0, testEnd, CodeOf(AtomicAdd, 8), 0, 0), "offset"},
		{"fetch", AppendAtomicFetch(nil, 0, testHeap, CodeOf(AtomicLoad, 4), 0, 0, 7), ""},
		{"fetch once", AppendFetchOnce(nil, 0, testHeap, CodeOf(AtomicAdd, 8), 0, 0, 1, 7), ""},
		{"fetch once without a number", AppendFetchOnce(nil, 0, testHeap, CodeOf(AtomicAdd, 8), 0, 0, 0, 7), "number"},
		{"fetch, unknown code", AppendAtomicFetch(nil, 0, testHeap, uint8(atomicEnd)|Width32, 0, 0, 7), "code"},

		{"signal set", AppendSignal(nil, 0, testHeap, SignalSet, 1), ""},
		{"signal add", AppendSignal(nil, 0, testHeap, SignalAdd, 1), ""},
		{"signal, unknown code", AppendSignal(nil, 0, testHeap, 2, 1), "code"},
		{"signal, not aligned", AppendSignal(nil, 0, testHeap+4, SignalSet, 1), "offset"},
		{"signal with a length", with(AppendSignal(nil, 0, testHeap, SignalSet, 1), 5, 1), "length"},
		{"signal in the wire region", AppendSignal(nil, 0, testEnd, SignalSet, 1), "offset"},

		{"put from the heap", AppendPutFrom(nil, 0, testHeap, 8, testHeap), "op"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := parseOne(t, c.b)
			expectField(t, testLimits.Check(&r), c.field)
		})
	}
	t.Run("no record", func(t *testing.T) { expectField(t, testLimits.Check(&Record{}), "op") })
	t.Run("no heap", func(t *testing.T) {
		r := parseOne(t, put(0, testHeap, 8))
		expectField(t, (&Limits{Near: 4, SegmentSize: testHeap}).Check(&r), "offset")
	})
}

func TestCheckSource(t *testing.T) {
	for _, c := range []struct {
		name  string
		n     int
		from  uint64
		field string
	}{
		{"heap", 8, testHeap, ""},
		{"longest, at the end", MaxPut, testEnd - MaxPut, ""},
		{"nothing", 0, testHeap, "length"},
		{"not a multiple of 8", 12, testHeap, "length"},
		{"too long", MaxPut + 8, testHeap, "length"},
		{"before the heap", 8, testHeap - 8, "from"},
		{"words of the control region", 8, 4096, "from"},
		{"behind the heap", 16, testEnd - 8, "from"},
		{"wire region", 8, testEnd, "from"},
		{"around the address range", 16, 1<<64 - 8, "from"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := parseOne(t, AppendPutFrom(nil, 0, 0, c.n, c.from))
			expectField(t, testLimits.CheckSource(&r), c.field)
		})
	}
}

func TestCheckAnswer(t *testing.T) {
	for _, c := range []struct {
		name  string
		to, n uint64
		field string
	}{
		{"heap", testHeap, 8, ""},
		{"room", testLimits.Rooms.From, 1 << 16, ""},
		{"no data", 0, 0, ""},
		{"control region", 4096, 8, "to"},
		{"other words of the wire region", testEnd, 8, "to"},
		{"from the heap into the wire region", testEnd - 4, 8, "to"},
		{"too long for the rooms", testLimits.Rooms.From, 1<<16 + 1, "to"},
		{"around the address range", 1<<64 - 4, 8, "to"},
	} {
		t.Run(c.name, func(t *testing.T) { expectField(t, testLimits.CheckAnswer(c.to, c.n), c.field) })
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{OpPutStrided.String(), "strided put"},
		{Op(0).String(), "operation 0"},
		{StatusOK.String(), "ok"},
		{StatusDead.String(), "target dead"},
		{StatusBad.String(), "bad request"},
		{Status(9).String(), "status 9"},
		{(&Error{Op: OpGet, Field: "slot", Got: 300, Want: "less than 256"}).Error(), "get record: slot is 300, want less than 256"},
		{(&Error{Field: "op", Got: 9, Want: "1 to 7"}).Error(), "record: op is 9, want 1 to 7"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	if StatusBad.IsValid() != true || Status(3).IsValid() {
		t.Error("IsValid: want the three values of Status and no other one")
	}
}

func TestNoAllocation(t *testing.T) {
	room := make([]byte, 0, MaxRecord)
	data := make([]byte, 8)
	var r Record
	n := testing.AllocsPerRun(100, func() {
		b := AppendPut(room, 1, testHeap, data)
		b = AppendAtomicFetch(b, 1, testHeap, CodeOf(AtomicAdd, 8), 1, 0, 3)
		b = AppendGetStrided(b, 1, testHeap, Shape{16, 8, 3}, 0, 0)
		for len(b) > 0 {
			rest, err := Parse(b, &r)
			if err != nil || testLimits.Check(&r) != nil {
				t.Fatal("a good record is refused")
			}
			b = rest
		}
	})
	if n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// FuzzParse gives Parse and Check any bytes. What they accept lies within the bytes and within the limits.
func FuzzParse(f *testing.F) {
	f.Add(AppendPut(nil, 1, testHeap, []byte("12345678")))
	strided, _ := ReservePutStrided(nil, 1, testHeap, Shape{16, 8, 3})
	f.Add(strided)
	f.Add(AppendGet(AppendSignal(nil, 1, testHeap, SignalAdd, 1), 1, testHeap, 100, testHeap, 3))
	f.Add(AppendGetStrided(nil, 1, testHeap, Shape{16, 8, 3}, testHeap, 3))
	f.Add(AppendAtomicFetch(AppendAtomic(nil, 1, testHeap, 3, 1, 2), 1, testHeap, 4|Width32, 1, 2, 3))
	f.Add(AppendPutFrom(AppendSignal(nil, 1, testHeap, SignalAdd, 1), 1, testHeap, 64, testHeap+8))
	message, _ := ReserveMessage(nil, 1, 1|MessageCut, 5, 6, bodyOf(7), 9)
	message, _ = ReserveMessagePart(message, 1, 0, 3)
	f.Add(message)
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		count, countErr := Count(b)
		for rest := b; len(rest) > 0; n++ {
			var r Record
			next, err := Parse(rest, &r)
			if (err != nil) != (n == count && countErr != nil) {
				t.Fatalf("record %d: Parse says %v, Count says %d, %v", n, err, count, countErr)
			}
			if err != nil {
				break
			}
			if r.Size()+len(next) != len(rest) || r.Size()%8 != 0 || r.Size() > MaxRecord {
				t.Fatalf("record of %d bytes among %d, %d left", r.Size(), len(rest), len(next))
			}
			if testLimits.Check(&r) == nil {
				checkReachOf(t, &r)
			}
			if r.Op == OpPutFrom && testLimits.CheckSource(&r) == nil {
				if from := r.From(); from < testHeap || from > testEnd || uint64(r.Length) > testEnd-from || r.Length > MaxPut {
					t.Fatalf("%+v takes %d bytes from %d", r, r.Length, from)
				}
			}
			rest = next
		}
	})
}

// checkReachOf goes through all bytes that a checked record reaches.
func checkReachOf(t *testing.T, r *Record) {
	t.Helper()
	touch := func(off, n uint64) {
		inHeap := off >= testHeap && off < testEnd && n <= testEnd-off
		inWords := off >= 4096 && off < 4096+64 && n <= 4096+64-off
		if !inHeap && !inWords {
			t.Fatalf("%+v reaches %d bytes at %d", r, n, off)
		}
	}
	if int(r.Local) >= testLimits.Near || r.Slot() >= layout.WireSlots {
		t.Fatalf("%+v: PE or slot out of range", r)
	}
	switch r.Op {
	case OpPut, OpGet:
		touch(r.Offset, uint64(r.Length))
	case OpPutStrided, OpGetStrided:
		s := r.Shape()
		if s.Block*s.N != uint64(r.Length) {
			t.Fatalf("%+v: %+v", r, s)
		}
		for i := range s.N {
			touch(r.Offset+i*s.Step, s.Block)
		}
	case OpMessage:
		if r.Code&MessageKind == 0 || len(r.Data()) != int(r.Length) || len(r.MessageBody()) != 0 && len(r.MessageBody()) != layout.CellBody {
			t.Fatalf("%+v: data of %d bytes, body of %d", r, len(r.Data()), len(r.MessageBody()))
		}
	case OpMessagePart:
		if len(r.Data()) != int(r.Length) || r.Length == 0 {
			t.Fatalf("%+v: data of %d bytes", r, len(r.Data()))
		}
	default:
		touch(r.Offset, 4)
	}
}

func BenchmarkAppendPut(b *testing.B) {
	room := make([]byte, 0, MaxRecord)
	var data [8]byte
	record := room
	for b.Loop() {
		if cap(record)-len(record) < 24 {
			record = room
		}
		record = AppendPut(record, 1, testHeap, data[:])
	}
}

func BenchmarkParseAndCheck(b *testing.B) {
	var records []byte
	for range 160 {
		records = AppendPut(records, 1, testHeap, make([]byte, 8))
	}
	rest := records
	var r Record
	for b.Loop() {
		if len(rest) == 0 {
			rest = records
		}
		next, err := Parse(rest, &r)
		if err != nil || testLimits.Check(&r) != nil {
			b.Fatal("a good record is refused")
		}
		rest = next
	}
}

// IsWordPut is true for the puts of a word that Check allows, and for nothing else.
func TestIsWordPut(t *testing.T) {
	const size = layout.HeapOffset + layout.WireSize + 64
	limits := Limits{Near: 2, SegmentSize: size, Words: Range{8, 64}}
	const heap = layout.HeapOffset
	offsets := []uint64{0, 8, heap - 8, heap, heap + 4, heap + 56, heap + 60, heap + 64, size - 8, size, 1 << 63, ^uint64(7), ^uint64(0)}
	words := 0
	for _, off := range offsets {
		for _, pe := range []layout.Local{0, 1, 2} {
			for _, n := range []int{4, 8, 16} {
				put := AppendPut(nil, pe, off, make([]byte, n))
				for _, b := range [][]byte{put, AppendAtomic(nil, pe, off, CodeOf(AtomicAdd, 8), 1, 2), append([]byte{put[0], 1}, put[2:]...)} {
					var r Record
					if _, err := Parse(b, &r); err != nil {
						t.Fatal(err)
					}
					inHeap := off >= layout.HeapOffset && off < size
					want := limits.Check(&r) == nil && r.Op == OpPut && r.Length == 8 && off%8 == 0 && inHeap
					if got := limits.IsWordPut(&r); got != want {
						t.Errorf("%v of %d bytes, code %d, at offset %d of PE %d: %v, want %v", r.Op, r.Length, r.Code, off, pe, got, want)
					} else if got {
						words++
					}
					local, at, word, ok := PutWordAt(b)
					if got := ok && int(local) < limits.Near && limits.HeapWords().HasWord(at); got != want {
						t.Errorf("%v of %d bytes, code %d, at offset %d of PE %d: a quick look says %v, want %v", r.Op, r.Length, r.Code, off, pe, got, want)
					} else if got && (word != r.Word() || len(b) != SizePutWord) {
						t.Errorf("a quick look finds %#x in %d bytes, want %#x in %d", word, SizePutWord, r.Word(), len(b))
					}
				}
			}
		}
	}
	if words != 2*2 {
		t.Errorf("%d puts of a word, want those at 2 offsets of 2 PEs", words)
	}
	if none := (&Limits{Near: 2}); none.HeapWords().HasWord(heap) || none.HeapWords().HasWord(0) {
		t.Error("a word in a segment of no size")
	}
	if got := AppendPutWord(make([]byte, 0, SizePutWord), 1, heap, 0x0807060504030201); !bytes.Equal(got, AppendPut(nil, 1, heap, []byte{1, 2, 3, 4, 5, 6, 7, 8})) {
		t.Errorf("a put of a word is %x", got)
	}
	if none := (&Limits{Near: 2}); none.IsWordPut(&Record{Op: OpPut, Length: 8, Offset: layout.HeapOffset, payload: make([]byte, 8)}) {
		t.Error("a put to a segment of no size")
	}
	r := Record{}
	if _, err := Parse(AppendPut(nil, 1, layout.HeapOffset, []byte{1, 2, 3, 4, 5, 6, 7, 8}), &r); err != nil || r.Word() != 0x0807060504030201 {
		t.Errorf("word %#x, error %v", r.Word(), err)
	}
}
