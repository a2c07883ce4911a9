package wire

import (
	"strings"
	"testing"
)

func TestRoundTrip(t *testing.T) {
	q := AttachRequest{Nspace: "goshmem-1", PE: 3, Incarnation: 2, Kind: AskPeers, First: 250, Job: 7}
	if got, err := ParseAttachRequest(q.Append(nil)); err != nil || got != q {
		t.Errorf("request came back as %+v, %v", got, err)
	}
	for _, text := range []string{"", "no such PE", strings.Repeat("x", 2*MaxPacket)} {
		r := AttachReply{Job: [16]byte{9, 8}, NPEs: 12, Nodes: 3, FirstPE: 5, Near: 7, First: 1, Count: 4, Incarnation: 1, Processors: 6, SegmentSize: 1 << 40, Page: text == "", Recover: text != "", Err: text}
		b := r.Append(nil)
		if len(b) > MaxPacket {
			t.Errorf("packet of %d bytes", len(b))
		}
		r.Err = clip(r.Err)
		if got, err := ParseAttachReply(b); err != nil || got != r {
			t.Errorf("reply came back as %+v, %v", got, err)
		}
	}
}

// A reply may say why there is no agent. That is no refusal.
func TestReplyWithoutAgent(t *testing.T) {
	r := AttachReply{NPEs: 4, Nodes: 2, Near: 2, Count: 2, Scattered: true, Page: true, NoAgent: "no port is free"}
	b := r.Append(nil)
	if got, err := ParseAttachReply(b); err != nil || got != r {
		t.Errorf("reply came back as %+v, %v, want %+v", got, err, r)
	}
	bare := (&AttachReply{Page: true}).Append(nil)
	bare[64] = 5
	if _, err := ParseAttachReply(bare); err == nil {
		t.Error("a reply without an agent and without the reason is accepted")
	}
}

// A packet takes as much text as fits.
func TestOrderRoundTrip(t *testing.T) {
	for _, p := range []OrderPacket{{Order: OrderStacks}, {Order: OrderNews}, {Order: OrderProfile, Last: true, Text: "goroutine 1"}, {Text: strings.Repeat("x", MaxText)}} {
		if got, err := ParseOrder(p.Append(nil)); err != nil || got != p {
			t.Errorf("%+v came back as %+v, %v", p, got, err)
		}
	}
	long := OrderPacket{Text: strings.Repeat("x", MaxText+1)}
	if b := long.Append(nil); len(b) != MaxPacket {
		t.Errorf("packet of %d bytes, want %d", len(b), MaxPacket)
	}
	if _, err := ParseOrder(append((&OrderPacket{}).Append(nil)[:12], 2, 0, 0, 0)); err == nil || !strings.Contains(err.Error(), "last is 2") {
		t.Errorf("bad mark: %v", err)
	}
}

func TestRefused(t *testing.T) {
	q := AttachRequest{Nspace: "n"}
	b := q.Append(nil)
	for name, spoil := range map[string]func([]byte) []byte{
		"at least": func(b []byte) []byte { return b[:7] },
		"begins":   func(b []byte) []byte { b[0]++; return b },
		"version":  func(b []byte) []byte { b[4]++; return b },
		"bytes":    func(b []byte) []byte { return append(b, 0) },
	} {
		if _, err := ParseAttachRequest(spoil(append([]byte(nil), b...))); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want an error with %q", err, name)
		}
	}
}

// Marks that no version has are refused.
func TestMarks(t *testing.T) {
	for at, want := range map[int]string{64: "page is 2", 68: "marks are 8"} {
		b := (&AttachReply{Page: true, Recover: true, Scattered: true, Homes: true}).Append(nil)
		b[at]++
		if _, err := ParseAttachReply(b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("bad mark: %v, want %q", err, want)
		}
	}
}

func FuzzAttach(f *testing.F) {
	q := AttachRequest{Nspace: "goshmem-1", PE: 3}
	r := AttachReply{NPEs: 4, Nodes: 1, Near: 4, Err: "no"}
	with := AttachReply{NPEs: 8, Nodes: 2, FirstPE: 4, Near: 4, Count: 4, SegmentSize: 1 << 22, Page: true}
	news := OrderPacket{Order: OrderNews}
	f.Add(with.Append(nil))
	with.NoAgent = "no port is free"
	f.Add(with.Append(nil))
	f.Add(news.Append(nil))
	f.Add(q.Append(nil))
	o := OrderPacket{Order: OrderStacks, Text: "text"}
	f.Add(r.Append(nil))
	f.Add(o.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if q, err := ParseAttachRequest(b); err == nil && len(q.Nspace) <= MaxPacket-replyBytes && string(q.Append(nil)) != string(b) {
			t.Errorf("request %x does not come back", b)
		}
		if r, err := ParseAttachReply(b); err == nil && len(r.Err) <= MaxPacket-replyBytes && string(r.Append(nil)) != string(b) {
			t.Errorf("reply %x does not come back", b)
		}
		if o, err := ParseOrder(b); err == nil && len(o.Text) <= MaxText && string(o.Append(nil)) != string(b) {
			t.Errorf("order %x does not come back", b)
		}
	})
}
