package client

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/pmix/wire"
)

// maxFrame bounds what a server may send at once.
const maxFrame = 1 << 30

// conn is the connection to the server: requests out, answers matched to them by tag.
type conn struct {
	nc   net.Conn
	out  chan []byte
	push func(tag uint32, body []byte) // takes what comes without having been asked for; must end when the client does
	gone chan struct{}                 // closed when the connection has ended, whoever ended it
	wg   sync.WaitGroup

	mu      sync.Mutex
	lastTag uint32
	waiting map[uint32]chan []byte
}

// greeting introduces the client on a new connection; where the server names it, it puts the name into the options.
type greeting func(nc net.Conn, opts *Options) error

const (
	// greetAttempts is how often a client introduces itself to a server that hangs up without a word: one that is flooded
	// by strangers drops connections that say nothing, and may have taken this one for another of them.
	greetAttempts = 8
	greetPause    = 10 * time.Millisecond // before the second attempt; then twice as long each time
)

// connect dials the server and introduces the client.
func connect(ctx context.Context, opts *Options, greet greeting, push func(tag uint32, body []byte)) (*conn, error) {
	pause := greetPause
	for attempt := 1; ; attempt++ {
		c, err := connectOnce(ctx, opts, greet, push)
		if err == nil || attempt == greetAttempts || !hungUp(err) {
			return c, err
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, err
		}
		pause *= 2
	}
}

// hungUp says of an error whether the other end has closed the connection.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func connectOnce(ctx context.Context, opts *Options, greet greeting, push func(tag uint32, body []byte)) (*conn, error) {
	var dialer net.Dialer
	nc, err := dialer.DialContext(ctx, "tcp", opts.Address)
	if err != nil {
		return nil, fmt.Errorf("pmix: connect to server at %s: %w", opts.Address, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) }) // ends the waits of the handshake
	err = greet(nc, opts)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = nc.Close() // the first error counts
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("pmix: handshake with server at %s: %w", opts.Address, err)
	}
	c := &conn{
		nc: nc, out: make(chan []byte), push: push, gone: make(chan struct{}),
		lastTag: wire.TagFirstDynamic - 1, waiting: map[uint32]chan []byte{},
	}
	c.wg.Go(c.read)
	c.wg.Go(c.write)
	return c, nil
}

func introduce(nc net.Conn, opts *Options) error {
	proc := wire.Proc{Nspace: opts.Nspace, Rank: opts.Rank}
	h := wire.NewHandshake(proc, opts.Security, credential(opts.Security))
	if _, err := nc.Write(wire.AppendHandshake(nil, h)); err != nil {
		return err
	}
	var reply [wire.HandshakeReplySize]byte
	if _, err := io.ReadFull(nc, reply[:]); err != nil {
		return err
	}
	status, _, err := wire.DecodeHandshakeReply(reply[:])
	if err != nil {
		return err
	}
	return statusError("connect as "+proc.String(), status)
}

// credential is what the native security module sends over TCP: the effective user and group, in host order.
func credential(security string) []byte {
	if security != wire.SecurityNative {
		return nil
	}
	cred := binary.NativeEndian.AppendUint32(nil, uint32(os.Geteuid()))
	return binary.NativeEndian.AppendUint32(cred, uint32(os.Getegid()))
}

// call sends a request and waits for its answer. The error is the context's or ErrLostConnection.
func (c *conn) call(ctx context.Context, body []byte) ([]byte, error) {
	tag, answer := c.expect()
	defer c.forget(tag)
	if err := c.send(ctx, wire.AppendFrame(nil, 0, tag, body)); err != nil {
		return nil, err
	}
	select {
	case b := <-answer:
		return b, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.gone:
		select {
		case b := <-answer: // it came just before the end
			return b, nil
		default:
			return nil, ErrLostConnection
		}
	}
}

func (c *conn) send(ctx context.Context, frame []byte) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	select {
	case c.out <- frame:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.gone:
		return ErrLostConnection
	}
}

func (c *conn) expect() (uint32, chan []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if c.lastTag++; c.lastTag < wire.TagFirstDynamic {
			c.lastTag = wire.TagFirstDynamic
		}
		if _, taken := c.waiting[c.lastTag]; !taken {
			answer := make(chan []byte, 1)
			c.waiting[c.lastTag] = answer
			return c.lastTag, answer
		}
	}
}

func (c *conn) forget(tag uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, tag)
}

func (c *conn) deliver(tag uint32, body []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer, ok := c.waiting[tag]; ok {
		delete(c.waiting, tag)
		answer <- body
	}
}

func (c *conn) read() {
	defer close(c.gone)
	defer func() { _ = c.nc.Close() }() // it has ended one way or another
	frames := wire.NewFrameReader(bufio.NewReader(c.nc), maxFrame)
	for {
		h, body, err := frames.Next()
		if err != nil {
			return
		}
		if h.Tag < wire.TagFirstDynamic {
			c.push(h.Tag, body)
			continue
		}
		c.deliver(h.Tag, body)
	}
}

func (c *conn) write() {
	for {
		select {
		case frame := <-c.out:
			if _, err := c.nc.Write(frame); err != nil {
				_ = c.nc.Close() // tells the reader
				return
			}
		case <-c.gone:
			return
		}
	}
}

// close ends the connection and its goroutines.
func (c *conn) close() {
	_ = c.nc.Close() // nothing is left to be sent
	c.wg.Wait()
}
