package mpi

import "github.com/goshmem/goshmem/symheap/layout"

// requestTable has the requests that other processes know by number. A number is the index of an
// entry and the generation of its use, and is never 0. So an answer to a request that has ended, by
// a death or a context, is recognized as late.
//
// The share of a message is the one with the index of its entry. An entry whose share is lent to a
// receiver is not used again until the receiver has given the share back.
type requestTable struct {
	entries []tableEntry
	vacant  []uint32 // indexes of entries that can be used
}

// tableEntry is a place of a requestTable.
type tableEntry struct {
	r      *request // nil: it has ended
	gen    uint32   // uses of the entry so far
	lentTo int32    // PE that may look at the share, plus 1; 0: none
}

// assignNumber gives a request a number.
func (t *requestTable) assignNumber(r *request) uint64 {
	var i uint32
	if n := len(t.vacant); n > 0 {
		i, t.vacant = t.vacant[n-1], t.vacant[:n-1]
	} else {
		i = uint32(len(t.entries))
		t.entries = append(t.entries, tableEntry{})
	}
	entry := &t.entries[i]
	if entry.gen++; entry.gen == 0 { // after 2^32 uses: generation 0 would allow the number 0
		entry.gen = 1
	}
	entry.r = r
	r.number = uint64(entry.gen)<<32 | uint64(i)
	return r.number
}

// lookup returns the request with a number, or nil if it has ended.
func (t *requestTable) lookup(number uint64) *request {
	i := uint32(number)
	if int(i) >= len(t.entries) || t.entries[i].gen != uint32(number>>32) {
		return nil
	}
	return t.entries[i].r
}

// removeNumber takes the number from its request, which it returns, or nil if the request has ended.
func (t *requestTable) removeNumber(number uint64) *request {
	r := t.lookup(number)
	if r != nil {
		i := uint32(number)
		t.entries[i].r = nil
		if t.entries[i].lentTo == 0 {
			t.vacant = append(t.vacant, i)
		}
		r.number = 0
	}
	return r
}

// lend records that the share of a request's message is lent to a PE.
func (t *requestTable) lend(r *request, pe layout.PE) {
	t.entries[uint32(r.number)].lentTo = int32(pe) + 1
}

// endLoan takes back the share of the message with a number. The entry may be another request's by
// then: where Finalize waits for no rank, the next Init may find, and answer, a message of before.
func (t *requestTable) endLoan(number uint64) {
	i := uint32(number)
	if int(i) < len(t.entries) && t.entries[i].gen == uint32(number>>32) && t.entries[i].lentTo != 0 {
		t.clearLoan(i)
	}
}

// endLoans takes back all shares that are lent to the PEs that match.
func (t *requestTable) endLoans(match func(pe layout.PE) bool) {
	for i := range t.entries {
		if to := t.entries[i].lentTo; to != 0 && match(layout.PE(to)-1) {
			t.clearLoan(uint32(i))
		}
	}
}

// clearLoan ends the loan of an entry's share.
func (t *requestTable) clearLoan(i uint32) {
	t.entries[i].lentTo = 0
	if t.entries[i].r == nil {
		t.vacant = append(t.vacant, i)
	}
}
