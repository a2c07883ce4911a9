package cli

import (
	"slices"
	"strings"
	"testing"
)

// namesIn returns the variables in the output of PEs that run env, without those that oshrun sets, sorted.
func namesIn(out string) (names []string) {
	for line := range strings.Lines(out) {
		name, _, _ := strings.Cut(line, "=")
		if strings.HasPrefix(name, "KEEP_") || name == "SLURM_JOB_NAME" || slices.Contains(basicVars, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Without oshrun's environment, PEs have what -x says, what oshrun sets, and by what programs are found.
func TestPassOn(t *testing.T) {
	noSlurm(t)
	for name, value := range map[string]string{"KEEP_A": "1", "KEEP_B": "2", "HOME": "/", "LOGNAME": "me", "SHELL": "/bin/sh", "USER": "me", "SLURM_JOB_NAME": "x"} {
		t.Setenv(name, value)
	}
	const basic = "HOME LOGNAME PATH SHELL SLURM_JOB_NAME USER"
	for line, want := range map[string]string{
		"-n 1 env":            "HOME KEEP_A KEEP_B LOGNAME PATH SHELL SLURM_JOB_NAME USER",
		"--env all -n 1 env":  "HOME KEEP_A KEEP_B LOGNAME PATH SHELL SLURM_JOB_NAME USER",
		"--env none -n 1 env": basic,
		"--env none -x KEEP_B -x KEEP_C=3 -n 1 env":      "HOME KEEP_B KEEP_C " + strings.TrimPrefix(basic, "HOME "),
		"-n 1 true : --env none -n 1 env":                basic,
		"-genvnone -n 1 true : -n 1 env":                 basic,
		"-genvnone -n 1 true : -envlist KEEP_A -n 1 env": "HOME KEEP_A " + strings.TrimPrefix(basic, "HOME "),
		"-genvlist KEEP_A,KEEP_B -n 1 true : -n 1 env":   "HOME KEEP_A KEEP_B " + strings.TrimPrefix(basic, "HOME "),
		"-genvnone -genv KEEP_D 4 -n 1 true : -n 1 env":  "HOME KEEP_D " + strings.TrimPrefix(basic, "HOME "),
		"--export=NONE -n 1 env":                         basic,
		"--export=KEEP_A,KEEP_D=4 -n 1 env":              "HOME KEEP_A KEEP_D " + strings.TrimPrefix(basic, "HOME "),
	} {
		status, out, said := execute(t, strings.Fields(line)...)
		if got := strings.Join(namesIn(out), " "); status != 0 || got != want {
			t.Errorf("%s: status %d, %s\nvariables %s\nwant      %s", line, status, said, got, want)
		}
		if !strings.Contains(out, "PMIX_RANK=") || !strings.Contains(out, "GOMAXPROCS=") {
			t.Errorf("%s: the PE lacks what oshrun sets:\n%s", line, out)
		}
	}
	status, out, said := execute(t, strings.Fields("-genv KEEP_A all -x KEEP_A=one -n 1 printenv KEEP_A")...)
	if status != 0 || out != "one\n" {
		t.Errorf("a variable of one program and of all: status %d, %q, %s", status, out, said)
	}
}

// So it is on emulated nodes, whose daemons have oshrun's environment.
func TestPassOnEmulated(t *testing.T) {
	j := prepare(t, "--emulate", "2", "-n", "2", "--env", "none", "-x", "KEEP_A", "env")
	j.cmd.Env = append(j.cmd.Env, "KEEP_A=1", "KEEP_B=2")
	j.begin()
	j.expect(0)
	out := j.stdout.String()
	if n := strings.Count(out, "KEEP_A=1\n"); n != 2 || strings.Contains(out, "KEEP_B=") || strings.Contains(out, asOshrun) {
		t.Errorf("KEEP_A is there %d times, want 2, and neither KEEP_B nor %s:\n%s", n, asOshrun, out)
	}
}
