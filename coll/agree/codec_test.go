package agree_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/goshmem/goshmem/coll/agree"
	"github.com/goshmem/goshmem/coll/ftco"
)

var sampleCollective = ftco.Msg{
	Kind: ftco.Down, Committed: true, Call: ftco.Call{Kind: ftco.Allreduce, Uniform: true, Strict: true, Root: 3, Tag: 9},
	Seq: 1 << 40, Value: ftco.Result, Sets: &ftco.Sets{Missing: []ftco.Node{1, 4}, Failed: []ftco.Node{4}},
}

// TestCodec: what is read is what was sent, field for field; nothing shorter and nothing longer is taken.
func TestCodec(t *testing.T) {
	t.Parallel()
	vote := agree.Vote{Flags: 1 << 63, Payload: agree.Payload{1, 31: 7}, Body: "faults"}
	plain := agree.Msg{Kind: agree.MsgVote, Outcome: agree.Undecided, Known: 5, Seq: 8, Base: 6, Vote: vote, Failed: []agree.Node{2, 250}}
	full := plain
	full.Collective = sampleCollective
	for _, m := range []agree.Msg{{}, plain, full} {
		b := agree.AppendMsg(nil, &m)
		got, err := agree.ReadMsg(b)
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%+v, %v, want %+v", got, err, m)
		}
		for n := range len(b) {
			if _, err := agree.ReadMsg(b[:n]); !errors.Is(err, agree.ErrMessage) {
				t.Fatalf("the first %d of %d bytes: %v", n, len(b), err)
			}
		}
		if _, err := agree.ReadMsg(append(b, 0)); !errors.Is(err, agree.ErrMessage) {
			t.Errorf("a byte too many: %v", err)
		}
	}
	for _, m := range []ftco.Msg{{}, {Kind: ftco.Up, Value: ftco.NoValue}, sampleCollective} {
		got, value, err := agree.ReadAllreduce(agree.AppendAllreduce(nil, &m, &vote))
		if err != nil || !reflect.DeepEqual(got, m) || value != vote {
			t.Errorf("%+v, %+v, %v, want %+v, %+v", got, value, err, m, vote)
		}
	}
}

func FuzzReadMsg(f *testing.F) {
	f.Add(agree.AppendMsg(nil, &agree.Msg{Kind: agree.MsgVote, Failed: []agree.Node{1}, Collective: sampleCollective}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := agree.ReadMsg(b); err == nil && m.Collective.Kind != 0 {
			if n, err := agree.ReadMsg(agree.AppendMsg(nil, &m)); err != nil || !reflect.DeepEqual(m, n) {
				t.Errorf("%+v becomes %+v, %v", m, n, err)
			}
		}
		_, _, _ = agree.ReadAllreduce(b)
	})
}
