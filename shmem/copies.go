package shmem

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/goshmem/goshmem/internal/parity"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Policy says how a Checkpoint keeps the objects of a PE for the time after its death.
type Policy struct {
	kind     policyKind
	distance int // Partner: 0: chosen
	data     int // Coded: stripes of each PE's objects
	parities int // Coded: how many PEs of a group may die
	newCode  func(data, parities int) (Code, error)
	dir      string // Files
}

// policyKind is a kind of Policy.
type policyKind uint8

const (
	policyNone policyKind = iota
	policyPartner
	policyParity
	policyFiles
)

// chunk is how many bytes of a stripe are computed at once.
const chunk = 128 << 10

// Partner has each PE keep a whole copy of another one's objects. Among the PEs that take part, ordered by their nodes, that is the
// one so many places further on. With 0, places are chosen so that it is on another node wherever no node has more than half of
// the PEs.
//
// Data is lost only if a PE and its partner die without a Commit between.
//
//   - Memory: twice the size of the objects.
//   - Cost of a commit: a put of the objects to the partner.
func Partner(distance int) Policy { return Policy{kind: policyPartner, distance: distance} }

// Code is the arithmetic of Coded for a group. Its methods are called by one goroutine at a time.
type Code = parity.Code

// XOR has groups of PEs keep parities of each other's objects: of each group one PE may die between two commits. The parity is the
// exclusive or. What else it does is that of Coded with group-1 stripes and one parity.
func XOR(group int) Policy { return Coded(group-1, 1, parity.XOR) }

// Coded has groups of data+parities PEs keep parities of each other's objects, by an erasure code that newCode makes for some numbers
// of stripes and of parities: see package erasure. Any parities PEs of a group may die between two commits. PEs of a group are on
// different nodes wherever no node has more PEs than there are groups.
//
// When PEs have died, groups are made anew of those that live. If they are fewer than a group, there is one smaller group, of at
// least data PEs, and more than parities.
//
//   - Memory: 2 * parities / (data - parities) times the size of the objects, and at most 2 * parities times.
//   - Cost of a commit: data * parities gets of a stripe, and the arithmetic.
func Coded(data, parities int, newCode func(data, parities int) (Code, error)) Policy {
	return Policy{kind: policyParity, data: data, parities: parities, newCode: newCode}
}

// Files has each PE write its objects to a file in a folder, which outlives the job: when the program is started anew, with as many PEs
// and the same objects, Restore reads them. For RestoreFrom, all PEs see the same folder.
//
//   - Memory: none, but a PE's own copies.
//   - Cost of a commit: a file, which is synchronized.
func Files(dir string) Policy { return Policy{kind: policyFiles, dir: dir} }

// check checks a policy for a job of npes PEs.
func (p *Policy) check(op string, npes int) error {
	switch {
	case p.kind == policyNone:
		return usage(op, ErrArgument, "the policy is the zero value, want Partner, XOR, Files or one of package erasure")
	case p.kind == policyPartner && (p.distance < 0 || p.distance >= npes && p.distance > 0):
		return usage(op, ErrArgument, "Partner(%d) of %d PEs, want 0 or less than the number of PEs", p.distance, npes)
	case p.kind == policyParity && (p.data < 1 || p.parities < 1 || p.data+p.parities > 256):
		return usage(op, ErrArgument, "%d stripes of data and %d parities, want 1 or more of each, and 256 at most together", p.data, p.parities)
	case p.kind == policyParity && p.newCode == nil:
		return usage(op, ErrArgument, "newCode is nil, want a function")
	case p.kind == policyParity && p.data+p.parities > npes:
		return usage(op, ErrArgument, "groups of %d PEs in a job of %d, want smaller ones", p.data+p.parities, npes)
	case p.kind == policyFiles:
		if info, err := os.Stat(p.dir); err != nil || !info.IsDir() {
			return usage(op, ErrArgument, "Files(%q): want a folder that exists", p.dir)
		}
	}
	return nil
}

// room returns how many bytes a PE keeps for others, of objects of size bytes.
func (p *Policy) room(size int) int {
	switch p.kind {
	case policyPartner:
		return size
	case policyParity:
		return p.parities * stripeOf(size, max(1, p.data-p.parities))
	}
	return 0
}

// stripeOf returns the length of a stripe of objects of size bytes.
func stripeOf(size, stripes int) int { return alignCopy((size + stripes - 1) / stripes) }

// keepers says which members keep copies of which. It is the same on all of them.
type keepers struct {
	order  []int           // the members, by their nodes in turn
	place  []int           // of each member in the order
	shift  int             // Partner: a member's copy is so many places further on
	groups []*parity.Group // Coded: of each group, or nil if there are too few members
}

// assign distributes the copies of members, whose nodes are given.
func (p *Policy) assign(nodes []int) (k keepers) {
	n := len(nodes)
	counts := map[int]int{}
	for i, node := range nodes {
		k.order = append(k.order, i)
		counts[node]++
	}
	slices.SortStableFunc(k.order, func(a, b int) int { return nodes[a] - nodes[b] })
	k.place = make([]int, n)
	for place, member := range k.order {
		k.place[member] = place
	}
	switch p.kind {
	case policyPartner:
		if k.shift = p.distance; k.shift == 0 {
			for _, c := range counts {
				k.shift = max(k.shift, c)
			}
			if k.shift >= n || len(counts) == 1 {
				k.shift = 1
			}
		}
		k.shift %= n
	case policyParity:
		groups := max(1, n/(p.data+p.parities))
		for g := range groups {
			size := (n - g + groups - 1) / groups
			code, err := parity.New(size, p.parities, p.newCode)
			if err != nil || size-p.parities < max(1, p.data-p.parities) {
				code = nil
			}
			k.groups = append(k.groups, code)
		}
	}
	return k
}

// keeperOf returns the member that keeps the copy of a member.
func (k *keepers) keeperOf(member int) int { return k.order[(k.place[member]+k.shift)%len(k.order)] }

// groupOf returns the group of a member, and its place in it.
func (k *keepers) groupOf(member int) (group, place int) {
	return k.place[member] % len(k.groups), k.place[member] / len(k.groups)
}

// memberOf returns the member at a place of a group.
func (k *keepers) memberOf(group, place int) int { return k.order[place*len(k.groups)+group] }

// lost returns the members whose objects nobody can tell, of those that are dead.
func (p *Policy) lost(k *keepers, dead func(member int) bool) (lost []int) {
	for m := range k.order {
		if !dead(m) {
			continue
		}
		switch p.kind {
		case policyPartner:
			if dead(k.keeperOf(m)) {
				lost = append(lost, m)
			}
		case policyParity:
			g, _ := k.groupOf(m)
			gone := 0
			for place := range k.groups[g].Size {
				if dead(k.memberOf(g, place)) {
					gone++
				}
			}
			if gone > p.parities {
				lost = append(lost, m)
			}
		}
	}
	return lost
}

// copyToOthers makes what this PE keeps for others, or what they keep for it, in an epoch.
func (k *Checkpoint) copyToOthers(op string, r *epochMembers) error {
	switch k.policy.kind {
	case policyPartner:
		if to := r.members[r.keepers.keeperOf(k.memberIn(r))]; to != k.h.me {
			c := k.c.With(k.ctx)
			return errors.Join(Put(c, k.keptAt(r.epoch), k.copyOf(r.epoch), int(to)), c.Quiet())
		}
		return nil
	case policyParity:
		return k.computeParities(op, r)
	case policyFiles:
		return k.writeFile(op, r)
	}
	return nil
}

// memberIn returns this PE's number among the members of a record.
func (k *checkpoint) memberIn(r *epochMembers) int { return slices.Index(r.members, k.h.me) }

// computeParities computes what this PE keeps for its group.
func (k *Checkpoint) computeParities(op string, r *epochMembers) error {
	group, me := r.keepers.groupOf(k.memberIn(r))
	code := r.keepers.groups[group]
	if code == nil {
		return usage(op, ErrArgument, "%d PEs live, too few for groups with %d stripes and %d parities; want %d at least", len(r.members), k.policy.data, k.policy.parities, k.policy.parities+max(1, k.policy.data-k.policy.parities))
	}
	s := k.newShards(r, group)
	for i := range code.Parities {
		row := code.ParityRow(me, i)
		for from := 0; from < s.stripe; from += chunk {
			n := min(chunk, s.stripe-from)
			for part := range code.Size {
				s.parts[part] = s.room[part][:n]
			}
			for part := range code.Data() {
				s.fetch(row, part, from)
			}
			if err := s.await(); err != nil {
				return err
			}
			if err := code.Encode(s.parts); err != nil {
				return fmt.Errorf("shmem.%s: %w", op, err)
			}
			copy(k.keptAt(r.epoch).Local()[i*s.stripe+from:], s.parts[code.Data()+i])
		}
	}
	return nil
}

// shards is the parts of a row, a chunk of each.
type shards struct {
	k      *Checkpoint
	c      *Ctx
	r      *epochMembers
	group  int
	code   *parity.Group
	stripe int // bytes of a stripe
	room   [][]byte
	parts  [][]byte // within room
	coming []Pending[[]byte]
	err    error
}

// newShards returns room for parts of the rows of a group.
func (k *Checkpoint) newShards(r *epochMembers, group int) *shards {
	code := r.keepers.groups[group]
	s := &shards{k: k, c: k.c.With(k.ctx), r: r, group: group, code: code, stripe: stripeOf(k.size, code.Data()), parts: make([][]byte, code.Size)}
	for range code.Size {
		s.room = append(s.room, make([]byte, min(chunk, s.stripe)))
	}
	return s
}

// holder returns the PE that has a part of a row.
func (s *shards) holder(row, part int) layout.PE {
	return s.r.members[s.r.keepers.memberOf(s.group, s.code.Holder(row, part))]
}

// fetch gets a part of a row from some byte on. What is behind the end of the objects is zero.
func (s *shards) fetch(row, part, from int) {
	at, area := from, s.k.keptAt(s.r.epoch)
	if part < s.code.Data() {
		at, area = at+part*s.stripe, s.k.ownAt(s.r.epoch)
	} else {
		at += (part - s.code.Data()) * s.stripe
	}
	dst := s.parts[part]
	n := max(0, min(len(dst), area.Len()-at))
	clear(dst[n:])
	if n > 0 {
		p, err := GetNBI(s.c, dst[:n], area.Slice(at, at+n), int(s.holder(row, part)))
		if err != nil {
			s.err = err
			return
		}
		s.coming = append(s.coming, p)
	}
}

// await waits until all that was fetched is there. Quiet would not say what is missing because its PE has died.
func (s *shards) await() error {
	err := s.err
	for _, p := range s.coming {
		if _, e := p.Wait(); err == nil {
			err = e
		}
	}
	s.coming, s.err = s.coming[:0], nil
	return err
}
