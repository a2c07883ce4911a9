package server

import (
	"fmt"

	"github.com/goshmem/goshmem/pmix/codec"
)

// peerOp says what a message between servers, or between a server and the board, is about.
type peerOp uint8

// The messages. Fields that a row does not list are zero.
//
//	op         to     as        proc                number       procs        flag                    body
//	opRequest  board  question  the client          application                                       its request
//	opGiveUp   board  news                          question
//	opLifetime board  news      has ended, or none  application               it has ended here, too
//	opEvent    nodes  news                                       targets                              the event
//	opControl  nodes  question  the client                                                            its request
//	opCondemn  nodes  news      the client                       who is to end  an abort
//	opInput    nodes  news                                       receivers    it ends                 the input
//	opCensus   nodes  question                                   whose state  groups, too
//	opLeft     nodes  news      who has left                                                          the group's name
//
// News of a lifetime also have the nodes on which the application has processes. No process has the rank undefined.
const (
	opRequest peerOp = iota + 1
	opGiveUp
	opLifetime
	opEvent
	opControl
	opCondemn
	opInput
	opCensus
	opLeft
	peerOps // their number plus one
)

// peerMessage is a message of one server to others, or to the board.
type peerMessage struct {
	op     peerOp
	proc   codec.Proc
	number uint64
	procs  []codec.Proc
	nodes  []int
	flag   bool
	body   []byte
}

func (m *peerMessage) append(b []byte) []byte {
	e := codec.NewEncoder(b)
	e.Byte(byte(m.op))
	e.Proc(m.proc)
	e.Uint(m.number)
	e.Procs(m.procs)
	e.Uint(uint64(len(m.nodes)))
	for _, node := range m.nodes {
		e.Uint(uint64(node))
	}
	e.Bool(m.flag)
	e.ByteObject(m.body)
	return e.Bytes()
}

func parsePeerMessage(b []byte) (m peerMessage, err error) {
	d := codec.NewDecoder(b)
	m.op = peerOp(d.Byte())
	m.proc = d.Proc()
	m.number = d.Uint()
	m.procs = d.Procs()
	for range min(d.Uint(), uint64(d.Rest())) { // each takes a byte or more
		m.nodes = append(m.nodes, int(int32(d.Uint())))
	}
	m.flag = d.Bool()
	m.body = d.ByteObject()
	if err := d.End(); err != nil {
		return peerMessage{}, fmt.Errorf("message of another node: %w", err)
	}
	if m.op == 0 || m.op >= peerOps {
		return peerMessage{}, fmt.Errorf("message of another node is of kind %d, want 1 to %d", m.op, peerOps-1)
	}
	return m, nil
}

// peerAnswer answers a question. Its body is the client's answer where the question has a client's request.
type peerAnswer struct {
	status codec.Status
	why    string // for the log; empty: nothing
	body   []byte
}

func (a *peerAnswer) append(b []byte) []byte {
	e := codec.NewEncoder(b)
	e.Status(a.status)
	e.String(a.why)
	e.ByteObject(a.body)
	return e.Bytes()
}

func parsePeerAnswer(b []byte) (a peerAnswer, err error) {
	d := codec.NewDecoder(b)
	a.status, a.why, a.body = d.Status(), d.Str(), d.ByteObject()
	if err := d.End(); err != nil {
		return peerAnswer{}, fmt.Errorf("answer of another node: %w", err)
	}
	return a, nil
}
