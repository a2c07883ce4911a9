package daemon

import (
	"testing"

	"github.com/goshmem/goshmem/internal/ending"
)

// An end comes out of a word as it went in, so the page tells the same whoever brings the news.
func TestPackEnd(t *testing.T) {
	for _, e := range []ending.End{
		{},
		{Signal: 9},
		{Signal: 64, Core: true},
		{Signal: 9, OOM: true, Unfinished: true},
		{Code: 255},
		{Code: 65535, Unfinished: true},
		{Unfinished: true},
		{Unfinished: true, Unknown: true},
	} {
		got := UnpackEnd(PackEnd(e))
		if got != e || causeOf(got) != causeOf(e) {
			t.Errorf("%+v comes out as %+v", e, got)
		}
	}
}
