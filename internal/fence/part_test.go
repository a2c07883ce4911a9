package fence

import (
	"testing"

	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/server"
)

// parts makes a value.
func parts(list ...listedPart) (value []byte) {
	for _, p := range list {
		value = appendPart(value, p.member, &server.FencePart{FenceCall: server.FenceCall{Spares: p.spares}, Status: p.status, Data: p.data})
	}
	return value
}

func TestOutcome(t *testing.T) {
	const bad, late = codec.StatusErrBadParam, codec.StatusErrTimeout
	a, b := []byte("a"), []byte("b")
	for _, c := range []struct {
		name    string
		value   []byte
		missing []int32
		status  codec.Status
		data    string
	}{
		{"all", parts(listedPart{0, 0, false, a}, listedPart{1, 0, false, b}), nil, 0, "ab"},
		{"first error", parts(listedPart{0, bad, false, a}, listedPart{1, late, false, b}), nil, bad, ""},
		{"second error", parts(listedPart{0, 0, false, a}, listedPart{1, late, false, b}), nil, late, ""},
		{"missing", parts(listedPart{1, 0, false, b}), []int32{0}, lostStatus, ""},
		{"missing and error", parts(listedPart{1, late, false, b}), []int32{0}, late, ""},
		{"spared", parts(listedPart{1, 0, true, b}), []int32{0}, 0, "b"},
		{"lacking", parts(listedPart{1, 0, false, b}), nil, codec.StatusErrUnpackFailure, ""},
		{"twice", parts(listedPart{1, 0, false, b}, listedPart{1, 0, false, b}), nil, codec.StatusErrUnpackFailure, ""},
		{"missing, but there", parts(listedPart{0, 0, false, b}, listedPart{1, 0, false, b}), []int32{1}, codec.StatusErrUnpackFailure, ""},
		{"nobody's", parts(listedPart{0, 0, false, b}, listedPart{2, 0, false, b}), nil, codec.StatusErrUnpackFailure, ""},
		{"cut", parts(listedPart{0, 0, false, a}, listedPart{1, 0, false, b})[:27], nil, codec.StatusErrUnpackFailure, ""},
	} {
		if status, data := outcome(c.value, c.missing, 2); status != c.status || string(data) != c.data {
			t.Errorf("%s: %v %q, want %v %q", c.name, status, data, c.status, c.data)
		}
	}
}

// Data that is too large together makes the fence fail, and costs no more room.
func TestTooMuchData(t *testing.T) {
	a, b := parts(listedPart{0, 0, false, []byte("aaaa")}), parts(listedPart{1, 0, false, []byte("bbbb")})
	if status, data := outcome(combineWithin(a, b, 2*partHeader+8), nil, 2); status != codec.StatusSuccess || string(data) != "aaaabbbb" {
		t.Errorf("%v %q, want all data", status, data)
	}
	value := combineWithin(a, b, 2*partHeader+7)
	if len(value) != 2*partHeader {
		t.Errorf("%d bytes are left, want %d", len(value), 2*partHeader)
	}
	if status, data := outcome(value, nil, 2); status != codec.StatusErrOutOfResource || len(data) != 0 {
		t.Errorf("%v %q, want %v and no data", status, data, codec.StatusErrOutOfResource)
	}
	large := make([]byte, maxValue)
	if status, _ := outcome(parts(listedPart{0, 0, false, large}), nil, 1); status != codec.StatusErrOutOfResource {
		t.Errorf("%d bytes of one node: %v, want %v", len(large), status, codec.StatusErrOutOfResource)
	}
}
