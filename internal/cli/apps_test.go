package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
	"github.com/goshmem/goshmem/pmix/client"
	"github.com/goshmem/goshmem/pmix/codec"
)

// testClient is a PE that uses its PMIx server, without heaps.
func testClient(args []string, stdout, stderr io.Writer) int {
	ctx, stop := context.WithTimeout(context.Background(), testPatience)
	defer stop()
	c, err := client.Init(ctx)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	if args[0] == "app" { // print which program of how many this is, and its arguments
		number, _ := c.JobInfo(c.Rank(), codec.KeyAppNum)
		rank, _ := c.JobInfo(c.Rank(), codec.KeyAppRank)
		all, _ := c.JobInfo(codec.RankWildcard, codec.KeyJobNumApps)
		fmt.Fprintf(stdout, "PE %v of %d: app %v of %v, PE %v in it; %s %s\n",
			c.Rank(), c.Size(), number, all, rank, strings.Join(args[1:], " "), os.Getenv("ROLE"))
	}
	switch args[0] {
	case "news":
		err = learnOfDeath(ctx, c, stdout)
	case "fences":
		err = timeFences(ctx, c, args[1:], stdout)
	}
	if err = errors.Join(err, c.Finalize(ctx)); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// lines returns the sorted lines of a text.
func lines(text string) []string {
	all := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	slices.Sort(all)
	return all
}

// A job may have several programs. PEs are numbered through, and each program has its own arguments, variables and
// directory.
func TestSeveralPrograms(t *testing.T) {
	j := start(t, "-n", "2", "-x", "ROLE=first", "t-pmix", "app", "x", ":", "-np", "1", "-x", "ROLE=second", "t-pmix", "app", "-n", "9",
		":", "-n", "1", "-wdir", "/", "sh", "-c", "echo PE $PMIX_RANK of shell in $PWD as [$ROLE]")
	j.expect(0)
	want := []string{
		"PE 0 of 4: app 0 of 3, PE 0 in it; x first", "PE 1 of 4: app 0 of 3, PE 1 in it; x first",
		"PE 2 of 4: app 1 of 3, PE 0 in it; -n 9 second", "PE 3 of shell in / as []",
	}
	if got := lines(j.stdout.String()); !slices.Equal(got, want) {
		t.Errorf("output %q, want %q", got, want)
	}
}

// Programs of one job share heaps.
func TestSeveralProgramsShareHeaps(t *testing.T) {
	j := start(t, "-n", "2", "t-pe", "barrier", ":", "-n", "1", "t-pe", "globalexit", "7") // globalexit waits for the others' increments
	j.expect(7, "PE 2 (pid")
}

// Open MPI gets the number of each rank's program.
func TestSeveralProgramsOpenMPI(t *testing.T) {
	t.Parallel()
	prog := testenv.CompileC(t, testenv.OpenMPI, filepath.Join("testdata", "appnum.c"))
	j := start(t, "-n", "1", prog, ":", "-n", "2", prog)
	j.expect(0)
	want := []string{"rank 0 of 3, app 0", "rank 1 of 3, app 1", "rank 2 of 3, app 1"}
	if got := lines(j.stdout.String()); !slices.Equal(got, want) {
		t.Errorf("output %q, want %q", got, want)
	}
}

// An error in a part of the command line says what is wrong, and in which part.
func TestPartErrors(t *testing.T) {
	for args, words := range map[string][]string{
		"-n 1 true : --timeout 3 -n 1 true":   {"program 2 of the job: --timeout is for the whole job, want it before the first program"},
		"-n 1 true : -n 1 true : -v -n 1 sh":  {"program 3 of the job: --verbose is for the whole job"},
		"-n 1 true : true":                    {"program 2 of the job: -n is not given"},
		"true : -n 1 true":                    {"-n is not given", "hint: oshrun -n 2 ./a : -n 3 ./b"},
		"-n 1 true :":                         {"program 2 of the job: -n is not given"},
		"-n 1 true : -n 1":                    {"program 2 of the job: no program given"},
		"-n 1 : -n 1 true":                    {"no program given"},
		"-n 1 true : -n x true":               {`program 2 of the job: -n: number of PEs "x"`},
		"-n 1 true : -n 0 true":               {"program 2 of the job: -n: number of PEs 0"},
		"-n 1 true : -n 1 --wdir /no/dir sh":  {`program 2 of the job: --wdir: "/no/dir"`},
		"-n 1 true : -n 1 -x NO_SUCH_VAR sh":  {"program 2 of the job: -x: NO_SUCH_VAR is not set"},
		"-n 1 true : -n 1 --no-such-flag sh":  {"program 2 of the job: unknown option --no-such-flag"},
		"-n 1 true : -n 1 --help sh":          {"program 2 of the job: --help"},
		"-n 1 --stdin 2 true : -n 1 true":     {"want a PE from 0 to 1"},
		"-n 1 --wdir / true : --wdir= -n 1 a": {`program 2 of the job: --wdir: "", want a directory`},
	} {
		status, _, said := execute(t, strings.Fields(args)...)
		if status != 2 {
			t.Errorf("oshrun %s: status %d, want 2", args, status)
		}
		for _, w := range words {
			if !strings.Contains(said, w) {
				t.Errorf("oshrun %s: message lacks %q:\n%s", args, w, said)
			}
		}
	}
	if status, _, said := execute(t, "-n", "1", "true", ":", "-n", "1", "no-such-program"); status != 4 || !strings.Contains(said, "no-such-program") {
		t.Errorf("second program does not exist: status %d, %s", status, said)
	}
}
