package remote

import (
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
)

// Peer is the other side of a connection.
type Peer interface {
	// Send sends a frame. It never waits, and keeps the order. The other side gets each frame once, or
	// the connection is lost. The frame's body belongs to the peer from now on. Send may be called by
	// several goroutines at once.
	Send(f wire.Frame)
}

// Node is what a Server runs, and what a Client is: a launch.Node, where the methods are explained.
type Node interface {
	Launch() error
	Close() error
	Events() <-chan daemon.Event
	PID(id daemon.ID) int
	Signal(sig syscall.Signal)
	Suspend()
	Stopped() bool
	Resize(w xunix.Window)
	Feed(c daemon.Chunk)
	Refuse()
	Forsake(id daemon.ID) bool
	Ask(o wire.Order, atMost time.Duration) []daemon.Answer
	HasGo(id daemon.ID) bool
	QuitGo(id daemon.ID, atMost time.Duration)
	FarFailed(f daemon.FarFailure) error
	Tier() string
	ToolURI() string
}
