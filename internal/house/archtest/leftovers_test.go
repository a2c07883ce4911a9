package archtest

import (
	"os/exec"
	"strings"
	"testing"
)

// TestNoLeftovers: git has no file that a failing test of package rapid has left behind. Each run would repeat that one
// failure first, long after the code has changed.
func TestNoLeftovers(t *testing.T) {
	cmd := exec.Command("git", "ls-files", "*.fail", "*/testdata/rapid/*")
	cmd.Dir = "../../.."
	files, err := cmd.Output()
	if err != nil {
		t.Skipf("no git, or no work tree: %v", err)
	}
	if all := strings.Fields(string(files)); len(all) > 0 {
		t.Errorf("git has %v, want none of these files", all)
	}
}
