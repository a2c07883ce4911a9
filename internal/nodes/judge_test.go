package nodes

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/goshmem/goshmem/detector"
	"github.com/goshmem/goshmem/detector/ring"
	"github.com/goshmem/goshmem/detector/view"
)

// A node that answers the front end by its link lives, also if it has answered datagrams before and now does not.
func TestLinkAnswerCounts(t *testing.T) {
	t.Parallel()
	open := func() *net.UDPConn {
		c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	deaf := open() // nobody reads it
	defer deaf.Close()
	at := deaf.LocalAddr().(*net.UDPAddr).AddrPort()
	timing := ring.TimingOf(ring.Kernel, int64(100*time.Millisecond))
	timing.Verify = int64(100 * time.Millisecond)
	p, err := detector.NewProber(detector.ProberConfig{Socket: open(), Peers: []detector.Peer{{Responder: at, Detector: at}}, Timing: timing})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	j := &judge{
		timing: timing, prober: p, began: time.Now(), started: []*member{{}}, waits: map[uint32]chan struct{}{},
		wake: make(chan struct{}, 1), reached: []bool{true}, silent: make([]bool, 1), fenced: make([]bool, 1),
	}
	j.life, j.end = context.WithCancel(t.Context())
	defer j.end()
	for k := range uint32(20) {
		number, began, told, over := k+1|judgeBit, time.Now(), make(chan time.Time, 1), make(chan struct{})
		go func() {
			defer close(told)
			for !j.isWaiting(number) {
				select {
				case <-over: // this goroutine had no processor meanwhile
					return
				case <-time.After(time.Millisecond):
				}
			}
			j.takeProbed(number)
			told <- time.Now()
		}()
		found := j.probe(0)
		close(over)
		if at, ok := <-told; ok && found != view.Answered && at.Sub(began) < time.Duration(timing.Verify) {
			t.Fatalf("probe %d: %v though the node has answered by its link after %v", k, found, at.Sub(began))
		}
	}
}

// isWaiting says whether a question by a link waits for its answer.
func (j *judge) isWaiting(number uint32) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.waits[number] != nil
}
