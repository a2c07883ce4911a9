package pmi1

import (
	"strings"
	"testing"
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
