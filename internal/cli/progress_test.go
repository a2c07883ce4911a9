package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestProgressBars: a bar is drawn at the start and the end of its phase and once per interval. A full bar ends its line.
func TestProgressBars(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	progress := progressBars(&out, func() time.Time { return now })
	for done := range 5 { // half an interval apart, so 0, 2 and 4 of 4 are drawn
		progress("search", done, 4)
		now = now.Add(barInterval / 2)
	}
	progress("validation", 0, 64) // a new phase, however soon
	bar := func(full int) string {
		return "|" + strings.Repeat("█", full) + strings.Repeat(" ", barWidth-full) + "|"
	}
	want := "\rsearch           0% " + bar(0) + " (0/4)" +
		"\rsearch          50% " + bar(barWidth/2) + " (2/4)" +
		"\rsearch         100% " + bar(barWidth) + " (4/4)\n" +
		"\rvalidation       0% " + bar(0) + " (0/64)"
	if got := out.String(); got != want {
		t.Errorf("drew %q, want %q", got, want)
	}
	out.Reset()
	progressBars(&out, time.Now)("nothing", 0, 0)
	if want := "\rnothing          0% " + bar(0) + " (0/0)\n"; out.String() != want {
		t.Errorf("drew %q, want %q", &out, want)
	}
}
