package tcp

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestTokensDiffer(t *testing.T) {
	e := ends{Dialer: 1, DialerIncarnation: 2, Listener: 3, ListenerIncarnation: 4}
	tokens := map[token]string{}
	add := func(what string, secret Secret, job [16]byte, e ends) {
		k, err := newToken(secret, job, e)
		if err != nil {
			t.Fatal(err)
		}
		if other := tokens[k]; other != "" {
			t.Errorf("%q has the token of %q", what, other)
		}
		tokens[k] = what
	}
	secret, job := Secret{1}, [16]byte{2}
	add("a pair", secret, job, e)
	add("another secret", Secret{2}, job, e)
	add("another job", secret, [16]byte{3}, e)
	add("the other direction", secret, job, ends{3, 4, 1, 2})
	add("a later dialer", secret, job, ends{1, 3, 3, 4})
	add("a later listener", secret, job, ends{1, 2, 3, 5})
	add("another node", secret, job, ends{1, 2, 5, 4})
}

func TestSecretIsNotPrinted(t *testing.T) {
	for _, verb := range []string{"%v", "%+v", "%#v", "%x", "%s"} {
		if text := fmt.Sprintf(verb, Config{Secret: Secret{200, 201, 202}}); strings.Contains(text, "20") || strings.Contains(text, "c8c9") {
			t.Errorf("%s prints %s", verb, text)
		}
	}
}

// The roles' proofs differ even if all that they cover is the same.
func TestProofsHaveRoles(t *testing.T) {
	k := token{1}
	if k.prove(listenerLabel, []byte("x")) == k.prove(dialerLabel, []byte("x")) {
		t.Error("both roles have the same proof")
	}
	proofs := map[[macSize]byte]bool{}
	for _, express := range []uint32{0, 1, 2} {
		h := hello{ends: ends{1, 2, 3, 4}, Generation: 5, Express: express}
		p := h.proof([16]byte{9})
		proofs[k.proveListener(&h, &[nonceSize]byte{})] = true
		proofs[k.proveDialer(&p, &[nonceSize]byte{})] = true
		proofs[k.prove(label(listenerLabel, express), []byte("x"))] = true
		proofs[k.prove(label(dialerLabel, express), []byte("x"))] = true
	}
	if len(proofs) != 10 { // labels are the same for all express sockets
		t.Errorf("%d different proofs, want 10: a lane's is none of an express socket, nor one PE's of another one", len(proofs))
	}
}

func TestCodesHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for c := range lastCode + 2 {
		if text := c.String(); seen[text] {
			t.Errorf("code %d has the text %q of another one", uint32(c), text)
		} else {
			seen[text] = true
		}
	}
}

// FuzzHandshake: no bytes make a parser panic, and what it accepts is what the encoder makes of it.
func FuzzHandshake(f *testing.F) {
	h := hello{ends: ends{1, 2, 3, 4}, Generation: 5, Nonce: [nonceSize]byte{6}}
	a := answer{Code: codeOld, Nonce: [nonceSize]byte{7}, MAC: [macSize]byte{8}}
	p := proof{Job: [16]byte{9}, Node: 1, Incarnation: 2, Generation: 5, MAC: [macSize]byte{10}}
	f.Add(h.encode(nil))
	f.Add(a.encode(nil))
	f.Add(p.encode(nil))
	f.Add(encodeWelcome(nil, codeStranger))
	f.Add(encodeCall(nil, codeWelcome, 11))
	h.Express, p.Express = 3, 3
	f.Add(h.encode(nil))
	f.Add(p.encode(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := parseHello(b); err == nil && !bytes.Equal(h.encode(nil), b) {
			t.Errorf("hello %+v of %x", h, b)
		}
		if a, err := parseAnswer(b); err == nil && !bytes.Equal(a.encode(nil), b) {
			t.Errorf("answer %+v of %x", a, b)
		}
		if p, err := parseProof(b); err == nil && !bytes.Equal(p.encode(nil), b) {
			t.Errorf("proof %+v of %x", p, b)
		}
		if c, err := parseWelcome(b); err == nil && !bytes.Equal(encodeWelcome(nil, c), b) {
			t.Errorf("welcome %v of %x", c, b)
		}
		if c, last, err := parseCall(b); err == nil && !bytes.Equal(encodeCall(nil, c, last), b) {
			t.Errorf("welcome %v, %d of %x", c, last, b)
		}
	})
}
