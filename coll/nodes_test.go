package coll_test

import (
	"flag"
	"os/exec"
	"strings"
	"testing"
)

// askedNodes is the flag that package shmem has, too.
var askedNodes = flag.String("nodes", "1", "on how many nodes teams are tested, with commas between the numbers; on more than one, the tests are those of coll/spanning")

// Teams of this package are on one node. Those on several are made of them: with -nodes, the tests of package spanning run as well.
func TestSpanning(t *testing.T) {
	if strings.Trim(*askedNodes, "1,") == "" {
		t.Skip("-nodes asks for one node only")
	}
	out, err := exec.CommandContext(t.Context(), "go", "test", "-count=1", "./spanning", "-nodes", *askedNodes).CombinedOutput()
	if err != nil {
		t.Errorf("go test ./coll/spanning -nodes %s: %v\n%s", *askedNodes, err, out)
	}
}
