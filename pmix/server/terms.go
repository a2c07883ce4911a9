package server

import (
	"errors"
	"fmt"

	"github.com/goshmem/goshmem/pmix/kvs"
	"github.com/goshmem/goshmem/pmix/wire"
)

// readTerms reads what the directives of a publish, lookup or unpublish say, with the standard's defaults.
//
//   - Errors: a directive that makes no sense or is not served; the status is what the client gets.
func readTerms(infos []wire.Info) (t kvs.Terms, status wire.Status, err error) {
	t = kvs.Terms{Range: wire.RangeSession, Persist: wire.PersistApp}
	for _, info := range infos {
		if status, err := readTerm(&t, info); err != nil {
			return t, status, err
		}
	}
	switch {
	case t.Range == wire.RangeUndef:
		t.Range = wire.RangeSession
	case t.Range == wire.RangeRM || t.Range > wire.RangeProcLocal:
		return t, wire.StatusErrParamValueNotSupported, fmt.Errorf("range %d, want one that processes can be in", t.Range)
	case t.Range == wire.RangeCustom && len(t.Members) == 0:
		return t, wire.StatusErrBadParam, fmt.Errorf("custom range without %s, want the processes", wire.KeyEventCustomRange)
	case len(t.Members)+len(t.Users) > maxRangeMembership:
		return t, wire.StatusErrOutOfResource, fmt.Errorf("%d processes and users named, want at most %d",
			len(t.Members)+len(t.Users), maxRangeMembership)
	}
	return t, wire.StatusSuccess, nil
}

func readTerm(t *kvs.Terms, info wire.Info) (wire.Status, error) {
	ok := true
	switch info.Key {
	case wire.KeyRange:
		var n uint8
		n, ok = small(info.Value)
		t.Range = wire.Range(n)
	case wire.KeyPersistence:
		var n uint8
		n, ok = small(info.Value)
		t.Persist = wire.Persistence(n)
		ok = ok && t.Persist <= wire.PersistSession
	case wire.KeyEventCustomRange:
		t.Members, ok = info.Value.Procs()
	case wire.KeyAccessPermissions:
		return readAccess(t, info.Value)
	case wire.KeyAccessUserIDs:
		t.Users, ok = users(info.Value)
	case wire.KeyAccessGroupIDs:
		return wire.StatusErrParamValueNotSupported, errors.New("access by group, which a reader cannot prove")
	}
	if !ok {
		return wire.StatusErrBadParam, fmt.Errorf("%s is %v, want a value that it can have", info.Key, info.Value)
	}
	return wire.StatusSuccess, nil
}

func readAccess(t *kvs.Terms, v wire.Value) (wire.Status, error) {
	infos, ok := v.Infos()
	if !ok {
		return wire.StatusErrBadParam, fmt.Errorf("%s is %v, want an array of infos", wire.KeyAccessPermissions, v)
	}
	for _, info := range infos {
		if info.Key == wire.KeyAccessPermissions { // it does not nest
			continue
		}
		if status, err := readTerm(t, info); err != nil {
			return status, err
		}
	}
	return wire.StatusSuccess, nil
}

// small reads a number below 256, however it was sent: Open MPI sends ranges and persistence as int.
func small(v wire.Value) (uint8, bool) {
	if r, ok := v.Data.(wire.Range); ok {
		return uint8(r), true
	}
	n, ok := v.Uint64()
	return uint8(n), ok && n < 256
}

func users(v wire.Value) ([]uint32, bool) {
	a, ok := v.Data.(wire.Array)
	if !ok {
		return nil, false
	}
	out := make([]uint32, 0, len(a.Elems))
	for _, elem := range a.Elems {
		uid, ok := elem.(uint32)
		if !ok {
			return nil, false
		}
		out = append(out, uid)
	}
	return out, true
}
