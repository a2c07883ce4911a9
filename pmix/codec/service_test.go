package codec

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestServiceReplies(t *testing.T) {
	data := []PData{
		{Proc: Proc{"job-1", 3}, Key: "port", Value: StringValue("a:1")},
		{Proc: Proc{"job-2", 0}, Key: "blob", Value: BytesValue([]byte{1, 2})},
	}
	for _, want := range []LookupReply{
		{Status: StatusSuccess, Data: data}, {Status: StatusErrPartialSuccess, Data: data[:1]}, {Status: StatusErrNotFound},
	} {
		body, err := want.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeLookupReply(body)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("lookup (-want +got):\n%s", diff)
		}
	}
	infos := []Info{{Key: "a", Value: IntValue(1)}, {Key: "b", Flags: InfoRequired, Value: InfosValue(Info{Key: "c"})}}
	for _, want := range []QueryReply{{Status: StatusSuccess, Info: infos}, {Status: StatusErrNotFound}} {
		body, err := want.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeQueryReply(body)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("query (-want +got):\n%s", diff)
		}
	}
}

func TestServiceRepliesOfWrongValues(t *testing.T) {
	wrong := Value{Type: TypeString, Data: 5}
	lookup := LookupReply{Data: []PData{{Key: "k", Value: wrong}}}
	if body, err := lookup.Append([]byte{9}); err == nil || len(body) != 1 {
		t.Errorf("lookup: % x, %v; want an error and nothing appended", body, err)
	}
	query := QueryReply{Info: []Info{{Key: "k", Value: wrong}}}
	if body, err := query.Append([]byte{9}); err == nil || len(body) != 1 {
		t.Errorf("query: % x, %v; want an error and nothing appended", body, err)
	}
}

// A status without data is a valid answer to any request.
func TestServiceRefusals(t *testing.T) {
	refusal := AppendStatusReply(nil, StatusErrNotSupported)
	if r, err := DecodeLookupReply(refusal); err != nil || r.Status != StatusErrNotSupported {
		t.Errorf("lookup answer: %v, %v", r, err)
	}
	if r, err := DecodeQueryReply(refusal); err != nil || r.Status != StatusErrNotSupported {
		t.Errorf("query answer: %v, %v", r, err)
	}
}

func FuzzServiceReply(f *testing.F) {
	for _, frames := range dumps(f) {
		for _, fr := range frames[2:] {
			if !fr.FromClient {
				f.Add(fr.Body)
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := DecodeLookupReply(b); err == nil {
			canonical(t, r.Append, func(b []byte) (func([]byte) ([]byte, error), error) {
				r, err := DecodeLookupReply(b)
				return r.Append, err
			})
		}
		if r, err := DecodeQueryReply(b); err == nil {
			canonical(t, r.Append, func(b []byte) (func([]byte) ([]byte, error), error) {
				r, err := DecodeQueryReply(b)
				return r.Append, err
			})
		}
	})
}

// canonical decodes an encoding, encodes the result again, and requires the same bytes.
func canonical(t *testing.T, encode func([]byte) ([]byte, error), decode func([]byte) (func([]byte) ([]byte, error), error)) {
	t.Helper()
	once, err := encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	encode, err = decode(once)
	if err != nil {
		t.Fatalf("% x does not decode: %v", once, err)
	}
	twice, err := encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	sameBytes(t, twice, once)
}
