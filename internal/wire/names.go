package wire

import (
	"strconv"
	"strings"
)

// What oshrun and the processes of its jobs call things that both have to find.

// JobName returns the namespace of a job of a step. The step's own name has one dash. Job 0
// is that of the command line, the others were spawned.
func JobName(step string, number int) string {
	if number == 0 {
		return step
	}
	return step + "-" + strconv.Itoa(number)
}

// JobNumber returns the number of the job with a namespace that JobName has made.
func JobNumber(nspace string) int {
	parts := strings.Split(nspace, "-")
	if len(parts) < 3 {
		return 0
	}
	number, _ := strconv.Atoi(parts[2]) // JobName has put it there
	return number
}

// ProfileName returns what the names of a PE's profiles begin with: pe.N, and job.J.pe.N
// in a spawned job.
func ProfileName(job, pe int) string {
	name := "pe." + strconv.Itoa(pe)
	if job > 0 {
		name = "job." + strconv.Itoa(job) + "." + name
	}
	return name
}
