package launch

import (
	"slices"
	"time"

	"github.com/goshmem/goshmem/internal/daemon"
)

// endOrder keeps ends in the order of their causes. A process that dies loses its
// connection first, which fails the fences of other PEs. Under load those other
// PEs may be seen to end before the process that caused it.
type endOrder struct {
	parting []daemon.ID    // PEs that have lost their connection and are about to end, first lost first
	held    []daemon.Event // ends of other PEs, held back until all of parting have ended
}

// noteParting notes that a PE has lost its connection.
func (r *run) noteParting(id daemon.ID) {
	if gone := r.gone[id.Job]; id.PE < len(gone) && !gone[id.PE] && !r.fallen[id] && !slices.Contains(r.order.parting, id) {
		r.order.parting = append(r.order.parting, id)
	}
}

// reportInOrder reports the end of a PE. It holds a failure back while a PE that has lost its
// connection before is about to end.
func (r *run) reportInOrder(e daemon.Event) {
	first := len(r.order.parting) == 0 || r.order.parting[0] == e.ID
	if _, failed := failureOf(e, 0); failed && !first && !r.ending {
		r.order.held = append(r.order.held, e)
	} else {
		r.reportEnd(e, e.At.Round(time.Millisecond))
	}
	r.noteParted(e.ID)
}

// noteParted notes that nothing more is expected of a PE that was about to end. The last such PE
// releases the ends that were held back.
func (r *run) noteParted(id daemon.ID) {
	o := &r.order
	o.parting = slices.DeleteFunc(o.parting, func(other daemon.ID) bool { return other == id })
	if len(o.parting) > 0 {
		return
	}
	held := o.held
	o.held = nil
	for _, e := range held {
		r.reportEnd(e, e.At.Round(time.Millisecond))
	}
}
