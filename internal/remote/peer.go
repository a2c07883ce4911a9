package remote

import "github.com/goshmem/goshmem/internal/wire"

// Peer is the other side of a connection.
type Peer interface {
	// Send sends a frame. It never waits, and keeps the order. The other side gets each frame once, or
	// the connection is lost. The frame's body belongs to the peer from now on. Send may be called by
	// several goroutines at once.
	Send(f wire.Frame)
}
