package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// writeEntries writes entries in one line: user@name:slots/max%port.
func writeEntries(entries []Entry) string {
	var words []string
	for i := range entries {
		e := &entries[i]
		word := e.Name
		switch e.kind {
		case byIndex:
			word = fmt.Sprintf("+n%d", e.number)
		case byEmpty:
			word = fmt.Sprintf("+e(%d)", e.number)
		}
		if e.User != "" {
			word = e.User + "@" + word
		}
		switch {
		case e.Slots == AllSlots:
			word += ":*"
		case e.Slots > 0:
			word += fmt.Sprintf(":%d", e.Slots)
		}
		if e.MaxSlots > 0 {
			word += fmt.Sprintf("/%d", e.MaxSlots)
		}
		if e.Port > 0 {
			word += fmt.Sprintf("%%%d", e.Port)
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func TestParseHostList(t *testing.T) {
	for list, want := range map[string]string{
		"a":                    "a",
		"a:4,b:8,c":            "a:4 b:8 c",
		"a,a,b":                "a a b",
		"a:*,b:auto,c:AUTO":    "a:* b:* c:*",
		"root@a:2":             "root@a:2",
		"192.0.2.1:3":          "192.0.2.1:3",
		"fe80::1":              "fe80::1",
		"[fe80::1]":            "fe80::1",
		"[fe80::1%eth0]:2,b":   "fe80::1%eth0:2 b",
		"me@[2001:db8::1]:12":  "me@2001:db8::1:12",
		"+n0,+n12:3":           "+n0 +n12:3",
		"+e,+e:2,+E":           "+e(0) +e(2) +e(0)",
		"n[01-03,7]:2":         "n01:2 n02:2 n03:2 n7:2",
		"n[1-2]-ib.x.org,b":    "n1-ib.x.org n2-ib.x.org b",
		"a.example.org,node_1": "a.example.org node_1",
	} {
		entries, err := ParseHostList("--host", list)
		if got := writeEntries(entries); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", list, got, err, want)
		}
	}
	for list, want := range map[string]string{
		"":                       `""`,
		"a,,b":                   "hosts such as a:4,b",
		"a:0":                    "slots 0, want a number from 1",
		"a:-1":                   "slots -1",
		"a:":                     `slots ""`,
		"a:x":                    "slots x",
		"a:9999999999":           "slots 9999999999",
		"-oProxy=x":              "host -oProxy=x, want letters",
		"-o@a":                   "user -o, want letters",
		"@a":                     `user ""`,
		"a@-b":                   "host -b",
		"a b":                    `host "a b"`,
		"a\x1b[1mb":              `"a\x1b[1mb"`,
		"[fe80::1]x":             "x after the address",
		"[fe80::1]:0":            "slots 0",
		"a:b:c:d%":               "a:b:c:d%, want",
		"x::1":                   "want a name, or an IPv6 address",
		"f:::::":                 "want a name, or an IPv6 address",
		"[1:2:3:4:5:6:7:8:9]":    "want a name, or an IPv6 address",
		"+x1":                    "host +x1, want +n0",
		"+n":                     "host +n, want +n0",
		"+n1:0":                  "host +n1:0",
		"+e:0":                   "host +e:0, want +e",
		"+e:many":                "host +e:many",
		"n[1-999999999]":         "at most 65536 hosts",
		"n[1-300][1-300]":        "at most 65536 hosts",
		"n[1-2":                  "[ without ]",
		strings.Repeat("a", 254): "want letters",
	} {
		entries, err := ParseHostList("--host", list)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "--host ") {
			t.Errorf("%q: %v, %v, want an error with %q", list, entries, err, want)
		}
	}
}

func TestParseHostfile(t *testing.T) {
	for text, want := range map[string]string{
		"a\n": "a",
		"# first\n\na slots=2 max_slots=3 # two\n\tb": "a:2/3 b",
		"a max-slots=3\nb slots_max=4\r\n":            "a/3 b/4",
		"a:4\nb:8":                                    "a:4 b:8",
		"a cpus=2\nb count=3\nc cpu=1":                "a:2 b:3 c:1",
		"a slots = 2\nb slots= 3\nc slots =4":         "a:2 b:3 c:4",
		"me@a\nb user=you\nc user_name=x port=22":     "me@a you@b x@c%22",
		"[fe80::1] slots=2\nfe80::2 slots=1":          "fe80::1:2 fe80::2:1",
		"a slots=auto":                                "a:*",
		"+n1 slots=2\n+e":                             "+n1:2 +e(0)",
		"n[1-2] slots=2":                              "n1:2 n2:2",
		"a SLOTS=2":                                   "a:2",
	} {
		entries, err := ParseHostfile("hosts", text)
		if got := writeEntries(entries); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                               "hosts: no host in it",
		"\n# none\n":                     "hosts: no host in it",
		"a\nb slots=x":                   "hosts: line 2: slots=x: slots x, want a number",
		"a slots=0":                      "hosts: line 1: slots=0: slots 0",
		"a slots=":                       `line 1: slots=: slots ""`,
		"a slot=2":                       "line 1: slot=2, want slots=N",
		"a 4":                            "line 1: 4, want slots=N",
		"a slots=2 slots=2":              "line 1: slots=2: the line says it a second time",
		"a:2 slots=2":                    "a second time",
		"me@a user=you":                  "a second time",
		"a slots=4 max-slots=2":          "slots=4, want at most max-slots=2",
		"a max-slots=0":                  "max-slots=0: 0, want 1 or more",
		"a port=0":                       "port=0: 0, want a port",
		"a port=65536":                   "port=65536: 65536, want a number of at most 65535",
		"a user=-x":                      "user=-x: user -x, want letters",
		"\n\n^a":                         "hosts: line 3: host ^a",
		"a " + strings.Repeat("x", 5000): "line 1 has 5002 bytes, want at most 4096",
		"n[1-65536]\nb":                  "line 2: want at most 65536 hosts",
	} {
		entries, err := ParseHostfile("hosts", text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %d entries, %v, want an error with %q", text, len(entries), err, want)
		}
	}
	var unknown *UnknownError
	if _, err := ParseHostfile("hosts", "a slot=2"); !errors.As(err, &unknown) || unknown.Word != "slot" || !slices.Contains(unknown.Known, "slots") {
		t.Errorf("slot=2: %v, want an UnknownError with the words that are known", err)
	}
}

func TestParseNodelist(t *testing.T) {
	for list, want := range map[string]string{
		"a":               "a",
		"n[001-003,7],m5": "n001 n002 n003 n7 m5",
		"n[9-11]":         "n9 n10 n11",
		"n[098-101]":      "n098 n099 n100 n101",
		"r[1-2]n[01-02]":  "r1n01 r1n02 r2n01 r2n02",
		"r[1-2]n[1,3]-x":  "r1n1-x r1n3-x r2n1-x r2n3-x",
		"[1-3]":           "1 2 3",
		"a,b[1],c":        "a b1 c",
		"n[0000]":         "n0000",
	} {
		names, err := ParseNodelist(list)
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", list, got, err, want)
		}
	}
	for list, want := range map[string]string{
		"":                          "empty name",
		"a,":                        "empty name",
		"n[1":                       "[ without ]",
		"n1]":                       "] without [",
		"n[]":                       `[""]`,
		"n[3-1]":                    "[3-1]",
		"n[1-]":                     "[1-]",
		"n[a-b]":                    "[a-b]",
		"n[-1]":                     "[-1]",
		"n[1,,2]":                   `[""]`,
		"n[1-999999999]":            "at most 65536",
		"n[1-9999999999]":           "9 digits",
		"n[0000000001]":             "9 digits",
		"n[1-65536],m[1-65536]":     "at most 65536",
		strings.Repeat("[0-1]", 40): "at most 65536",
		strings.Repeat("[1]", 300):  "at most 253 bytes",
		"n[[1-2]]":                  "[",
	} {
		names, err := ParseNodelist(list)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %d names, %v, want an error with %q", list, len(names), err, want)
		}
	}
}

func TestParseCounts(t *testing.T) {
	for text, want := range map[string]string{"4": "[4]", "4(x2),3": "[4 4 3]", "1(x3)": "[1 1 1]", "2,2": "[2 2]"} {
		if counts, err := ParseCounts(text); err != nil || fmt.Sprint(counts) != want {
			t.Errorf("%q: %v, %v, want %s", text, counts, err, want)
		}
	}
	for _, text := range []string{"", "0", "4(x0)", "4(x", "4(x2", "4x2", "4(2)", "a", "-1", "4,,3", "1(x99999999)", "1(x65536),1", "99999999999"} {
		if counts, err := ParseCounts(text); err == nil {
			t.Errorf("%q: %d numbers, want an error", text, len(counts))
		}
	}
}

func TestSlurm(t *testing.T) {
	base := map[string]string{"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-3]"}
	with := func(more ...string) func(string) (string, bool) {
		return func(name string) (string, bool) {
			for i := 0; i < len(more); i += 2 {
				if more[i] == name {
					return more[i+1], true
				}
			}
			value, isSet := base[name]
			return value, isSet
		}
	}
	for _, x := range []struct {
		set  []string
		want string // hosts with slots; empty: no allocation
	}{
		{[]string{"SLURM_JOB_ID", ""}, ""},
		{[]string{"SLURM_JOB_NODELIST", ""}, ""},
		{nil, "n1:0 n2:0 n3:0"},
		{[]string{"SLURM_TASKS_PER_NODE", "4(x2),3", "SLURM_JOB_CPUS_PER_NODE", "8(x3)"}, "n1:4 n2:4 n3:3"},
		{[]string{"SLURM_JOB_CPUS_PER_NODE", "8(x3)", "SLURM_NNODES", "3"}, "n1:8 n2:8 n3:8"},
		{[]string{"SLURM_JOB_NODELIST", "", "SLURM_NODELIST", "a,b"}, "a:0 b:0"},
		{[]string{"SLURM_JOB_ID", "", "SLURM_JOBID", "8"}, "n1:0 n2:0 n3:0"},
		// In a step, numbers for other nodes than the job's are the step's.
		{[]string{"SLURM_STEP_ID", "0", "SLURM_TASKS_PER_NODE", "1", "SLURM_JOB_CPUS_PER_NODE", "4(x3)", "SLURM_NNODES", "1"}, "n1:4 n2:4 n3:4"},
		{[]string{"SLURM_STEP_ID", "0", "SLURM_TASKS_PER_NODE", "1", "SLURM_JOB_NUM_NODES", "1"}, "n1:0 n2:0 n3:0"},
		{[]string{"SLURM_STEPID", "0", "SLURM_TASKS_PER_NODE", "2(x2)", "SLURM_JOB_CPUS_PER_NODE", "4(x2)"}, "n1:0 n2:0 n3:0"},
		{[]string{"SLURM_STEP_ID", "0", "SLURM_TASKS_PER_NODE", "2(x3)", "SLURM_JOB_CPUS_PER_NODE", "8(x3)"}, "n1:2 n2:2 n3:2"},
	} {
		a, err := Slurm(with(x.set...))
		var words []string
		for i := 0; a != nil && i < len(a.Hosts); i++ {
			words = append(words, fmt.Sprintf("%s:%d", a.Hosts[i].Name, a.Hosts[i].Slots))
		}
		if got := strings.Join(words, " "); err != nil || got != x.want {
			t.Errorf("%q: %q, %v, want %q", x.set, got, err, x.want)
		}
		if is := InSlurm(with(x.set...)); is != (x.want != "") {
			t.Errorf("%q: in a job of Slurm: %v, want what Slurm says, %q", x.set, is, x.want)
		}
	}
	for _, x := range [][]string{
		{"SLURM_JOB_NODELIST", "n[1-", "SLURM_JOB_NODELIST: n[1-"},
		{"SLURM_JOB_NODELIST", "-x", "SLURM_JOB_NODELIST: host -x"},
		{"SLURM_JOB_NODELIST", "n[1-3],n2", "SLURM_JOB_NODELIST: host n2 is there twice"},
		{"SLURM_NNODES", "2", "SLURM_NNODES: 2, want 3"},
		{"SLURM_JOB_NUM_NODES", "x", "SLURM_JOB_NUM_NODES: x, want 3"},
		{"SLURM_TASKS_PER_NODE", "4(x2)", "SLURM_TASKS_PER_NODE: 4(x2) has numbers for 2 nodes, want 3"},
		{"SLURM_TASKS_PER_NODE", "4(", "SLURM_TASKS_PER_NODE: 4("},
		{"SLURM_JOB_CPUS_PER_NODE", "0(x3)", "SLURM_JOB_CPUS_PER_NODE: 0(x3)"},
		{"SLURM_STEP_ID", "0", "SLURM_TASKS_PER_NODE", "4(", "SLURM_TASKS_PER_NODE: 4("},
		{"SLURM_STEP_ID", "0", "SLURM_NNODES", "x", "SLURM_NNODES: x, want 3"},
	} {
		set, want := x[:len(x)-1], x[len(x)-1]
		if a, err := Slurm(with(set...)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want an error with %q", set, a, err, want)
		}
		if !InSlurm(with(set...)) {
			t.Errorf("%q: in no job of Slurm, though its list is there", set)
		}
	}
}

// limitNames checks what all parsers of hosts promise: names that no tool takes for options, and
// a bounded number of them.
func limitNames(t *testing.T, entries []Entry) {
	t.Helper()
	if len(entries) > maxHosts {
		t.Errorf("%d hosts, want at most %d", len(entries), maxHosts)
	}
	for i := range entries {
		e := &entries[i]
		if e.kind == byName && (e.Name == "" || len(e.Name) > maxName || strings.HasPrefix(e.Name, "-") || strings.ContainsAny(e.Name, " \t\n,[]@=;$`'\"\\")) {
			t.Errorf("host %q is accepted", e.Name)
		}
		if strings.HasPrefix(e.User, "-") || e.Slots < AllSlots || e.Slots > maxSlots || e.MaxSlots < 0 || e.Port < 0 || e.Port > 65535 {
			t.Errorf("entry %+v is accepted", *e)
		}
	}
}

func FuzzHostList(f *testing.F) {
	for _, s := range []string{"a:4,b:8,c", "root@[fe80::1%eth0]:2", "+n1:2,+e:3", "n[01-16],m:*", "[1-2]a[3]", "a,,[", "]:,@"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, list string) {
		entries, err := ParseHostList("--host", list)
		if err != nil {
			return
		}
		limitNames(t, entries)
		again, err := ParseHostList("--host", list)
		if err != nil || writeEntries(again) != writeEntries(entries) {
			t.Errorf("read twice: %v, then %v, %v", entries, again, err)
		}
	})
}

func FuzzHostfile(f *testing.F) {
	for _, s := range []string{"a slots=2 max-slots=3 # c\n\nb:4\n", "me@[fe80::1] port = 22\n", "n[1-3] user=x\n+e:2\n+n0 slots=1", "= = =", "a\x00b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		entries, err := ParseHostfile("hosts", text)
		if err == nil {
			limitNames(t, entries)
		} else if !strings.HasPrefix(err.Error(), "hosts: ") {
			t.Errorf("error %q, want it to begin with the file", err)
		}
	})
}

func FuzzNodelist(f *testing.F) {
	for _, s := range []string{"n[001-003,7],m5", "r[1-2]n[01-02]x", "[1-999999999]", "[[]]", "a[1-2", "[0-1][0-1][0-1]"} {
		f.Add(s, "4(x2),3")
	}
	f.Fuzz(func(t *testing.T, list, counts string) {
		names, err := ParseNodelist(list)
		if err == nil && (len(names) == 0 || len(names) > maxHosts) {
			t.Errorf("%d names", len(names))
		}
		for _, name := range names {
			if strings.ContainsAny(name, "[],") {
				t.Errorf("%q is left of %q", name, list)
			}
		}
		numbers, err := ParseCounts(counts)
		if err == nil && (len(numbers) == 0 || len(numbers) > maxHosts || slices.Min(numbers) < 1) {
			t.Errorf("%q: %d numbers", counts, len(numbers))
		}
	})
}
