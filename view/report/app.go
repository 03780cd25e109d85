package report

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io/fs"
	"strings"
)

// The page's program: app/ has its parts, which are joined into one script and one style, so that a page in a file and
// a page on a server run the same.

//go:embed app
var app embed.FS

//go:embed style.css
var style string

// Style is the style of pages without a script, and the colours of all.
func Style() template.CSS { return template.CSS(style) } //nolint:gosec // it is our own

// parts are the script's, in order: a part uses those before it.
var parts = []string{"dom", "charts", "lightbox", "boxes", "verdict", "sprites", "pairs", "wall", "curves", "talks", "workers", "details", "overview", "live", "app"}

// Script is the page's program.
func Script() (string, error) {
	var b strings.Builder
	license, err := app.ReadFile("app/vendor/LICENSE")
	if err != nil {
		return "", err
	}
	chart, err := app.ReadFile("app/vendor/uplot.js")
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&b, "/*\n%s\n*/\n%s", license, chart) // which must be included in every copy of the library
	b.WriteString("\n(() => {\n\"use strict\";\n")
	for _, name := range parts {
		part, err := app.ReadFile("app/" + name + ".js")
		if err != nil {
			return "", err
		}
		b.Write(part)
	}
	b.WriteString("})();\n")
	return b.String(), nil
}

// Sheet is the page's style.
func Sheet() (string, error) {
	b := []byte(style)
	for _, name := range []string{"app/vendor/uplot.css", "app/app.css"} {
		text, err := app.ReadFile(name)
		if err != nil {
			return "", err
		}
		b = append(append(b, '\n'), text...)
	}
	return string(b), nil
}

// shell is the page without its content, which is drawn by the script.
type shell struct {
	Title  string
	Texts  []string // to readers without scripts
	Policy string
	Style  template.CSS
	Script template.JS
	Data   template.JS
}

func (s shell) write() ([]byte, error) {
	t, err := template.ParseFS(fs.FS(app), "app/page.html")
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Execute(&out, s)
	return out.Bytes(), err
}

// Shell is the page of a server: its script and style are files beside it, app.js and app.css.
func Shell() ([]byte, error) { return shell{Title: "runs"}.write() }

// Guard is a page's Content-Security-Policy, by where its script and style come from:
// nothing is loaded from elsewhere, and no text can become markup (trusted types), with any prompt, label or answer.
func Guard(script, style string) string {
	return strings.Join([]string{"default-src 'none'", "script-src " + script, "style-src " + style, "base-uri 'none'", "form-action 'none'",
		"require-trusted-types-for 'script'", "trusted-types 'none'"}, "; ")
}

// single is a page that is one file, with its data.
func single(title string, says []string, data []byte) ([]byte, error) {
	script, err := Script()
	if err != nil {
		return nil, err
	}
	sheet, err := Sheet()
	if err != nil {
		return nil, err
	}
	return shell{Title: title, Texts: says, Style: template.CSS(sheet), Script: template.JS(script), Data: template.JS(data), //nolint:gosec // our own, and JSON without <
		Policy: Guard(sum(script), sum(sheet)) + "; img-src data: blob:; media-src data:"}.write()
}

// sum names a text in a policy.
func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return fmt.Sprintf("'sha256-%s'", base64.StdEncoding.EncodeToString(s[:]))
}
