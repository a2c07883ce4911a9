package wire

import "testing"

func TestJobNames(t *testing.T) {
	for number, want := range map[int]string{0: "goshmem-12ab", 1: "goshmem-12ab-1", 12: "goshmem-12ab-12"} {
		if got := JobName("goshmem-12ab", number); got != want || JobNumber(got) != number {
			t.Errorf("job %d is called %q, which is taken for job %d, want %q", number, got, JobNumber(got), want)
		}
	}
}

// Profiles of no two PEs have the same name.
func TestProfileNames(t *testing.T) {
	for _, c := range []struct {
		job, pe int
		want    string
	}{{0, 3, "pe.3"}, {1, 3, "job.1.pe.3"}, {3, 1, "job.3.pe.1"}} {
		if got := ProfileName(c.job, c.pe); got != c.want {
			t.Errorf("PE %d of job %d: %q, want %q", c.pe, c.job, got, c.want)
		}
	}
}
