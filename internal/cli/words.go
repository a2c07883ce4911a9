package cli

import (
	"errors"
	"fmt"
	"strings"
)

// splitWords divides a command into words as a shell does, but expands nothing. Blanks divide words. Single quotes keep
// everything between them. Double quotes do so, but a backslash before ", \, $ or ` stands for that character. Elsewhere a
// backslash stands for the character behind it.
func splitWords(text string) (words []string, err error) {
	var word strings.Builder
	inWord := false // "" is a word
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case ' ', '\t', '\n':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
			continue
		case '\'', '"':
			inside, err := quoted(text[i:])
			if err != nil {
				return nil, err
			}
			word.WriteString(unescape(inside))
			i += len(inside) - 1
		case '\\':
			i++
			if i == len(text) {
				return nil, errors.New("a backslash at the end has no character to quote")
			}
			word.WriteByte(text[i])
		default:
			word.WriteByte(c)
		}
		inWord = true
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// quoted returns the beginning of a text from its first byte, a quote, to the one that closes it.
func quoted(text string) (string, error) {
	quote := text[0]
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == quote:
			return text[:i+1], nil
		case text[i] == '\\' && quote == '"':
			i++
		}
	}
	return "", fmt.Errorf("no quote closes %s", text)
}

// unescape returns what a text in quotes stands for.
func unescape(text string) string {
	inside := text[1 : len(text)-1]
	if text[0] == '\'' {
		return inside
	}
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\$`, `$`, "\\`", "`").Replace(inside)
}
