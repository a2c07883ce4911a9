package nodes

import (
	"fmt"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/xunix"
)

// What most hosts have is the program; hosts that have told nothing are left out.
func TestDiffering(t *testing.T) {
	for prints, want := range map[string]string{
		"a a a":               "",
		"a":                   "",
		"- a -":               "",
		"- - -":               "",
		"a b a":               "on h1 it is another file than on h0, h2;",
		"a b b - c":           "on h0, h4 it is another file than on h1, h2;",
		"a b":                 "on h1 it is another file than on h0;",
		"b a a a a a a a a a": "on h0 it is another file than on h1, h2, h3, h4 and 5 more;",
	} {
		var hosts []string
		var reports []daemon.Report
		for i, p := range strings.Fields(prints) {
			hosts = append(hosts, fmt.Sprintf("h%d", i))
			reports = append(reports, daemon.Report{Programs: []string{"", strings.Trim(p, "-")}})
		}
		got := differing("./x", 1, hosts, append(reports, daemon.Report{})) // the last one has told nothing at all
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", prints, got, want)
		}
	}
}

// A host that has other processors than it was taken to have is named, and no other one.
func TestCompareProcessors(t *testing.T) {
	t.Parallel()
	has := xunix.Processors()
	j := newJob(t, 3, LocalAgent(oshrun(t)))
	j.cfg.Emulated = false
	j.layout.Hosts[0].Guess, j.layout.Hosts[1].Guess = has, 1000
	j.begin()
	want := fmt.Sprintf("host node1: oshrun took it to have 1000 processors, as this machine has, but it has %d for the job; to use these: --host node1:%d", has, has)
	if got := await(t, j.notices, "processors"); got != want {
		t.Errorf("said %q, want %q", got, want)
	}
	select {
	case text := <-j.notices:
		t.Errorf("said %q, too", text)
	default: // all was said before the start was over
	}
}
