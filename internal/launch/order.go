package launch

import (
	"slices"
	"time"

	"github.com/goshmem/goshmem/internal/daemon"
)

// order keeps ends in the order of their causes. A process that dies loses its
// connection first, which fails the fences of others: under load those may be
// seen to end before it is.
type order struct {
	parting []daemon.ID    // PEs that have lost their connection and are about to end, in that order
	held    []daemon.Event // ends of others meanwhile
}

// parts notes that a PE has lost its connection.
func (r *run) parts(id daemon.ID) {
	if gone := r.gone[id.Job]; id.PE < len(gone) && !gone[id.PE] && !r.fallen[id] && !slices.Contains(r.order.parting, id) {
		r.order.parting = append(r.order.parting, id)
	}
}

// ended judges the end of a process, or puts that off until it is known how those
// ended that were about to before.
func (r *run) ended(e daemon.Event) {
	first := len(r.order.parting) == 0 || r.order.parting[0] == e.ID
	if _, failed := judge(e, 0); failed && !first && !r.ending {
		r.order.held = append(r.order.held, e)
	} else {
		r.exited(e, e.At.Round(time.Millisecond))
	}
	r.parted(e.ID)
}

// parted notes that nothing more is expected of a PE that was about to end.
func (r *run) parted(id daemon.ID) {
	o := &r.order
	o.parting = slices.DeleteFunc(o.parting, func(other daemon.ID) bool { return other == id })
	if len(o.parting) > 0 {
		return
	}
	held := o.held
	o.held = nil
	for _, e := range held {
		r.exited(e, e.At.Round(time.Millisecond))
	}
}
