package coll

import (
	"context"
	"slices"
	"sync/atomic"
	"unsafe"
)

// Call is what a member is about to call, for Compare.
type Call struct {
	Text    string    // the collective and its arguments, as a message names them; not empty
	Objects [2]uint64 // arguments that are not in Text: offsets of destination and source
	Refused bool      // this member does not enter the collective: its arguments are bad
	GaveUp  bool      // of Callers: the member has given the team up while it waited for the others
}

// Callers are the members that are about to call the same.
type Callers struct {
	Call          // of the first of them; Text may be cut, and is empty of a call that Compare was not told of
	Members []int // ascending
}

// callRecord is what Compare puts into a cell. Its owner alone writes it, before it enters the step.
// The owner may add the bit callGaveUp later.
type callRecord struct {
	seq     uint64
	check   uint64 // complement of seq and the kind of record: what other collectives put there does not look so
	hash    uint64 // of the whole text
	objects [2]uint64
	state   uint64 // length of the text as far as there is room for it, and callRefused, callGaveUp
	text    [callText]byte
}

const (
	callRefused = 1 << 63
	callGaveUp  = 1 << 62
	callLength  = 1<<32 - 1

	ofCall = 0x6f6663616c6c // the kind, as with offers

	callBytes = int(unsafe.Sizeof(callRecord{}))
	callText  = cellSize - 48 // what is left of a cell by the other fields
	cut       = "..."         // ends a text that is longer
)

// Compare tells all members what this one is about to call. It returns nil if all call the
// same. Otherwise it returns who calls what, most members first, the same on all members; the
// team goes on.
//
// Members that compare before each collective find every difference before it does harm: they
// are all in the same step when they compare, as they have compared before. A member that is in
// a collective instead has not written such a record in this step, and its Text is empty.
//
// A member whose Call is Refused differs from all others. Whether two refuse alike says nothing.
//
// A member whose wait is ended by ctx gives the team up. It says so in its record before it marks
// its arrival word. A member that enters the step afterwards finds that, and knows that the first
// one may well call the same next.
//
//   - Errors: as Sync. On a tolerant team, the members that have died are in no list.
func (t *Team) Compare(ctx context.Context, c Call) (all []Callers, err error) {
	seq, err := t.beginCollective(1)
	if err != nil {
		return nil, err
	}
	defer t.endCollective(&err)
	to, err := t.awaitPlace(ctx, seq, callBytes)
	if err != nil {
		return nil, err
	}
	mine := (*callRecord)(to)
	*(*callRecord)(to) = c.encode(seq)
	if err := t.meet(ctx, seq); err != nil {
		atomic.OrUint64(&mine.state, callGaveUp)
		return nil, err
	}
	of := comparison{t, seq}
	for _, i := range t.contributors(seq) {
		if r := of.recordOf(i); !r.same(mine) {
			return of.groupCallers(), nil
		}
	}
	return nil, nil
}

// encode returns the record of a call in step seq.
func (c *Call) encode(seq uint64) callRecord {
	r := callRecord{seq: seq, check: ^seq ^ ofCall, hash: textHash(c.Text), objects: c.Objects}
	r.state = uint64(copy(r.text[:], c.Text))
	if c.Refused {
		r.state |= callRefused
	}
	if len(c.Text) > callText {
		copy(r.text[callText-len(cut):], cut)
	}
	return r
}

// textHash is FNV-1a. Texts that differ only behind the room of a record have different hashes.
func textHash(s string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	return h
}

// comparison is a Compare whose step all members have entered.
type comparison struct {
	t   *Team
	seq uint64
}

// recordOf returns where member i's record is.
func (of comparison) recordOf(i int) *callRecord {
	return (*callRecord)(of.t.contributionOf(i, of.seq, callBytes))
}

// same says whether two members call the same.
func (r *callRecord) same(o *callRecord) bool {
	return r.seq == o.seq && r.check == o.check && r.hash == o.hash && r.objects == o.objects &&
		(atomic.LoadUint64(&r.state)^atomic.LoadUint64(&o.state))&callRefused == 0
}

// decode returns the call that a record of step seq tells of.
func (r *callRecord) decode(seq uint64) Call {
	if r.seq != seq || r.check != ^seq^ofCall {
		return Call{}
	}
	state := atomic.LoadUint64(&r.state)
	return Call{
		Text: string(r.text[:min(state&callLength, callText)]), Objects: r.objects,
		Refused: state&callRefused != 0, GaveUp: state&callGaveUp != 0,
	}
}

// groupCallers returns who calls what.
func (of comparison) groupCallers() (all []Callers) {
	var first []*callRecord // of each of all
	for _, i := range of.t.contributors(of.seq) {
		r := of.recordOf(i)
		c := r.decode(of.seq)
		k := 0
		for k < len(all) && (all[k].GaveUp != c.GaveUp || !first[k].same(r) && (all[k].Text != "" || c.Text != "")) {
			k++
		}
		if k == len(all) {
			all, first = append(all, Callers{Call: c}), append(first, r)
		}
		all[k].Members = append(all[k].Members, i)
	}
	slices.SortStableFunc(all, func(a, b Callers) int { return len(b.Members) - len(a.Members) })
	return all
}
