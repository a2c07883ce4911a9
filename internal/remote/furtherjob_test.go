package remote

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/house/testenv"
)

func (f *fake) AddJob(j daemon.FurtherJob) error {
	f.note("add %+v", j)
	return f.err
}

func (f *fake) StartJob(number int) error {
	f.note("start %d", number)
	return f.err
}

func (f *fake) DropJob(number int) error {
	f.note("drop %d", number)
	return f.err
}

func (f *fake) EndJob(number int)                { f.note("end %d", number) }
func (f *fake) AnswerSpawn(a daemon.SpawnAnswer) { f.note("answer %+v", a) }

// Requests for further jobs reach the front end, and what it wants with such jobs reaches the node.
func TestFurtherJobs(t *testing.T) {
	f := newFake()
	asked := make(chan daemon.SpawnRequest, 1)
	hooks := silent()
	hooks.Spawn = func(r daemon.SpawnRequest) { asked <- r }
	c, _ := begin(t, f, daemon.Config{}, hooks)
	var r daemon.SpawnRequest
	testenv.Fill(reflect.ValueOf(&r).Elem())
	r.Apps[0].Env = []string{string(make([]byte, 3*pieceBytes))}
	f.hooks.Spawn(r)
	within(t, "request for a job", func() {
		if got := <-asked; !reflect.DeepEqual(got, r) {
			t.Error("the request comes changed")
		}
	})
	j := daemon.FurtherJob{Number: 3, Homes: []int{1, 0}, Bases: []int{2, -1}}
	if err := errors.Join(c.AddJob(j), c.StartJob(3)); err != nil {
		t.Error(err)
	}
	c.EndJob(2)
	f.err = errGone
	for what, err := range map[string]error{"add": c.AddJob(j), "start": c.StartJob(3), "drop": c.DropJob(3)} {
		if err == nil || err.Error() != errGone.Error() {
			t.Errorf("%s: %v, want the node's error", what, err)
		}
	}
	f.err = nil
	c.AnswerSpawn(daemon.SpawnAnswer{ID: 7, Failed: "no"})
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	got := f.noted()
	for _, want := range []string{
		"add {Number:3 Key:[0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0] Parent:.0 Homes:[1 0] Bases:[2 -1] Hosts:[] Apps:[] Preput:[]}", "start 3", "end 2", "drop 3", "answer {Node:0 ID:7 Number:0 Failed:no}",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("calls %q, want %q among them", got, want)
		}
	}
}
