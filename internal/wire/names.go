package wire

import (
	"strconv"
	"strings"
)

// Names that oshrun and the processes of its jobs derive alike.

// JobName returns the namespace of a job of a step. The step's name contains one dash. Job 0
// is the job of the command line; the others were spawned.
func JobName(step string, number int) string {
	if number == 0 {
		return step
	}
	return step + "-" + strconv.Itoa(number)
}

// JobNumber returns the number of the job whose namespace JobName returned.
func JobNumber(nspace string) int {
	parts := strings.Split(nspace, "-")
	if len(parts) < 3 {
		return 0
	}
	number, _ := strconv.Atoi(parts[2]) // cannot fail: JobName has written the number
	return number
}

// ProfileName returns the start of the names of a PE's profiles: pe.N, and job.J.pe.N in a
// spawned job.
func ProfileName(job, pe int) string {
	name := "pe." + strconv.Itoa(pe)
	if job > 0 {
		name = "job." + strconv.Itoa(job) + "." + name
	}
	return name
}
