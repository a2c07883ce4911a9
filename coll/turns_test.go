package coll

import (
	"testing"
	"time"
)

// Half of the trials have homes. After the trials, the team has homes if the quickest run with them was quicker than the quickest one without.
func TestHomesThatPay(t *testing.T) {
	trials := [2]int{}
	for n := range uint64(homePeriod) {
		trial, with := withHomes(n)
		if again, same := withHomes(n + homePeriod); again != trial || same != with {
			t.Fatalf("exchange %d: %t, %t; a period later: %t, %t", n, trial, with, again, same)
		}
		switch {
		case trial && with:
			trials[0]++
		case trial:
			trials[1]++
		}
	}
	if trials != [2]int{homeTrials / 2, homeTrials / 2} {
		t.Errorf("%v trials with homes and without, want %d each", trials, homeTrials/2)
	}
	var h homeTrial
	for _, x := range []struct {
		name          string
		with, without time.Duration
		pays          bool
	}{
		{"faster", 10, 11, true},
		{"slower", 12, 11, false},
		{"faster again", 10, 11, true},
		{"as fast", 11, 11, false},
	} {
		for n := range uint64(homeTrials) {
			if h.pays != (x.name == "slower" || x.name == "as fast") {
				t.Fatalf("%s, exchange %d: homes pay: %t before the end of the trials", x.name, n, h.pays)
			}
			took := x.without
			if _, with := withHomes(n + homeFirst); with {
				took = x.with
			}
			if n%(4*homeRun) < 2*homeRun { // others may take the processor away
				took *= 100
			}
			h.add(n+homeFirst+3*homePeriod, took)
		}
		if h.pays != x.pays {
			t.Errorf("%s: homes pay: %t, want %t", x.name, h.pays, x.pays)
		}
	}
}
