package kvs

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/pmix/codec"
)

// Party identifies a process to a board.
type Party struct {
	Proc codec.Proc
	Node uint32
	App  uint32
	UID  uint32
}

// Terms are a publisher's directives for its data, or a reader's for the publishers whose data it accepts.
type Terms struct {
	Range   codec.Range
	Members []codec.Proc // processes of a custom range; a wildcard rank stands for its namespace
	Persist codec.Persistence
	Users   []uint32 // users who may read, besides the publisher's own
}

// Notice is one published value.
type Notice struct {
	Terms
	Owner  Party
	Key    string
	Packed []byte // owner, key and value, packed for a reply
	size   int    // bytes that the notice counts for
	order  uint64 // number in the order of publication
	gone   bool   // the notice was dropped
}

// BoardLimits bound what publishers can make a board keep.
type BoardLimits struct {
	Keys  int // per process
	Bytes int // per process, keys and values together
	Total int // bytes of all processes together
}

// Board keeps published values by key. Unlike the data of a Store, published data has a range, belongs to no namespace,
// and may outlive its publisher. A Board is pure and not safe for concurrent use. Waiting for a key is up to the
// caller.
type Board struct {
	limits BoardLimits
	keys   map[string][]*Notice  // notices by key, in the order of publication
	used   map[codec.Proc]*usage // what each publisher uses
	total  int                   // bytes of all notices
	last   uint64                // order of the last notice
}

type usage struct{ keys, bytes int }

// Bytes that an element of a notice's terms counts for.
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
//   - Errors: PMIX_ERR_DUPLICATE_KEY for a key that is published to the same range already; PMIX_ERR_OUT_OF_RESOURCE;
//     the text names the limit.
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
	if err := b.checkRoom(owner.Proc, added); err != nil {
		return codec.StatusErrOutOfResource, err
	}
	for _, n := range added {
		b.add(n)
	}
	return codec.StatusSuccess, nil
}

// checkRoom checks that further notices of a publisher keep within the limits.
func (b *Board) checkRoom(owner codec.Proc, added []*Notice) error {
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

// overlaps returns a function that reports whether a name has a process in common with p. Both may have a wildcard
// rank.
func overlaps(p codec.Proc) func(codec.Proc) bool {
	return func(q codec.Proc) bool {
		return p.Nspace == q.Nspace &&
			(p.Rank == q.Rank || p.Rank == codec.RankWildcard || q.Rank == codec.RankWildcard)
	}
}

// reaches reports whether the range of t, as seen from one process, includes another process.
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

// width orders ranges from narrow to wide. Of several notices with one key, a reader gets the one with the narrowest
// range.
var width = map[codec.Range]int{
	codec.RangeProcLocal: 0, codec.RangeCustom: 1, codec.RangeNamespace: 2, codec.RangeLocal: 3, codec.RangeSession: 4,
	codec.RangeGlobal: 5,
}

// Find returns the notices that a reader sees under the given keys, at most one per key. Denied reports that a notice
// was left out because the reader's user may not read it. The caller must not change the notices.
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

// Read records that notices were handed out, and drops those that are to be read only once.
func (b *Board) Read(found []*Notice) {
	for _, n := range found {
		if n.Persist == codec.PersistFirstRead && !n.gone {
			b.drop(n.Key, func(m *Notice) bool { return m == n })
		}
	}
}

// Unpublish drops what owner has published under the given keys; without keys, everything. A defined range restricts it
// to that range. It returns how many of the keys were owner's, and how many belonged only to others whose data owner
// can read.
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

// ProcEnded drops the data that a process published for its own lifetime.
func (b *Board) ProcEnded(p codec.Proc) {
	if b.used[p] == nil {
		return
	}
	b.dropAll(func(n *Notice) bool { return n.Owner.Proc == p && n.Persist == codec.PersistProc })
}

// NodeEnded drops the data that the processes of a node published for their own lifetime.
func (b *Board) NodeEnded(node uint32) {
	b.dropAll(func(n *Notice) bool { return n.Owner.Node == node && n.Persist == codec.PersistProc })
}

// AppEnded drops the data published for the lifetime of an application.
func (b *Board) AppEnded(nspace string, app uint32) {
	b.dropAll(func(n *Notice) bool {
		return n.Owner.Proc.Nspace == nspace && n.Owner.App == app && n.Persist == codec.PersistApp
	})
}

// dropAll drops the notices for which over returns true.
func (b *Board) dropAll(over func(*Notice) bool) {
	for key := range b.keys {
		b.drop(key, over)
	}
}

// drop drops the notices of one key for which over returns true, and returns their number.
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
