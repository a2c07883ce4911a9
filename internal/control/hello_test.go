package control

import (
	"bytes"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/wire"
)

var (
	someHello = hello{
		Identity: Identity{Job: [16]byte{1, 2, 3}, Build: "v1.2.3 abc", Node: AnyNode},
		To:       FrontEnd, Session: 1<<63 + 5, Attempt: 7, Resume: true, Received: 1 << 40,
	}
	someWelcome = welcome{
		Identity: Identity{Job: [16]byte{4, 5}, Build: "v1.2.3", Node: 3},
		Session:  9, Received: 11, Ended: true, Refusal: "no such link",
	}
)

func TestHelloRoundTrip(t *testing.T) {
	long := strings.Repeat("x", 10000)
	for _, h := range []hello{{}, someHello, {Identity: Identity{Build: long}}} {
		f := h.frame()
		if len(f.Body) > maxHello {
			t.Errorf("hello has %d bytes, want at most %d", len(f.Body), maxHello)
		}
		h.Build = h.Build[:min(len(h.Build), maxBuild)]
		if got, err := parseHello(f.Body); err != nil || got != h || f.Kind != wire.KindHello {
			t.Errorf("hello %+v came back as %+v, %v", h, got, err)
		}
	}
	for _, w := range []welcome{{}, someWelcome, {Identity: Identity{Build: long}, Refusal: long}} {
		f := w.frame()
		if len(f.Body) > maxHello {
			t.Errorf("welcome has %d bytes, want at most %d", len(f.Body), maxHello)
		}
		w.Build = w.Build[:min(len(w.Build), maxBuild)]
		w.Refusal = w.Refusal[:min(len(w.Refusal), maxRefusal)]
		if got, err := parseWelcome(f.Body); err != nil || got != w || f.Kind != wire.KindWelcome {
			t.Errorf("welcome %+v came back as %+v, %v", w, got, err)
		}
	}
}

func TestHelloRefused(t *testing.T) {
	h, w := someHello.append(nil), someWelcome.append(nil)
	for n := range h {
		if _, err := parseHello(h[:n]); err == nil || !strings.Contains(err.Error(), "ends early") {
			t.Errorf("first %d bytes of a hello: %v", n, err)
		}
	}
	for n := range w {
		if _, err := parseWelcome(w[:n]); err == nil || !strings.Contains(err.Error(), "ends early") {
			t.Errorf("first %d bytes of a welcome: %v", n, err)
		}
	}
	for want, spoil := range map[string]func(b []byte) []byte{
		"hello has 1 bytes too many":                    func(b []byte) []byte { return append(b, 0) },
		"hello has protocol version 2, want 1":          func(b []byte) []byte { b[0]++; return b },
		"hello has a mark that is 2, want 0 or 1":       func(b []byte) []byte { b[len(b)-9]++; return b },
		"hello has a text of 65290 bytes, want at most": func(b []byte) []byte { b[25] = 255; return b },
	} {
		if _, err := parseHello(spoil(bytes.Clone(h))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}

func FuzzHello(f *testing.F) {
	f.Add(someHello.append(nil))
	f.Add(someWelcome.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := parseHello(b); err == nil && !bytes.Equal(h.append(nil), b) {
			t.Errorf("hello %x does not come back", b)
		}
		if w, err := parseWelcome(b); err == nil && !bytes.Equal(w.append(nil), b) {
			t.Errorf("welcome %x does not come back", b)
		}
	})
}
