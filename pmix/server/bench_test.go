package server

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/goshmem/goshmem/pmix/codec"
)

// blobSize is roughly what an Open MPI rank commits for others on its node.
const blobSize = 4200

// peer is a client with little overhead: its requests are encoded once, and of answers only the length is read.
type peer struct {
	nc  net.Conn
	in  *bufio.Reader
	buf []byte
}

func (p *peer) roundTrip(frame []byte) error {
	if _, err := p.nc.Write(frame); err != nil {
		return err
	}
	if _, err := io.ReadFull(p.in, p.buf[:codec.HeaderSize]); err != nil {
		return err
	}
	_, err := p.in.Discard(int(binary.BigEndian.Uint32(p.buf[8:])))
	return err
}

func request(b testing.TB, r codec.Request) []byte {
	b.Helper()
	body, err := codec.AppendRequest(nil, r)
	if err != nil {
		b.Fatal(err)
	}
	return codec.AppendFrame(nil, 0, codec.TagFirstDynamic, body)
}

// peers starts a server with n clients that have committed.
func peers(b *testing.B, n int) []*peer {
	b.Helper()
	s, err := Start(Config{Job: testJob(n)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	e := codec.NewEncoder(nil)
	e.KValGroup(codec.KVal{Key: "btl", Value: codec.BytesValue(make([]byte, blobSize))})
	commit := request(b, &codec.CommitRequest{Blobs: []codec.ScopedBlob{{Scope: codec.ScopeLocal, Data: e.Bytes()}}})
	out := make([]*peer, n)
	for i := range out {
		nc := claimBench(b, s, codec.Rank(i))
		out[i] = &peer{nc: nc, in: bufio.NewReaderSize(nc, 64<<10), buf: make([]byte, codec.HeaderSize)}
		if err := out[i].roundTrip(commit); err != nil {
			b.Fatal(err)
		}
	}
	return out
}

func claimBench(b *testing.B, s *Server, rank codec.Rank) net.Conn {
	b.Helper()
	nc, err := net.Dial("tcp", s.ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = nc.Close() })
	h := codec.NewHandshake(codec.Proc{Nspace: testNspace, Rank: rank}, codec.SecurityNone, nil)
	if _, err := nc.Write(codec.AppendHandshake(nil, h)); err != nil {
		b.Fatal(err)
	}
	if _, err := io.ReadFull(nc, make([]byte, codec.HandshakeReplySize)); err != nil {
		b.Fatal(err)
	}
	return nc
}

// each makes all clients do something concurrently.
func each(b *testing.B, clients []*peer, do func(*peer) error) {
	b.Helper()
	var wg sync.WaitGroup
	for _, p := range clients {
		wg.Go(func() {
			if err := do(p); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
}

func BenchmarkFence(b *testing.B) {
	for _, n := range []int{2, 32, 128} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			clients := peers(b, n)
			frame := request(b, fenceOf(codec.RankWildcard))
			b.ReportAllocs()
			b.ResetTimer()
			each(b, clients, func(p *peer) error {
				for range b.N {
					if err := p.roundTrip(frame); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// BenchmarkGets makes every process get the data of every other one: a round is n times n requests.
func BenchmarkGets(b *testing.B) {
	for _, n := range []int{2, 32, 128} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			clients := peers(b, n)
			frames := make([][]byte, n)
			for r := range frames {
				frames[r] = request(b, getOf(codec.Rank(r), "btl"))
			}
			b.ReportAllocs()
			b.ResetTimer()
			each(b, clients, func(p *peer) error {
				for range b.N {
					for _, frame := range frames {
						if err := p.roundTrip(frame); err != nil {
							return err
						}
					}
				}
				return nil
			})
		})
	}
}
