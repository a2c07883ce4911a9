package server

import (
	"errors"
	"fmt"

	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/kvs"
)

// readTerms reads what the directives of a publish, lookup or unpublish say, with the standard's defaults.
//
//   - Errors: a directive that is invalid or not served; the status is the client's answer.
func readTerms(infos []codec.Info) (t kvs.Terms, status codec.Status, err error) {
	t = kvs.Terms{Range: codec.RangeSession, Persist: codec.PersistApp}
	for _, info := range infos {
		if status, err := readTerm(&t, info); err != nil {
			return t, status, err
		}
	}
	switch {
	case t.Range == codec.RangeUndef:
		t.Range = codec.RangeSession
	case t.Range == codec.RangeRM || t.Range > codec.RangeProcLocal:
		return t, codec.StatusErrParamValueNotSupported, fmt.Errorf("range %d, want a range of processes", t.Range)
	case t.Range == codec.RangeCustom && len(t.Members) == 0:
		return t, codec.StatusErrBadParam, fmt.Errorf("custom range without %s, want its processes", codec.KeyEventCustomRange)
	case len(t.Members)+len(t.Users) > maxRangeMembership:
		return t, codec.StatusErrOutOfResource, fmt.Errorf("%d processes and users named, want at most %d",
			len(t.Members)+len(t.Users), maxRangeMembership)
	}
	return t, codec.StatusSuccess, nil
}

func readTerm(t *kvs.Terms, info codec.Info) (codec.Status, error) {
	ok := true
	switch info.Key {
	case codec.KeyRange:
		var n uint8
		n, ok = readUint8(info.Value)
		t.Range = codec.Range(n)
	case codec.KeyPersistence:
		var n uint8
		n, ok = readUint8(info.Value)
		t.Persist = codec.Persistence(n)
		ok = ok && t.Persist <= codec.PersistSession
	case codec.KeyEventCustomRange:
		t.Members, ok = info.Value.Procs()
	case codec.KeyAccessPermissions:
		return readAccess(t, info.Value)
	case codec.KeyAccessUserIDs:
		t.Users, ok = readUsers(info.Value)
	case codec.KeyAccessGroupIDs:
		return codec.StatusErrParamValueNotSupported, errors.New("access by group is not supported: a reader cannot prove its groups")
	}
	if !ok {
		return codec.StatusErrBadParam, fmt.Errorf("%s is %v (type %d), want a value of its type and range", info.Key, info.Value, info.Value.Type)
	}
	return codec.StatusSuccess, nil
}

func readAccess(t *kvs.Terms, v codec.Value) (codec.Status, error) {
	infos, ok := v.Infos()
	if !ok {
		return codec.StatusErrBadParam, fmt.Errorf("%s is %v, want an array of infos", codec.KeyAccessPermissions, v)
	}
	for _, info := range infos {
		if info.Key == codec.KeyAccessPermissions { // it does not nest
			continue
		}
		if status, err := readTerm(t, info); err != nil {
			return status, err
		}
	}
	return codec.StatusSuccess, nil
}

// readUint8 reads a number below 256 of any integer type: Open MPI sends ranges and persistence as int.
func readUint8(v codec.Value) (uint8, bool) {
	if r, ok := v.Data.(codec.Range); ok {
		return uint8(r), true
	}
	n, ok := v.Uint64()
	return uint8(n), ok && n < 256
}

// readUsers reads an array of user ids.
func readUsers(v codec.Value) ([]uint32, bool) {
	a, ok := v.Data.(codec.Array)
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
