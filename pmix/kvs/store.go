// Package kvs stores what the processes of a job have put and committed, by rank and scope.
//
// It keeps values packed, as they arrived. For each process it keeps one packed answer per kind of reader (same node or
// another node), so that each of the n*n gets of a job costs one slice. The package is pure and not safe for concurrent
// use. Waiting for values that are still to come is up to the caller.
package kvs

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/goshmem/goshmem/pmix/codec"
)

// Reader is the place of a process that asks for data, relative to the process that put it.
type Reader int

// Readers of a process's data.
const (
	SameNode  Reader = iota // reads what was put with local and global scope
	OtherNode               // reads what was put with remote and global scope
	readers
)

// scopes is one more than the highest scope.
const scopes = int(codec.ScopeInternal) + 1

// Store holds the data of one namespace.
type Store struct {
	nspace string
	ranks  map[codec.Rank]*entry
}

// maxCommitted bounds what the store keeps of one process, in bytes of packed keys and values.
const maxCommitted = 64 << 20

// ErrFull reports that a process has committed too much.
var ErrFull = errors.New("limit of committed data reached")

type entry struct {
	scopes [scopes]pairs
	size   int
	cache  [readers][]byte // packed answers to a get; nil: to be built
}

// pairs are packed key-value groups in the order of their first commit.
type pairs struct {
	index map[string]int
	list  []pair
}

type pair struct {
	key    string
	packed []byte // the whole group
}

// New returns an empty store for the processes of nspace.
func New(nspace string) *Store {
	return &Store{nspace: nspace, ranks: map[codec.Rank]*entry{}}
}

// Commit adds packed key-value groups that rank has put with one scope; a key put again replaces its value.
//
//   - Errors: bytes that are not key-value groups, or an unknown scope; ErrFull. Nothing is stored then.
func (s *Store) Commit(rank codec.Rank, scope codec.Scope, packed []byte) error {
	if scope == codec.ScopeUndef || int(scope) >= scopes {
		return fmt.Errorf("pmix kvs: commit of rank %d: scope %d, want 1 to %d", rank, scope, scopes-1)
	}
	added, err := splitPairs(packed)
	if err != nil {
		return fmt.Errorf("pmix kvs: commit of rank %d: %w", rank, err)
	}
	e := s.ranks[rank]
	if e == nil {
		e = &entry{}
	}
	if e.size+len(packed) > maxCommitted { // a replaced value counts too: both are in memory for a moment
		return fmt.Errorf("pmix kvs: commit of rank %d: %d bytes in addition to %d, want at most %d in all: %w",
			rank, len(packed), e.size, maxCommitted, ErrFull)
	}
	s.ranks[rank] = e
	for _, p := range added {
		p.packed = bytes.Clone(p.packed) // so that a value does not keep the whole message in memory
		e.size += e.scopes[scope].set(p)
	}
	e.cache = [readers][]byte{}
	return nil
}

// splitPairs splits a sequence of key-value groups without copying them.
func splitPairs(packed []byte) ([]pair, error) {
	var out []pair
	d := codec.NewDecoder(packed)
	for d.More() {
		start := d.Offset()
		kv := d.KValGroup()
		out = append(out, pair{key: kv.Key, packed: packed[start:d.Offset()]})
	}
	return out, d.End()
}

// set adds a pair or replaces one, and returns the growth of the store in bytes.
func (p *pairs) set(v pair) int {
	if i, ok := p.index[v.key]; ok {
		old := len(p.list[i].packed)
		p.list[i] = v
		return len(v.packed) - old
	}
	if p.index == nil {
		p.index = map[string]int{}
	}
	p.index[v.key] = len(p.list)
	p.list = append(p.list, v)
	return len(v.packed)
}

func (p *pairs) get(key string) ([]byte, bool) {
	i, ok := p.index[key]
	if !ok {
		return nil, false
	}
	return p.list[i].packed, true
}

// visibleScopes returns the scopes that a reader sees, in the order in which they are packed and searched.
func visibleScopes(r Reader) [2]codec.Scope {
	if r == SameNode {
		return [2]codec.Scope{codec.ScopeLocal, codec.ScopeGlobal}
	}
	return [2]codec.Scope{codec.ScopeRemote, codec.ScopeGlobal}
}

// Committed reports whether rank has committed anything, even if no reader may see it.
func (s *Store) Committed(rank codec.Rank) bool { return s.ranks[rank] != nil }

// Has reports whether a reader finds the key; an empty key is found as soon as rank has committed.
func (s *Store) Has(rank codec.Rank, r Reader, key string) bool {
	if key == "" {
		return s.Committed(rank)
	}
	_, ok := s.packed(rank, r, key)
	return ok
}

func (s *Store) packed(rank codec.Rank, r Reader, key string) ([]byte, bool) {
	e := s.ranks[rank]
	if e == nil {
		return nil, false
	}
	for _, scope := range visibleScopes(r) {
		if p, ok := e.scopes[scope].get(key); ok {
			return p, true
		}
	}
	return nil, false
}

// Lookup returns one value; byte objects in it alias the store.
func (s *Store) Lookup(rank codec.Rank, r Reader, key string) (codec.Value, bool) {
	p, ok := s.packed(rank, r, key)
	if !ok {
		return codec.Value{}, false
	}
	d := codec.NewDecoder(p)
	kv := d.KValGroup()
	return kv.Value, d.End() == nil
}

// Reply returns the packed answer to a get: success and all of rank's data that the reader may see.
//
//   - Cost: built once per commit and kind of reader, shared by all; the caller must not change it.
func (s *Store) Reply(rank codec.Rank, r Reader) ([]byte, bool) {
	e := s.ranks[rank]
	if e == nil {
		return nil, false
	}
	if e.cache[r] == nil {
		data := s.export(rank, e, r)
		reply := codec.GetReply{Status: codec.StatusSuccess, Data: []codec.ProcData{data}}
		e.cache[r] = reply.Append(nil)
	}
	return e.cache[r], true
}

// Export returns rank's data as a reader sees it, in the form in which it travels between servers.
func (s *Store) Export(rank codec.Rank, r Reader) (codec.ProcData, bool) {
	e := s.ranks[rank]
	if e == nil {
		return codec.ProcData{}, false
	}
	return s.export(rank, e, r), true
}

func (s *Store) export(rank codec.Rank, e *entry, r Reader) codec.ProcData {
	data := codec.ProcData{Proc: codec.Proc{Nspace: s.nspace, Rank: rank}}
	for _, scope := range visibleScopes(r) {
		for _, p := range e.scopes[scope].list {
			data.Packed = append(data.Packed, p.packed...)
		}
	}
	return data
}
