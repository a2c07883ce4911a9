package remote

import (
	"sync"

	"github.com/goshmem/goshmem/internal/daemon"
)

// feeding knows what of standard input is under way to a node, so that its credit comes back even if
// the node does not.
type feeding struct {
	mu       sync.Mutex
	credit   func(daemon.Credit) // nil: nobody wants to know
	underWay map[int]int         // by stream: bytes
	gone     map[int]bool        // streams that nobody reads any more, and that was said
	lost     bool                // the node takes nothing more
}

// start sets what is called with credit.
func (f *feeding) start(credit func(daemon.Credit)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.credit, f.underWay, f.gone = credit, map[int]int{}, map[int]bool{}
}

// spend notes that a chunk goes to the node; false: the node is lost, and the credit is given back.
func (f *feeding) spend(c daemon.Chunk) bool {
	f.mu.Lock()
	lost, credit := f.lost, f.credit
	if !lost && f.underWay != nil {
		f.underWay[c.To] += len(c.Data)
	}
	f.mu.Unlock()
	if lost && credit != nil {
		credit(daemon.Credit{To: c.To, Bytes: len(c.Data), Gone: true})
	}
	return !lost
}

// giveBack passes credit of the node on.
func (f *feeding) giveBack(c daemon.Credit) {
	f.mu.Lock()
	credit := f.credit
	if f.lost || f.underWay == nil {
		credit = nil // lose has given it back, or nothing was fed
	} else {
		f.underWay[c.To] -= c.Bytes
		f.gone[c.To] = f.gone[c.To] || c.Gone
	}
	f.mu.Unlock()
	if credit != nil {
		credit(c)
	}
}

// lose gives back the credit of all that is under way: nobody reads any stream any more.
func (f *feeding) lose() {
	f.mu.Lock()
	var back []daemon.Credit
	if !f.lost && f.credit != nil {
		for to, n := range f.underWay {
			if n > 0 || !f.gone[to] {
				back = append(back, daemon.Credit{To: to, Bytes: n, Gone: true})
			}
		}
	}
	f.lost = true
	credit := f.credit
	f.mu.Unlock()
	for _, c := range back {
		credit(c)
	}
}
