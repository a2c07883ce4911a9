package client

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/pmix/codec"
)

// maxFrame bounds what a server may send at once.
const maxFrame = 1 << 30

// conn is the connection to the server. It sends requests and matches answers to them by tag.
type conn struct {
	nc   *os.File
	out  chan []byte
	push func(tag uint32, body []byte) // receives frames that answer no request; must return when the client closes
	gone chan struct{}                 // closed when the connection has ended, by either side
	wg   sync.WaitGroup

	mu      sync.Mutex
	lastTag uint32
	waiting map[uint32]chan []byte
}

// greeting introduces the client on a new connection. It stores the client's name in opts if the server assigns it.
type greeting func(nc *os.File, opts *Options) error

const (
	// greetAttempts bounds how often a client introduces itself to a server that closes the connection without an
	// answer. A server that is flooded with connections drops silent ones, which may hit a client before it has sent
	// its first bytes.
	greetAttempts = 8
	greetPause    = 10 * time.Millisecond // before the second attempt; doubles with each further one
)

// connect dials the server and introduces the client, again if the server hangs up.
func connect(ctx context.Context, opts *Options, greet greeting, push func(tag uint32, body []byte)) (*conn, error) {
	pause := greetPause
	for attempt := 1; ; attempt++ {
		c, err := connectOnce(ctx, opts, greet, push)
		if err == nil || attempt == greetAttempts || !isHangUp(err) {
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

// isHangUp reports whether err means that the other end has closed the connection.
func isHangUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func connectOnce(ctx context.Context, opts *Options, greet greeting, push func(tag uint32, body []byte)) (*conn, error) {
	addr, err := netip.ParseAddrPort(opts.Address)
	if err != nil {
		return nil, fmt.Errorf("pmix: address of the server: %w, want address:port", err)
	}
	nc, err := xunix.DialTCP(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("pmix: connect to server at %s: %w", opts.Address, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) }) // ends reads and writes of the handshake
	err = greet(nc, opts)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = nc.Close() // err is the error to report
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("pmix: handshake with server at %s: %w", opts.Address, err)
	}
	c := &conn{
		nc: nc, out: make(chan []byte), push: push, gone: make(chan struct{}),
		lastTag: codec.TagFirstDynamic - 1, waiting: map[uint32]chan []byte{},
	}
	c.wg.Go(c.read)
	c.wg.Go(c.write)
	return c, nil
}

func introduceClient(nc *os.File, opts *Options) error {
	proc := codec.Proc{Nspace: opts.Nspace, Rank: opts.Rank}
	h := codec.NewHandshake(proc, opts.Security, credential(opts.Security))
	if _, err := nc.Write(codec.AppendHandshake(nil, h)); err != nil {
		return err
	}
	var reply [codec.HandshakeReplySize]byte
	if _, err := io.ReadFull(nc, reply[:]); err != nil {
		return err
	}
	status, _, err := codec.DecodeHandshakeReply(reply[:])
	if err != nil {
		return err
	}
	return statusError("connect as "+proc.String(), status)
}

// credential returns what the native security module sends over TCP: the effective user and group, in host order.
func credential(security string) []byte {
	if security != codec.SecurityNative {
		return nil
	}
	cred := binary.NativeEndian.AppendUint32(nil, uint32(os.Geteuid()))
	return binary.NativeEndian.AppendUint32(cred, uint32(os.Getegid()))
}

// exchange sends a request and waits for its answer. The error is the context's or ErrLostConnection.
func (c *conn) exchange(ctx context.Context, body []byte) ([]byte, error) {
	tag, answer := c.reserveTag()
	defer c.releaseTag(tag)
	if err := c.send(ctx, codec.AppendFrame(nil, 0, tag, body)); err != nil {
		return nil, err
	}
	select {
	case b := <-answer:
		return b, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.gone:
		select {
		case b := <-answer: // the answer came just before the end
			return b, nil
		default:
			return nil, ErrLostConnection
		}
	}
}

// send queues a frame for the writer.
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

// reserveTag returns a tag that no other request uses, and the channel that gets the answer.
func (c *conn) reserveTag() (uint32, chan []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if c.lastTag++; c.lastTag < codec.TagFirstDynamic {
			c.lastTag = codec.TagFirstDynamic
		}
		if _, taken := c.waiting[c.lastTag]; !taken {
			answer := make(chan []byte, 1)
			c.waiting[c.lastTag] = answer
			return c.lastTag, answer
		}
	}
}

// releaseTag ends the wait for an answer, which is dropped if it still comes.
func (c *conn) releaseTag(tag uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, tag)
}

// handAnswer gives an answer to the request that waits for it.
func (c *conn) handAnswer(tag uint32, body []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer, ok := c.waiting[tag]; ok {
		delete(c.waiting, tag)
		answer <- body
	}
}

func (c *conn) read() {
	defer close(c.gone)
	defer func() { _ = c.nc.Close() }() // the connection is of no more use
	frames := codec.NewFrameReader(bufio.NewReader(c.nc), maxFrame)
	for {
		h, body, err := frames.Next()
		if err != nil {
			return
		}
		if h.Tag < codec.TagFirstDynamic {
			c.push(h.Tag, body)
			continue
		}
		c.handAnswer(h.Tag, body)
	}
}

func (c *conn) write() {
	for {
		select {
		case frame := <-c.out:
			if _, err := c.nc.Write(frame); err != nil {
				_ = c.nc.Close() // ends the reader
				return
			}
		case <-c.gone:
			return
		}
	}
}

// close ends the connection and its goroutines.
func (c *conn) close() {
	_ = c.nc.Close() // there is nothing left to send
	c.wg.Wait()
}
