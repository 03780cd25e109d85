package rewards

import (
	"errors"
	"strings"
)

// Words splits a command into a program and its arguments as a shell does, and expands nothing: blanks separate
// words, single quotes keep everything between them, double quotes everything but \" and \\, and a backslash keeps
// the next character.
func Words(command string) (words []string, err error) {
	var word strings.Builder
	begun, quote, escaped := false, rune(0), false
	for _, c := range command {
		switch {
		case escaped:
			if quote == '"' && c != '"' && c != '\\' {
				word.WriteByte('\\')
			}
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			begun, escaped = true, true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			begun, quote = true, c
		case strings.ContainsRune(" \t\r\n", c):
			if begun {
				words = append(words, word.String())
			}
			begun = false
			word.Reset()
		default:
			begun = true
			word.WriteRune(c)
		}
	}
	switch {
	case quote != 0:
		return nil, errors.New("a quotation mark is open at the end")
	case escaped:
		return nil, errors.New("a backslash at the end keeps nothing")
	case begun:
		words = append(words, word.String())
	}
	return words, nil
}
