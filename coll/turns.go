package coll

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/goshmem/goshmem/rma"
)

// # Who moves a block where PEs take turns
//
// To write to a cache line that another processor wrote last takes ten times as long as to write to one
// of its own. So the same processor is to move a block each time: the one on which the member is
// whose block it is. That member may be waiting there while another one has its turn, which then
// moves the block for it.
//
// The home of a member is the processor on which it entered the exchange before this one. All
// members find the same homes: each publishes its own in the word Home, for the next exchange, before it
// enters. Members of one home are mates. A member without a known home has no mate but itself.
//
// Of the block of member j for member i, with the mates of j, of which j is one:
//
//   - A mate moves it if it finds i and j in the first step, unless it finds that a mate does.
//   - Member i moves it if it finds all mates of j in the first step, unless it finds that a mate does.
//   - A member says in its word Part whom it has found, so which blocks it moves. It reads these words
//     of others before it writes its own. So no two members rely on each other.
//   - The last member of a home to enter lingers: nothing else can run there that would help. It looks
//     for members that enter, for a while. Member i leaves its block to a mate of j that lingers, as the
//     word Still says.
//
// Claim: if all members enter the second step, each block has been moved before. Let z be the last to
// enter the first step among i and the mates of j.
//
//   - z is a mate of j. It finds i and j, as the store by which it entered is sequentially consistent.
//     It moves the block, or another mate does.
//   - z is i alone. It finds all mates. It moves the block, or one of them does, or one lingers, and looks
//     again after the store that ends this. Of that store and its own look, and of z's entering and z's
//     look at the word Still, one finds the other.
//   - Member i leaves its block to mates that it does not find. Then it is not z.
//   - A member enters the second step when it has moved what it has to.
//
// If a member does not enter the second step, a block may be missing anywhere. A strict team fails then.
// Of a tolerant team, each survivor takes all blocks for itself before it enters a further
// step (rescueBlocks).
//
// No copy is wrong that is made twice: nobody leaves before all have entered the last step.
//
// # Whether homes pay
//
// Among members without homes, the later one of two moves both of their blocks. On some machines that takes half of the
// time: there a line that moves costs less than the looks at what others move. So the first member of the team measures
// runs of exchanges with homes and without, and keeps what is faster for a while. Its word Home tells the others which
// that is. Each member says by its own word, in which there is no home then, what it does. So nothing relies on all
// doing the same.

// mostTurns is how many members have a bit in the word of what they have found.
const mostTurns = 64

// lingerLooks is how often a member that lingers looks for others: about a microsecond.
const lingerLooks = 500

// homeFirst is the exchange of a period with which trials begin. While the kernel still spreads PEs over the processors,
// homes are wrong: exchanges of a job that has just begun take three to five times as long with them.
const homeFirst = 1024

// Of homePeriod exchanges, homeTrials are trials, with homes and without in runs of homeRun.
const (
	homeRun    = 8
	homeTrials = 8 * homeRun
	homePeriod = 64 * homeTrials
)

// homesPay is the bit of a half of the word Home by which the first member says that the team is to have homes.
const homesPay = 1 << 31

// homes is what a member knows of homes.
//
//   - Writes: this member's word Home.
//   - Reads: those of all members, which do not change while they are read.
type homes struct {
	of    []uint32 // of each member in this exchange; 0: it is not known
	begun uint64   // exchanges by turns that this member has begun on the team
	trial homeTrial
}

// homeTrial is what the first member of a team measures. Exchanges of one run may differ in size: what counts is that the
// runs are alike.
type homeTrial struct {
	run   time.Duration    // time in the exchanges of the run so far
	least [2]time.Duration // the quickest run with homes, and without; 0: there was none
	pays  bool             // homes were faster
}

// withHomes says whether exchange n is a trial, and then whether the team has homes in it.
func withHomes(n uint64) (trial, with bool) {
	n = n%homePeriod - homeFirst
	return n < homeTrials, n/homeRun%2 == 0
}

// add notes the time of exchange n, which was a trial.
func (h *homeTrial) add(n uint64, took time.Duration) {
	h.run += took
	n = n%homePeriod - homeFirst
	if n%homeRun < homeRun-1 {
		return
	}
	if least := &h.least[n/homeRun%2]; *least == 0 || h.run < *least {
		*least = h.run
	}
	h.run = 0
	if n == homeTrials-1 {
		h.pays = h.least[0] < h.least[1]
		h.least = [2]time.Duration{}
	}
}

// turn is one member's way through the first step of an exchange by turns.
//
//   - Writes: its own words Part and Still.
//   - Reads: these words and the arrival words of all members, and what they call.
type turn struct {
	*Team
	seq   uint64        // the step
	said  uint64        // what all members have to announce for it
	found uint64        // a bit for each member that was found in it and calls the same
	mates uint64        // a bit for each member of the same home, this one included
	began time.Duration // by clock, if this member measures the exchange
}

// begin comes before others can see this member in the step.
func (r *turn) begin() {
	rma.StoreRelease(r.progressOf(r.me), 0)
	h := &r.homes
	now, last := h.begun%2*32, (h.begun+1)%2*32 // where in the word Home the two exchanges have their halves
	rma.StoreRelease(&r.state.Home, r.state.Home>>last<<32>>32<<last|r.nextHome(last)<<now)
	if trial, _ := withHomes(h.begun); trial && r.me == 0 {
		r.began = clock()
	}
	if h.begun++; h.begun > 1 {
		for i, m := range r.members {
			h.of[i] = uint32(atomic.LoadUint64(&m.Teams[r.id].Home)>>last) &^ homesPay
		}
	}
	for i := range r.members {
		if r.areMates(i, r.me) {
			r.mates |= 1 << i
		}
	}
}

// nextHome returns what this member says of its home in the next exchange. The first member's words for this one are in the
// half last.
func (r *turn) nextHome(last uint64) (half uint64) {
	h := &r.homes
	with := h.begun > 0 && atomic.LoadUint64(&r.members[0].Teams[r.id].Home)>>last&homesPay != 0
	if trial, has := withHomes(h.begun + 1); trial {
		with = has
	}
	if with {
		half = uint64(rma.Processor())
	}
	if r.me == 0 && h.trial.pays {
		half |= homesPay
	}
	return half
}

// measure ends what begin has begun to measure.
func (r *turn) measure() {
	if r.began != 0 {
		r.homes.trial.add(r.homes.begun-1, clock()-r.began)
	}
}

// areMates says whether two members have one home.
func (r *turn) areMates(i, j int) bool {
	return i == j || r.homes.of[i] == r.homes.of[j] && r.homes.of[i] != 0
}

// missing has a bit for each member that was not found.
func (r *turn) missing() uint64 { return ^uint64(0) >> (64 - len(r.members)) &^ r.found }

// hasCome says whether member i can be found in the step.
func (r *turn) hasCome(i int) bool { return atomic.LoadUint64(r.word(i))&^marks >= r.seq }

// someCame says whether a member can be found that was missing.
func (r *turn) someCame() bool {
	for w := r.missing(); w != 0; w &= w - 1 {
		if r.hasCome(bits.TrailingZeros64(w)) {
			return true
		}
	}
	return false
}

// look finds members, and fails if one of them calls anything else.
func (r *turn) look() error {
	for w := r.missing(); w != 0; w &= w - 1 {
		i := bits.TrailingZeros64(w)
		if !r.hasCome(i) {
			continue
		}
		if err := r.checkCallOf(i, r.said); err != nil {
			return err
		}
		r.found |= 1 << i
	}
	return nil
}

// leftOf has a bit for each member for which no mate moves the block of member j, who is a mate.
func (r *turn) leftOf(j int) uint64 {
	left := r.found
	for w := r.mates & r.found; w != 0; w &= w - 1 {
		if has := atomic.LoadUint64(r.progressOf(bits.TrailingZeros64(w))); has&(1<<j) != 0 {
			left &^= has
		}
	}
	return left
}

// canLeave says whether a mate of member j, who is none of this member's, moves that member's block for this one.
func (r *turn) canLeave(j int) bool {
	both := uint64(1)<<j | 1<<r.me
	for i := range r.members {
		if !r.areMates(i, j) {
			continue
		}
		if r.found&(1<<i) == 0 || atomic.LoadUint64(r.stillOf(i)) == r.seq || atomic.LoadUint64(r.progressOf(i))&both == both {
			return true
		}
	}
	return false
}

// lingers says whether this member is to linger: it is the last one at its home, and others are missing.
func (r *turn) lingers() bool {
	return r.homes.of[r.me] != 0 && r.mates&^r.found == 0 && r.missing() != 0
}

// stillOf returns the word Still of member i.
func (r *turn) stillOf(i int) *uint64 { return &r.members[i].Teams[r.id].Still }
