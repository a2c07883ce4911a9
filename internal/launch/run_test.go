package launch

import (
	"slices"
	"testing"
)

func TestExitStatus(t *testing.T) {
	for status, want := range map[int]int{0: 0, 1: 1, 42: 42, 255: 255, 256: 255, 300: 44, 1 << 16: 255, -1: 255, -256: 255} {
		if got := exitStatus(status); got != want {
			t.Errorf("abort with status %d: exit status %d, want %d", status, got, want)
		}
	}
}

// PEs must not take a launcher around oshrun for their own.
func TestInherited(t *testing.T) {
	env := []string{"A=1", "PMIX_RANK=3", "PMI_SIZE=4", "SLURM_NODELIST=n[1-2]", "SLURM_JOB_NODELIST=n[1-2]"}
	if got, want := inherited(env), []string{"A=1", "SLURM_JOB_NODELIST=n[1-2]"}; !slices.Equal(got, want) {
		t.Errorf("outside of a step of Slurm: got %q, want %q", got, want)
	}
	env = append(env, "SLURM_STEP_ID=0")
	if got, want := inherited(env), []string{"A=1", "SLURM_NODELIST=n[1-2]", "SLURM_JOB_NODELIST=n[1-2]", "SLURM_STEP_ID=0"}; !slices.Equal(got, want) {
		t.Errorf("in a step of Slurm: got %q, want %q", got, want)
	}
}
