package ending

import "testing"

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		end  End
		want Verdict
	}{
		"finished":                       {End{}, Well},
		"killed":                         {End{Signal: 9}, Killed},
		"killed without a core":          {End{Signal: 11, Unfinished: true}, Killed},
		"dumped core":                    {End{Signal: 6, Core: true}, Killed},
		"out of memory":                  {End{Signal: 9, OOM: true, Unfinished: true}, Killed},
		"killed, though it had finished": {End{Signal: 15}, Killed},
		"status":                         {End{Code: 7}, Exited},
		"status in the job":              {End{Code: 255, Unfinished: true}, Exited},
		"left without a word":            {End{Unfinished: true}, Unfinished},
		"vanished":                       {End{Unknown: true, Unfinished: true}, Unfinished},
		"vanished after its farewell":    {End{Unknown: true}, Well},
	} {
		if got := c.end.Judge(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if Verdict(9).String() != "unknown" || Unfinished.String() != "unfinished" {
		t.Error("verdicts have other names")
	}
}
