package cli

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/version"
)

func TestInfo(t *testing.T) {
	t.Setenv(envvar.SymmetricSize, "1x")
	t.Setenv(envvar.Log, "warn")
	t.Setenv(envvar.Debug, "")
	text, err := say(t, "info")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{version.OpenSHMEM, version.PMIx, runtime.Version(), "graph500", `unknown suffix "x"`} {
		if !strings.Contains(text, want) {
			t.Errorf("info lacks %q:\n%s", want, text)
		}
	}
	for _, v := range envvar.All() {
		if !strings.Contains(text, "\n"+v.Name+" ") {
			t.Errorf("info lacks the variable %s", v.Name)
		}
	}
	for _, want := range [][]string{
		{envvar.SymmetricSize, "1x", string(envvar.FromEnvironment)},
		{envvar.Log, "warn", string(envvar.FromEnvironment)},
		{envvar.Debug, `""`, string(envvar.FromEnvironment)},
	} {
		found := false
		for line := range strings.Lines(text) {
			f := strings.Fields(line)
			found = found || len(f) > 3 && slices.Equal(f[:3], want)
		}
		if !found {
			t.Errorf("info lacks a line %q:\n%s", want, text)
		}
	}
}

// Variables that users set are in another table than those that oshrun sets for PEs.
func TestInfoSeparates(t *testing.T) {
	text, err := say(t, "info")
	users, internals, both := strings.Cut(text, "SET BY OSHRUN FOR PES")
	if err != nil || !both {
		t.Fatalf("one table: %v\n%s", err, text)
	}
	for _, v := range envvar.All() {
		of, other := users, internals
		if v.SetBy == envvar.Oshrun {
			of, other = internals, users
		}
		if line := "\n" + v.Name + " "; !strings.Contains(of, line) || strings.Contains(other, line) {
			t.Errorf("%s, set by %s, is in the wrong table", v.Name, v.SetBy)
		}
	}
}

func TestInfoJSON(t *testing.T) {
	t.Setenv(envvar.SymmetricSize, "1x")
	t.Setenv(envvar.Log, "warn")
	r := sayJSON[infoReport](t, "info", "--json")
	if r.Version != version.String() || r.OpenSHMEM != version.OpenSHMEM || r.PMIx != version.PMIx ||
		r.GoVersion != runtime.Version() || r.OS != runtime.GOOS || r.Arch != runtime.GOARCH ||
		!slices.Equal(r.Builtins, []string{"graph500"}) || len(r.BuildSettings) == 0 {
		t.Errorf("info is %+v", r)
	}
	all := envvar.All()
	if len(r.Environment) != len(all) {
		t.Fatalf("%d variables, want %d", len(r.Environment), len(all))
	}
	for i, v := range r.Environment {
		if v.Name != all[i].Name || v.Doc != all[i].Doc || v.Origin == "" {
			t.Errorf("variable %d is %+v, want %s", i, v, all[i].Name)
		}
		switch v.Name {
		case envvar.SymmetricSize:
			if v.Value != "1x" || !strings.Contains(v.Error, `unknown suffix "x"`) {
				t.Errorf("the bad value has the entry %+v", v)
			}
		case envvar.Log:
			if v.Value != "warn" || v.Origin != string(envvar.FromEnvironment) || v.Error != "" {
				t.Errorf("the good value has the entry %+v", v)
			}
		}
	}
}

func TestNoArguments(t *testing.T) {
	for _, name := range []string{"info", "doctor"} {
		if _, err := say(t, name, "extra"); err == nil || !strings.Contains(err.Error(), `"extra", want none`) {
			t.Errorf("%s extra: %v", name, err)
		}
	}
}
