package tcp

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/goshmem/goshmem/symheap/layout"
)

// The handshake of a connection. All numbers are little endian.
//
//	dialer -> listener  hello    who dials whom, the dialer's nonce
//	listener -> dialer  answer   a code, the listener's nonce, a proof of the token
//	dialer -> listener  proof    the job and the dialer once more, a proof of the token
//	listener -> dialer  welcome  a code; of an express socket also the last number executed (express.go)
//
// Token: only who has the key can make it. It is different for each pair of nodes, direction and incarnation. So a
// dialer with a wrong address, or with that of a dead incarnation, notices it.
//
// Proofs: a MAC by the token of a label of the sender's role, the other end's nonce and what the sender says. Without the
// label a stranger could have its proof made by the listener itself: by a second connection whose hello has the nonce
// of the first one's answer.
//
// A peer gets a code when its hello or proof says something wrong. Up to the proof the listener says no more than that,
// and a code that is no codeWelcome proves nothing: it only makes the dialer's error better.
const (
	helloSize   = 64
	answerSize  = 80
	proofSize   = 64
	welcomeSize = 8
	callSize    = 16 // of the welcome of an express socket

	nonceSize = 32
	macSize   = sha256.Size
)

// magic begins hello and answer. The last digit is the version of the handshake.
const magic = "gosh-nd1"

// tokenLabel separates the tokens from everything else that is derived from a job's key.
const tokenLabel = "goshmem data connection 1"

// Labels of the proofs. Express sockets have labels of their own, so no proof of the one kind passes for the other.
const (
	listenerLabel = "listener"
	dialerLabel   = "dialer"
	expressLabel  = "express "
)

// label returns the label of a role in the handshake of an express socket or a lane.
func label(role string, express uint32) string {
	if express != 0 {
		return expressLabel + role
	}
	return role
}

// code is what a listener says of a hello or a proof.
type code uint32

const (
	codeWelcome     code = iota
	codeMisrouted        // the listener is another node
	codeIncarnation      // one of the nodes has, or is told to have, another incarnation
	codeUnknown          // the listener does not know the dialer
	codeOld              // the listener has a connection of a later attempt
	codeStranger         // the proof is wrong
	codeFull             // the listener takes no more express sockets
	codeGone             // the PE of an express socket is dead, or of an earlier incarnation
	lastCode        = codeGone
	codeNone        = ^code(0) // of this package alone: say nothing
)

// String returns the dialer's side of the matter.
func (c code) String() string {
	switch c {
	case codeWelcome:
		return "welcome"
	case codeMisrouted:
		return "the listener is another node: the address is wrong"
	case codeIncarnation:
		return "the listener or this node has another incarnation"
	case codeUnknown:
		return "the listener does not know this node"
	case codeOld:
		return "the listener has a connection of a later attempt"
	case codeStranger:
		return "the listener does not accept the proof of the key"
	case codeFull:
		return "the listener takes no more express sockets"
	case codeGone:
		return "the listener knows the PE to be dead"
	}
	return fmt.Sprintf("code %d", uint32(c))
}

// ends are the two nodes of a connection.
type ends struct {
	Dialer              uint32
	DialerIncarnation   uint32
	Listener            uint32
	ListenerIncarnation uint32
}

// token is the secret of the connections from one node to another.
type token [32]byte

// newToken derives a token from the secret and the key of a job.
func newToken(secret Secret, job [16]byte, e ends) (token, error) {
	info := append([]byte(tokenLabel), job[:]...)
	for _, n := range []uint32{e.Dialer, e.DialerIncarnation, e.Listener, e.ListenerIncarnation} {
		info = binary.LittleEndian.AppendUint32(info, n)
	}
	b, err := hkdf.Key(sha256.New, secret[:], nil, string(info), len(token{}))
	if err != nil {
		return token{}, fmt.Errorf("derive the token of a data connection: %w", err)
	}
	return token(b), nil
}

// prove returns the proof of a role that its end has the token. All words have fixed sizes.
func (t *token) prove(label string, words ...[]byte) (mac [macSize]byte) {
	h := hmac.New(sha256.New, t[:])
	h.Write([]byte(label))
	for _, w := range words {
		h.Write(w)
	}
	h.Sum(mac[:0])
	return mac
}

// proveListener returns the MAC of the answer to a hello.
func (t *token) proveListener(h *hello, nonce *[nonceSize]byte) [macSize]byte {
	return t.prove(label(listenerLabel, h.Express), h.encode(nil), nonce[:])
}

// proveDialer returns the MAC of a proof, the answer to an answer with a nonce.
func (t *token) proveDialer(p *proof, nonce *[nonceSize]byte) [macSize]byte {
	return t.prove(label(dialerLabel, p.Express), nonce[:], p.claims(nil))
}

// hello is the dialer's first word.
type hello struct {
	ends
	Generation uint32 // of an express socket: the incarnation of its PE
	Express    uint32 // 0: the connection is a lane; otherwise 1 + the local index of the PE whose express socket it is
	Nonce      [nonceSize]byte
}

// proof returns the dialer's next word, without its MAC.
func (h *hello) proof(job [16]byte) proof {
	return proof{Job: job, Node: h.Dialer, Incarnation: h.DialerIncarnation, Generation: h.Generation, Express: h.Express}
}

var errProtocol = errors.New("peer does not speak the protocol of goshmem's data connections, or another version")

func (h *hello) encode(b []byte) []byte {
	b = append(b, magic...)
	for _, n := range []uint32{h.Dialer, h.DialerIncarnation, h.Listener, h.ListenerIncarnation, h.Generation, h.Express} {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	return append(b, h.Nonce[:]...)
}

func parseHello(b []byte) (h hello, err error) {
	if len(b) != helloSize || string(b[:8]) != magic {
		return h, errProtocol
	}
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(b[8+4*i:]) }
	h.ends = ends{word(0), word(1), word(2), word(3)}
	h.Generation, h.Express = word(4), word(5)
	copy(h.Nonce[:], b[32:])
	if h.Generation == 0 || h.Express > layout.MaxLocal {
		return h, errProtocol
	}
	return h, nil
}

// answer is the listener's first word.
type answer struct {
	Code  code
	Nonce [nonceSize]byte
	MAC   [macSize]byte
}

func (a *answer) encode(b []byte) []byte {
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint32(b, uint32(a.Code))
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = append(b, a.Nonce[:]...)
	return append(b, a.MAC[:]...)
}

func parseAnswer(b []byte) (a answer, err error) {
	if len(b) != answerSize || string(b[:8]) != magic {
		return a, errProtocol
	}
	a.Code = code(binary.LittleEndian.Uint32(b[8:]))
	if a.Code > lastCode || binary.LittleEndian.Uint32(b[12:]) != 0 {
		return a, errProtocol
	}
	copy(a.Nonce[:], b[16:])
	copy(a.MAC[:], b[16+nonceSize:])
	return a, nil
}

// proof is the dialer's second word.
type proof struct {
	Job         [16]byte
	Node        uint32
	Incarnation uint32
	Generation  uint32
	Express     uint32 // as in the hello
	MAC         [macSize]byte
}

// claims encodes all of a proof but its MAC.
func (p *proof) claims(b []byte) []byte {
	b = append(b, p.Job[:]...)
	for _, n := range []uint32{p.Node, p.Incarnation, p.Generation, p.Express} {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	return b
}

func (p *proof) encode(b []byte) []byte { return append(p.claims(b), p.MAC[:]...) }

func parseProof(b []byte) (p proof, err error) {
	if len(b) != proofSize {
		return p, errProtocol
	}
	copy(p.Job[:], b)
	p.Node = binary.LittleEndian.Uint32(b[16:])
	p.Incarnation = binary.LittleEndian.Uint32(b[20:])
	p.Generation = binary.LittleEndian.Uint32(b[24:])
	p.Express = binary.LittleEndian.Uint32(b[28:])
	copy(p.MAC[:], b[32:])
	return p, nil
}

// welcome is the listener's last word of the handshake.
func encodeWelcome(b []byte, c code) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(c))
	return binary.LittleEndian.AppendUint32(b, 0)
}

func parseWelcome(b []byte) (code, error) {
	if len(b) != welcomeSize {
		return 0, errProtocol
	}
	c := code(binary.LittleEndian.Uint32(b))
	if c > lastCode || binary.LittleEndian.Uint32(b[4:]) != 0 {
		return 0, errProtocol
	}
	return c, nil
}
