package detector

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/goshmem/goshmem/detector/bmg"
)

// TestSplit: the parts of a message have all of its payloads and acknowledgments in order, and each part fits if its first
// payload does.
func TestSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room := rapid.IntRange(60, 1200).Draw(t, "room")
		var m bmg.Msg
		for i := range rapid.IntRange(0, 100).Draw(t, "payloads") {
			data := rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(t, "data")
			m.Payloads = append(m.Payloads, bmg.Payload{Key: bmg.Key{Kind: bmg.KindEvent, ID: uint64(i)}, Data: data})
		}
		for i := range rapid.IntRange(0, 100).Draw(t, "acks") {
			m.Acks = append(m.Acks, bmg.Key{Kind: bmg.KindPE, ID: uint64(i)})
		}
		var got bmg.Msg
		parts := 0
		split(m, room, func(part *bmg.Msg) {
			parts++
			size := len(part.Append(nil))
			if want := newsHead + newsAck*len(part.Acks); len(part.Payloads) == 0 && size != want {
				t.Fatalf("%d bytes, want %d", size, want)
			}
			if size > room && (len(part.Payloads) > 1 || len(part.Acks) > 0) || len(part.Payloads)+len(part.Acks) == 0 {
				t.Fatalf("a part of %d bytes with %d payloads and %d acknowledgments, want at most %d bytes",
					size, len(part.Payloads), len(part.Acks), room)
			}
			got.Payloads, got.Acks = append(got.Payloads, part.Payloads...), append(got.Acks, part.Acks...)
		})
		same := slices.EqualFunc(got.Payloads, m.Payloads, func(a, b bmg.Payload) bool { return a.ID == b.ID })
		if !same || !slices.Equal(got.Acks, m.Acks) {
			t.Fatalf("got %d payloads and %d acknowledgments in %d parts", len(got.Payloads), len(got.Acks), parts)
		}
	})
}

// TestSplitFills: parts are as large as can be.
func TestSplitFills(t *testing.T) {
	m := bmg.Msg{Payloads: make([]bmg.Payload, 128), Acks: make([]bmg.Key, 10)}
	var sizes []int
	split(m, 1144, func(part *bmg.Msg) { sizes = append(sizes, len(part.Append(nil))) })
	if want := []int{1129, 1129, 1129, 1129, 1129, 4 + 3*45 + 10*25}; !slices.Equal(sizes, want) {
		t.Errorf("got parts of %v bytes, want %v", sizes, want)
	}
}
