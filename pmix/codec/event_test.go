package codec

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEventInfos(t *testing.T) {
	p := func(r Rank) Proc { return Proc{"job-1", r} }
	for name, ev := range map[string]Event{
		"bare":     {Status: -5, Source: p(0), Range: RangeNamespace},
		"one":      {Status: -5, Affected: []Proc{p(1)}, NonDefault: true},
		"several":  {Affected: []Proc{p(1), p(2)}, NoCache: true, Timeout: 7},
		"targeted": {Range: RangeCustom, Targets: []Proc{p(1), p(RankWildcard)}, Info: []Info{{Key: "x", Value: IntValue(1)}}},
	} {
		t.Run(name, func(t *testing.T) {
			n := Notification{Status: ev.Status, Source: ev.Source, Info: ev.Pack(), Range: ev.Range}
			body, err := n.Append(nil)
			if err != nil {
				t.Fatal(err)
			}
			back, err := DecodeNotification(body)
			if err != nil {
				t.Fatal(err)
			}
			got, err := ParseEvent(back)
			if err != nil {
				t.Fatal(err)
			}
			if v, ok := got.Has("x"); len(ev.Info) > 0 && (!ok || v != IntValue(1)) {
				t.Errorf("info x: %v, %v", v, ok)
			}
			want := ev
			want.Info = n.Info
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("event (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnfitEventInfos(t *testing.T) {
	for _, info := range []Info{
		{Key: KeyEventCustomRange, Value: StringValue("all")},
		{Key: KeyEventAffectedProc, Value: BoolValue(true)},
		{Key: KeyEventAffectedProcs, Value: Value{TypeDataArray, Array{Type: TypeBool, Elems: []any{true}}}},
		{Key: KeyEventActionTimeout, Value: IntValue(-1)},
	} {
		if ev, err := ParseEvent(Notification{Info: []Info{info}}); err == nil {
			t.Errorf("%s of %v was decoded as %+v", info.Key, info.Value, ev)
		}
	}
	if _, err := (&Notification{Info: []Info{{Key: "x", Value: Value{TypeBool, 1}}}}).Append(nil); err == nil {
		t.Error("a value of another type was packed")
	}
}

// TestNotificationLayout compares an event, byte by byte, with the layout that libpmix 4.2.2 reads, and with an event
// from its server's cache, which lacks the range.
func TestNotificationLayout(t *testing.T) {
	event := unhex(t, "020c"+"029b9c01"+"020c6a6f622d310001"+"0201"+"021c706d69782e65766e6f6e64656600000101")
	want := Notification{Status: -9998, Source: Proc{"job-1", 1}, Info: []Info{{Key: KeyEventNonDefault, Value: BoolValue(true)}}}
	for _, rng := range []Range{RangeUndef, RangeNamespace} {
		body := event
		if rng != RangeUndef {
			body = append(bytes.Clone(event), 2, byte(rng))
		}
		want.Range = rng
		got, err := DecodeNotification(body)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("notification (-want +got):\n%s", diff)
		}
		again, err := got.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		sameBytes(t, again[:len(event)], event)
	}
	if _, err := DecodeNotification([]byte{2, byte(CmdFence)}); err == nil {
		t.Error("a fence was decoded as a notification")
	}
}

func TestGroupReplies(t *testing.T) {
	for name, tt := range map[string]struct {
		bytes string
		want  GroupReply
	}{
		"libpmix, no context": {"0200" + "02ffffffffffffffffff", GroupReply{ContextID: NoContextID}},
		"libpmix, context":    {"0200" + "0207", GroupReply{ContextID: 7}},
		"status alone":        {"022f", GroupReply{Status: StatusErrTimeout, ContextID: NoContextID}},
	} {
		got, err := DecodeGroupReply(unhex(t, tt.bytes))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	want := GroupReply{ContextID: 1, Info: []Info{{Key: KeyGroupMembership, Value: ProcsValue(Proc{"a", 1})}}}
	body, err := want.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeGroupReply(body)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
}

func TestProcMatching(t *testing.T) {
	a, all, other := Proc{"a", 1}, Proc{"a", RankWildcard}, Proc{"b", 1}
	for _, tt := range []struct {
		p, q Proc
		want bool
	}{{a, a, true}, {a, all, true}, {all, a, true}, {a, Proc{"a", 2}, false}, {a, other, false}, {all, other, false}} {
		if got := tt.p.Matches(tt.q); got != tt.want {
			t.Errorf("%v matches %v: %v, want %v", tt.p, tt.q, got, tt.want)
		}
	}
	if AnyMatch([]Proc{a}, nil) || !AnyMatch([]Proc{other, a}, []Proc{all}) {
		t.Error("matching of lists differs from that of their processes")
	}
}

// Events and the answer to a construction: decoding never panics, and a second encoding equals the first.
func FuzzEventReply(f *testing.F) {
	full := Event{
		Status: -402, Source: Proc{"job-1", 1}, Range: RangeCustom, Targets: []Proc{{"job-1", 0}}, Affected: []Proc{{"job-1", 1}},
		NonDefault: true, NoCache: true, Timeout: 3,
	}
	n := Notification{Status: full.Status, Source: full.Source, Info: full.Pack(), Range: full.Range}
	body, err := n.Append(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	g := GroupReply{ContextID: 1, Info: []Info{{Key: KeyGroupMembership, Value: ProcsValue(full.Targets...)}}}
	if body, err = g.Append(nil); err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Add(AppendStatusReply(nil, StatusErrTimeout))
	f.Fuzz(func(t *testing.T, b []byte) {
		if n, err := DecodeNotification(b); err == nil {
			once, err := n.Append(nil)
			if err != nil {
				t.Fatalf("%+v: %v", n, err)
			}
			again, err := DecodeNotification(once)
			if err != nil {
				t.Fatalf("% x does not decode: %v", once, err)
			}
			if twice, err := again.Append(nil); err != nil || !bytes.Equal(once, twice) {
				t.Errorf("% x is encoded again as % x, %v", once, twice, err)
			}
			_, _ = ParseEvent(n)
		}
		if r, err := DecodeGroupReply(b); err == nil {
			if _, err := r.Append(nil); err != nil {
				t.Errorf("%+v: %v", r, err)
			}
		}
	})
}
