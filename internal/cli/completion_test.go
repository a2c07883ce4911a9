package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// An option's values complete to words. The directive says whether the shell adds files, directories or a space.
func TestCompleteKinds(t *testing.T) {
	const (
		files = cobra.ShellCompDirectiveDefault
		words = cobra.ShellCompDirectiveNoFileComp
		list  = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		dirs  = cobra.ShellCompDirectiveFilterDirs
	)
	for _, c := range []struct {
		args, want []string
		directive  cobra.ShellCompDirective
	}{
		{[]string{"sim", "explore", "--protocol", ""}, []string{"ftco", "agree", "literal"}, words},
		{[]string{"graph500", "--validate", ""}, []string{"full", "none"}, words},
		{[]string{"-n", "2", "graph500", "--validate=n"}, []string{"none"}, words},
		{[]string{"-n", "2", "graph500", "--validate", "x"}, nil, words},
		{[]string{"graph500", "--json", ""}, nil, files},
		{[]string{"graph500", "--json=x"}, nil, files},
		{[]string{"--output", ""}, []string{"tag", "timestamp", "merge", "raw", "dir="}, list},
		{[]string{"--output", "t"}, []string{"tag", "timestamp"}, list},
		{[]string{"--output", "tag,"}, []string{"tag,timestamp", "tag,merge", "tag,raw", "tag,dir="}, list},
		{[]string{"--output=tag,m"}, []string{"tag,merge"}, list},
		{[]string{"--display", "map,"}, []string{"map,allocation", "map,bind"}, list},
		{[]string{"--display", "map,bind,"}, []string{"map,bind,allocation"}, list},
		{[]string{"-np", "2", "-display", ""}, displayWords, list},
		{[]string{"--env", ""}, envWords, words},
		{[]string{"--wdir", ""}, nil, dirs},
		{[]string{"--pprof", ""}, nil, dirs},
		{[]string{"-n", ""}, nil, words},
		{[]string{"--np", ""}, nil, words},
		{[]string{"--timeout", ""}, nil, words},
		{[]string{"--report-uri", ""}, nil, files},
	} {
		status, text, said := execute(t, append([]string{"__complete"}, c.args...)...)
		if status != 0 || !strings.Contains("\n"+text, fmt.Sprintf("\n:%d\n", c.directive)) {
			t.Errorf("complete %q: status %d, want :%d\n%s%s", c.args, status, c.directive, text, said)
		}
		checkCompletion(t, c.args, text, c.want)
	}
}
