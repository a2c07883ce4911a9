package envvar_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goshmem/goshmem/internal/envvar"
)

// env is an environment.
type env map[string]string

func (e env) lookup(name string) (string, bool) {
	v, ok := e[name]
	return v, ok
}

func TestHeapSize(t *testing.T) {
	for _, c := range []struct {
		env  env
		want uint64
	}{
		{nil, envvar.DefaultSymmetricSize},
		{env{"SHMEM_SYMMETRIC_SIZE": "2m"}, 2 << 20},
		{env{"SMA_SYMMETRIC_SIZE": "3m"}, 3 << 20},
		{env{"SHMEM_SYMMETRIC_SIZE": "2m", "SMA_SYMMETRIC_SIZE": "3m"}, 2 << 20},
		{env{"SHMEM_SYMMETRIC_SIZE": "2m", "SMA_SYMMETRIC_SIZE": "nonsense"}, 2 << 20},
	} {
		if got, err := envvar.HeapSize(c.env.lookup); err != nil || got != c.want {
			t.Errorf("HeapSize with %v: %d, %v, want %d", c.env, got, err, c.want)
		}
	}
}

// TestErrorsNameTheVariable as it was spelled by the user.
func TestErrorsNameTheVariable(t *testing.T) {
	for name, want := range map[string]string{
		"SHMEM_SYMMETRIC_SIZE": `SHMEM_SYMMETRIC_SIZE="1x", want a size such as 1073741824, 512M or 1.5G` +
			` (suffixes k, m, g, t: powers of 1024); unknown suffix "x"`,
		"SMA_SYMMETRIC_SIZE": `SMA_SYMMETRIC_SIZE="1x", want a size such as 1073741824, 512M or 1.5G` +
			` (suffixes k, m, g, t: powers of 1024); unknown suffix "x"`,
	} {
		_, err := envvar.HeapSize(env{name: "1x"}.lookup)
		var bad *envvar.ValueError
		if !errors.As(err, &bad) || err.Error() != want {
			t.Errorf("error is\n%v, want\n%s", err, want)
		}
	}
}

func TestLogLevel(t *testing.T) {
	for _, c := range []struct {
		env  env
		want envvar.Level
	}{
		{nil, envvar.LevelOff},
		{env{"SHMEM_DEBUG": ""}, envvar.LevelDebug},
		{env{"SMA_DEBUG": "1"}, envvar.LevelDebug},
		{env{"SHMEM_DEBUG": "1", "GOSHMEM_LOG": "warn"}, envvar.LevelWarn},
		{env{"GOSHMEM_LOG": " Trace "}, envvar.LevelTrace},
	} {
		if got, err := envvar.LogLevel(c.env.lookup); err != nil || got != c.want {
			t.Errorf("LogLevel with %v: %v, %v, want %v", c.env, got, err, c.want)
		}
	}
	if _, err := envvar.LogLevel(env{"GOSHMEM_LOG": "loud"}.lookup); err == nil || !strings.Contains(err.Error(), "GOSHMEM_LOG") {
		t.Errorf("LogLevel of loud: %v, want an error that names GOSHMEM_LOG", err)
	}
}

func TestRequired(t *testing.T) {
	got, err := envvar.Required(env{"GOSHMEM_TEST_REQUIRE": "openmpi, ebpf,,openmpi"}.lookup)
	if d := cmp.Diff([]string{"ebpf", "openmpi"}, got); d != "" || err != nil {
		t.Errorf("Required: %v (-want +got):\n%s", err, d)
	}
	if got, err := envvar.Required(env{"GOSHMEM_TEST_REQUIRE": ""}.lookup); err != nil || len(got) != 0 {
		t.Errorf("Required of nothing: %v, %v", got, err)
	}
	if _, err := envvar.Required(env{"GOSHMEM_TEST_REQUIRE": "openmpi,ebfp"}.lookup); err == nil || !strings.Contains(err.Error(), `"ebfp"`) {
		t.Errorf("Required with a misspelled capability: %v, want an error that names it", err)
	}
}

func TestIntegers(t *testing.T) {
	if n, err := envvar.Procs(env{}.lookup); n != 0 || err != nil {
		t.Errorf("Procs where it is not set: %d, %v", n, err)
	}
	if n, err := envvar.Procs(env{"GOMAXPROCS": "3"}.lookup); n != 3 || err != nil {
		t.Errorf("Procs of 3: %d, %v", n, err)
	}
	for value, cause := range map[string]string{"0": "too small", "x": "not an integer", "99999999999": "too large"} {
		if n, err := envvar.Procs(env{"GOMAXPROCS": value}.lookup); err == nil || !strings.Contains(err.Error(), cause) {
			t.Errorf("Procs of %s: %d, %v, want an error that says %q", value, n, err, cause)
		}
	}
	if k, err := envvar.Radix(env{}.lookup); k != 0 || err != nil {
		t.Errorf("Radix where it is not set: %d, %v", k, err)
	}
	for _, want := range []int{2, 64} {
		if k, err := envvar.Radix(env{"GOSHMEM_COLL_RADIX": fmt.Sprint(want)}.lookup); k != want || err != nil {
			t.Errorf("Radix of %d: %d, %v", want, k, err)
		}
	}
	for value, cause := range map[string]string{"1": "too small", "-3": "too small", "65": "too large", "99999999999": "too large", "4x": "not an integer", "": "not an integer"} {
		if k, err := envvar.Radix(env{"GOSHMEM_COLL_RADIX": value}.lookup); err == nil || !strings.Contains(err.Error(), cause) {
			t.Errorf("Radix of %q: %d, %v, want an error that says %q", value, k, err, cause)
		}
	}
	if r, ok, err := envvar.Rank(env{}.lookup); r != 0 || ok || err != nil {
		t.Errorf("Rank where it is not set: %d, %v, %v", r, ok, err)
	}
	if r, ok, err := envvar.Rank(env{"PMIX_RANK": "12"}.lookup); r != 12 || !ok || err != nil {
		t.Errorf("Rank of 12: %d, %v, %v", r, ok, err)
	}
	for value, cause := range map[string]string{"-1": "not an integer", "4294967294": "too large", "": "not an integer"} {
		if r, _, err := envvar.Rank(env{"PMIX_RANK": value}.lookup); err == nil || !strings.Contains(err.Error(), cause) {
			t.Errorf("Rank of %q: %d, %v, want an error that says %q", value, r, err, cause)
		}
	}
}

func TestEffective(t *testing.T) {
	e := env{
		"SMA_SYMMETRIC_SIZE": "1x",
		"SHMEM_INFO":         "",
		"GOMAXPROCS":         "2",
		"PMIX_RANK":          "1",
		"GOSHMEM_STEP":       "somewhere",
	}
	type row struct {
		Value  string
		Origin envvar.Origin
		Bad    string // name in the error
	}
	want := map[string]row{
		envvar.SymmetricSize: {"1x", envvar.FromAlias, "SMA_SYMMETRIC_SIZE"},
		envvar.Info:          {"", envvar.FromEnvironment, ""},
		envvar.Version:       {"unset", envvar.FromDefault, ""},
		envvar.Log:           {"off", envvar.FromDefault, ""},
		envvar.MaxProcs:      {"2", envvar.FromEnvironment, ""},
		envvar.PMIxRank:      {"1", envvar.FromOshrun, ""},
		envvar.Step:          {"somewhere", envvar.FromOshrun, ""},
	}
	var names []string
	for _, s := range envvar.Effective(e.lookup) {
		names = append(names, s.Name)
		w, ok := want[s.Name]
		if !ok {
			continue
		}
		got := row{Value: s.Value, Origin: s.Origin}
		if bad, ok := errors.AsType[*envvar.ValueError](s.Err); ok {
			got.Bad = bad.Name
		}
		if got != w {
			t.Errorf("%s: %+v, want %+v", s.Name, got, w)
		}
	}
	var all []string
	for _, v := range envvar.All() {
		all = append(all, v.Name)
	}
	if d := cmp.Diff(all, names); d != "" {
		t.Errorf("rows (-table +effective):\n%s", d)
	}
}

// TestDefaultsParse: what the documentation gives as a default can be written
// into the environment.
func TestDefaultsParse(t *testing.T) {
	for _, v := range envvar.All() {
		if v.Default == envvar.Unset || v.SetBy == envvar.Either {
			continue
		}
		for _, s := range envvar.Effective(env{v.Name: v.Default}.lookup) {
			if s.Name == v.Name && s.Err != nil {
				t.Errorf("default of %s: %v", v.Name, s.Err)
			}
		}
	}
}

func TestTableIsComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range envvar.All() {
		if v.Name == "" || v.Value == "" || v.Default == "" || !strings.HasSuffix(v.Doc, ".") {
			t.Errorf("incomplete: %+v", v)
		}
		for _, name := range []string{v.Name, v.Alias} {
			if name != "" && seen[name] {
				t.Errorf("%s stands in the table twice", name)
			}
			seen[name] = true
		}
	}
}

// TestDocumentationIsUpToDate fails when docs/environment.md does not follow
// from the table.
func TestDocumentationIsUpToDate(t *testing.T) {
	const file = "../../docs/environment.md"
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(envvar.Markdown(), string(got)); d != "" {
		t.Errorf("%s is stale, run: go generate ./internal/envvar (-want +got):\n%s", file, d)
	}
}
