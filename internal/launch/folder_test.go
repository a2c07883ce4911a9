package launch

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/internal/daemon"
)

// Each PE has its own files, and so have PEs that come later. A file that cannot be written is reported once, and keeps
// what was written before.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	d := newFolder(&Output{Dir: dir}, 2)
	first, second := source{id: daemon.ID{PE: 1}}, source{id: daemon.ID{Job: 2, PE: 0}, stream: daemon.Stderr}
	if err := d.open(first.id); err != nil {
		t.Fatal(err)
	}
	write := func(s source, text string) error { return d.write(s, []byte(text)) }
	for _, s := range []source{first, second} {
		if err := errors.Join(write(s, "one\n"), write(s, "two\n")); err != nil {
			t.Error(err)
		}
	}
	_ = d.files[first].Close()
	if err := write(first, "three\n"); err == nil {
		t.Error("a failed write is not reported")
	}
	if err := errors.Join(write(first, "four\n"), write(second, "three\n")); err != nil {
		t.Errorf("reported again: %v", err)
	}
	want := map[string]string{
		"/rank.1/stdout": "one\ntwo\n", "/rank.1/stderr": "",
		"/job.2/rank.0/stdout": "", "/job.2/rank.0/stderr": "one\ntwo\nthree\n",
	}
	if got := d.incomplete(); !slices.Equal(got, []string{dir + "/rank.1/stdout"}) {
		t.Errorf("incomplete files %q", got)
	}
	if err := d.close(); err != nil {
		t.Error(err)
	}
	for name, text := range want {
		if got, err := os.ReadFile(dir + name); err != nil || string(got) != text {
			t.Errorf("%s holds %q, %v, want %q", name, got, err, text)
		}
	}
	if err := os.WriteFile(dir+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d = newFolder(&Output{Dir: dir + "/file", Merge: true}, 2)
	if err := write(first, "x"); err == nil {
		t.Error("a folder that cannot be made is not reported")
	}
	if err := write(first, "x"); err != nil {
		t.Errorf("reported again: %v", err)
	}
}

// The files are where Open MPI's users look for them.
func TestFolderByJob(t *testing.T) {
	d := newFolder(&Output{Dir: "D", ByJob: true}, 11)
	for id, want := range map[daemon.ID]string{{PE: 5}: "D/1/rank.05", {PE: 10}: "D/1/rank.10", {Job: 1, PE: 5}: "D/2/rank.5"} {
		if got := d.place(id); got != want {
			t.Errorf("files of PE %v in %s, want %s", id, got, want)
		}
	}
}
