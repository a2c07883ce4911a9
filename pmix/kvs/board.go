package kvs

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/pmix/codec"
)

// Party is a process in its dealings with a board.
type Party struct {
	Proc codec.Proc
	Node uint32
	App  uint32
	UID  uint32
}

// Terms are what a publisher says about data, or what a reader says about the publishers whose data it wants.
type Terms struct {
	Range   codec.Range
	Members []codec.Proc // of a custom range; a wildcard rank stands for its namespace
	Persist codec.Persistence
	Users   []uint32 // who may read besides the publisher's own user
}

// Notice is one published value.
type Notice struct {
	Terms
	Owner  Party
	Key    string
	Packed []byte // the owner, key and value, as they are sent
	size   int    // what it counts for
	order  uint64
	gone   bool
}

// BoardLimits bound what publishers can make a board keep.
type BoardLimits struct {
	Keys  int // per process
	Bytes int // per process, keys and values together
	Total int // bytes of all processes together
}

// Board keeps what processes have published, by key. Unlike the data of a Store it has a range, belongs to no namespace,
// and may outlive its publisher. It is pure and not safe for concurrent use; who waits for a key is its caller's business.
type Board struct {
	limits BoardLimits
	keys   map[string][]*Notice // in the order of publication
	used   map[codec.Proc]*usage
	total  int
	last   uint64
}

type usage struct{ keys, bytes int }

// What an element of a notice's terms counts for, in bytes.
const (
	memberSize = 64
	userSize   = 4
)

// NewBoard returns an empty board.
func NewBoard(limits BoardLimits) *Board {
	return &Board{limits: limits, keys: map[string][]*Notice{}, used: map[codec.Proc]*usage{}}
}

// Publish adds keys and values, all of them or none.
//
//   - Errors: PMIX_ERR_DUPLICATE_KEY for a key that is published to the same range already; PMIX_ERR_OUT_OF_RESOURCE; the
//     text says which.
func (b *Board) Publish(owner Party, terms Terms, data []codec.KVal) (codec.Status, error) {
	var added []*Notice
	for _, kv := range data {
		n := &Notice{Terms: terms, Owner: owner, Key: kv.Key}
		clash := func(m *Notice) bool { return m.Key == n.Key && n.clashes(m) }
		if slices.ContainsFunc(b.keys[kv.Key], clash) || slices.ContainsFunc(added, clash) {
			return codec.StatusErrDuplicateKey, fmt.Errorf("key %.64q is published already", kv.Key)
		}
		data := codec.PData{Proc: owner.Proc, Key: kv.Key, Value: kv.Value}
		var err error
		if n.Packed, err = data.Append(nil); err != nil {
			return codec.StatusErrBadParam, err
		}
		n.size = len(n.Packed) + memberSize*len(terms.Members) + userSize*len(terms.Users)
		added = append(added, n)
	}
	if err := b.room(owner.Proc, added); err != nil {
		return codec.StatusErrOutOfResource, err
	}
	for _, n := range added {
		b.add(n)
	}
	return codec.StatusSuccess, nil
}

func (b *Board) room(owner codec.Proc, added []*Notice) error {
	var now usage
	if u := b.used[owner]; u != nil {
		now = *u
	}
	bytes := 0
	for _, n := range added {
		bytes += n.size
	}
	switch {
	case now.keys+len(added) > b.limits.Keys:
		return fmt.Errorf("%v has published %d keys, and %d more would pass the limit of %d", owner, now.keys, len(added), b.limits.Keys)
	case now.bytes+bytes > b.limits.Bytes:
		return fmt.Errorf("%v has published %d bytes, and %d more would pass the limit of %d", owner, now.bytes, bytes, b.limits.Bytes)
	case b.total+bytes > b.limits.Total:
		return fmt.Errorf("%d bytes are published, and %d more would pass the limit of %d", b.total, bytes, b.limits.Total)
	default:
		return nil
	}
}

func (b *Board) add(n *Notice) {
	b.last++
	n.order = b.last
	b.keys[n.Key] = append(b.keys[n.Key], n)
	u := b.used[n.Owner.Proc]
	if u == nil {
		u = &usage{}
		b.used[n.Owner.Proc] = u
	}
	u.keys++
	u.bytes += n.size
	b.total += n.size
}

// clashes reports whether two notices with one key have one range.
func (n *Notice) clashes(m *Notice) bool {
	if n.Range != m.Range || n.Owner.UID != m.Owner.UID {
		return false
	}
	switch n.Range {
	case codec.RangeProcLocal:
		return n.Owner.Proc == m.Owner.Proc
	case codec.RangeLocal:
		return n.Owner.Node == m.Owner.Node
	case codec.RangeNamespace:
		return n.Owner.Proc.Nspace == m.Owner.Proc.Nspace
	case codec.RangeCustom:
		return slices.ContainsFunc(n.Members, func(p codec.Proc) bool { return slices.ContainsFunc(m.Members, overlaps(p)) })
	default:
		return true
	}
}

// overlaps returns whether a name, either of which may have a wildcard rank, has a process in common with p.
func overlaps(p codec.Proc) func(codec.Proc) bool {
	return func(q codec.Proc) bool {
		return p.Nspace == q.Nspace &&
			(p.Rank == q.Rank || p.Rank == codec.RankWildcard || q.Rank == codec.RankWildcard)
	}
}

// reaches reports whether a range that one process names, with its members, holds another one.
func (t *Terms) reaches(from, to *Party) bool {
	switch t.Range {
	case codec.RangeProcLocal:
		return from.Proc == to.Proc
	case codec.RangeLocal:
		return from.Node == to.Node
	case codec.RangeNamespace:
		return from.Proc.Nspace == to.Proc.Nspace
	case codec.RangeCustom:
		return slices.ContainsFunc(t.Members, overlaps(to.Proc))
	case codec.RangeUndef, codec.RangeSession, codec.RangeGlobal:
		return true
	default:
		return false
	}
}

func (n *Notice) permits(uid uint32) bool {
	return n.Owner.UID == uid || slices.Contains(n.Users, uid)
}

// width orders ranges from narrow to wide: of several notices with one key a reader gets the one meant for the fewest.
var width = map[codec.Range]int{
	codec.RangeProcLocal: 0, codec.RangeCustom: 1, codec.RangeNamespace: 2, codec.RangeLocal: 3, codec.RangeSession: 4,
	codec.RangeGlobal: 5,
}

// Find returns what a reader sees under the given keys, one notice a key at most; denied says that there is one which
// the reader's user may not read. The notices must not be changed.
func (b *Board) Find(reader Party, from Terms, keys []string) (found []*Notice, denied bool) {
	for _, key := range keys {
		var best *Notice
		for _, n := range b.keys[key] {
			if !n.reaches(&n.Owner, &reader) || !from.reaches(&reader, &n.Owner) {
				continue
			}
			if !n.permits(reader.UID) {
				denied = true
				continue
			}
			if best == nil || cmp.Or(cmp.Compare(width[n.Range], width[best.Range]), cmp.Compare(n.order, best.order)) < 0 {
				best = n
			}
		}
		if best != nil {
			found = append(found, best)
		}
	}
	return found, denied
}

// Read says that notices have been handed out; those meant to be read once are dropped.
func (b *Board) Read(found []*Notice) {
	for _, n := range found {
		if n.Persist == codec.PersistFirstRead && !n.gone {
			b.drop(n.Key, func(m *Notice) bool { return m == n })
		}
	}
}

// Unpublish drops what owner has published under the given keys, all keys when there is none; a defined range restricts
// it to that range. It returns how many of the keys were owner's, and how many were only others' whom owner can read.
func (b *Board) Unpublish(owner Party, rng codec.Range, keys []string) (own, others int) {
	if len(keys) == 0 {
		b.dropAll(func(n *Notice) bool { return n.Owner.Proc == owner.Proc && (rng == codec.RangeUndef || n.Range == rng) })
		return 0, 0
	}
	for _, key := range keys {
		dropped := b.drop(key, func(n *Notice) bool {
			return n.Owner.Proc == owner.Proc && (rng == codec.RangeUndef || n.Range == rng)
		})
		if dropped > 0 {
			own++
			continue
		}
		if found, _ := b.Find(owner, Terms{Range: rng}, []string{key}); len(found) > 0 && found[0].Owner.Proc != owner.Proc {
			others++
		}
	}
	return own, others
}

// ProcEnded drops what was to stay as long as its publisher.
func (b *Board) ProcEnded(p codec.Proc) {
	if b.used[p] == nil {
		return
	}
	b.dropAll(func(n *Notice) bool { return n.Owner.Proc == p && n.Persist == codec.PersistProc })
}

// AppEnded drops what was to stay as long as its publisher's application.
func (b *Board) AppEnded(nspace string, app uint32) {
	b.dropAll(func(n *Notice) bool {
		return n.Owner.Proc.Nspace == nspace && n.Owner.App == app && n.Persist == codec.PersistApp
	})
}

func (b *Board) dropAll(over func(*Notice) bool) {
	for key := range b.keys {
		b.drop(key, over)
	}
}

func (b *Board) drop(key string, over func(*Notice) bool) int {
	before := len(b.keys[key])
	kept := slices.DeleteFunc(b.keys[key], func(n *Notice) bool {
		if !over(n) {
			return false
		}
		n.gone = true
		b.total -= n.size
		u := b.used[n.Owner.Proc]
		u.keys--
		u.bytes -= n.size
		if u.keys == 0 {
			delete(b.used, n.Owner.Proc)
		}
		return true
	})
	b.keys[key] = kept
	if len(kept) == 0 {
		delete(b.keys, key)
	}
	return before - len(kept)
}
