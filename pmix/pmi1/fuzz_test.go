package pmi1

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/pmix/codec"
)

// FuzzInput: whatever a client sends, in whatever pieces, the answers are lines that fit a client's buffer, and other
// clients are served.
func FuzzInput(f *testing.F) {
	for _, text := range []string{
		"cmd=get_maxes;cmd=get_appnum;", "cmd=put kvsname=b2 key=k value=v;cmd=get kvsname=b2 key=k;", one + two,
		"cmd=barrier_in;cmd=barrier_in;", "cmd=publish_name service=a b port=p;cmd=lookup_name service=a b;",
		"cmd=finalize;cmd=abort exitcode=-1;", "cmd=getbyidx idx=0;", "mcmd=spawn;endcmd;", "=;", "\x00;",
	} {
		f.Add([]byte(strings.ReplaceAll(text, ";", "\n")), uint8(3))
	}
	f.Fuzz(func(t *testing.T, data []byte, piece uint8) {
		w := newTable(t, "a1", "b2")
		w.join("a1.0", "b2.0", "b2.1")
		answers, asked := 0, strings.Count(string(data), "\n")
		for len(data) > 0 {
			n := min(len(data), int(piece)+1)
			for _, a := range w.core.Step(event{kind: evInput, conn: w.conns[proc("b2.0")], data: data[:n]}, nil) {
				if a.kind != actSend {
					continue
				}
				answers++
				if a.conn != w.conns[proc("b2.0")] {
					t.Errorf("the core sent %q to another client", a.text)
				}
				if len(a.text) > maxValue+maxKey+maxMessage || strings.Count(a.text, "\n") != 1 || !strings.HasSuffix(a.text, "\n") {
					t.Errorf("answer %q", a.text)
				}
			}
			data = data[n:]
		}
		if answers > asked {
			t.Errorf("%d answers to %d lines", answers, asked)
		}
		w.want(w.say("a1.0", "cmd=put kvsname=a1 key=k value=v;cmd=get kvsname=a1 key=k;cmd=barrier_in;"),
			"a1.0< cmd=put_result rc=0 msg=success", "a1.0< cmd=get_result rc=0 msg=success value=v", "a1.0< cmd=barrier_out rc=0")
		if did := w.say("b2.1", "cmd=get_my_kvsname;"); len(did) != 1 {
			t.Errorf("the job's other process got %q", did)
		}
	})
}

// FuzzPairs: whatever the other nodes have put, as the driver between them gives it, a barrier has one outcome for all that
// wait. What is stored then can be asked for, a line each.
func FuzzPairs(f *testing.F) {
	f.Add(appendPair(appendPair(nil, pair{"a", "1 2"}), pair{"b", ""}))
	f.Add([]byte{1, 0, 1, 0, 'k', '\n'})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		s := newSpanned(t, 0, 0, 1)
		s.say(0, "cmd=put kvsname=j key=own value=mine")
		s.say(0, "cmd=barrier_in")
		s.say(1, "cmd=barrier_in")
		sent := s.step(0, event{kind: evBarrier, proc: codec.Proc{Nspace: "j"}, id: 1, data: data})
		const well, badly = "cmd=barrier_out rc=0", "cmd=barrier_failed rc=-1 msg=a_rank_on_another_node_has_left"
		if !slices.Equal(sent, []string{"0< " + well, "1< " + well}) && !slices.Equal(sent, []string{"0< " + badly, "1< " + badly}) {
			t.Errorf("after %q sent %q, want one outcome", data, sent)
		}
		for _, p := range s.cores[0].jobs["j"].store.pairs {
			if err := checkPair(p.key, p.value); err != nil {
				t.Errorf("after %q: %v", data, err)
			}
			if got := s.say(1, "cmd=get kvsname=j key="+p.key); len(got) != 1 || strings.Contains(got[0], "\n") {
				t.Errorf("after %q: key %q is answered %q, want one line", data, p.key, got)
			}
		}
		w := &world{store: store{index: map[string]int{}}}
		if err := w.storePairs(data); err == nil && len(data) > 0 {
			var again []byte
			for rest := data; len(rest) > 0; {
				var p pair
				p, rest, _ = cutPair(rest)
				again = appendPair(again, p)
			}
			if !slices.Equal(again, data) {
				t.Errorf("%q is written again as %q", data, again)
			}
		} else if err != nil && errors.Is(err, errFull) {
			t.Errorf("%d bytes fill the store", len(data))
		}
	})
}
