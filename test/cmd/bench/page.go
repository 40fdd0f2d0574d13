package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// What stands between these lines of a page is written by bench.
const (
	beginMark = "<!-- bench: begin; `make bench` writes what follows -->"
	endMark   = "<!-- bench: end -->"
)

// updatePage replaces the part of a page between the marks.
func updatePage(file, section string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("writing the figures into a page: %w", err)
	}
	before, rest, begun := strings.Cut(string(text), beginMark)
	_, after, ended := strings.Cut(rest, endMark)
	if !begun || !ended {
		return fmt.Errorf("writing the figures into %s: it lacks the line %q or %q", file, beginMark, endMark)
	}
	page := before + beginMark + "\n\n" + section + "\n" + endMark + after
	if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
		return fmt.Errorf("writing the figures into a page: %w", err)
	}
	return nil
}

// publish writes the plots beside the report, and both into a page: the given
// one, or one of its own in the folder.
func (r *report) publish(dir, page string) (string, error) {
	plots, err := r.plot(dir)
	if err != nil {
		return "", err
	}
	if page == "" {
		page = filepath.Join(dir, "report.md")
		if err := os.WriteFile(page, []byte("# Benchmark\n\n"+beginMark+"\n"+endMark+"\n"), 0o644); err != nil {
			return "", fmt.Errorf("writing the report: %w", err)
		}
	}
	folder, err := filepath.Rel(filepath.Dir(page), dir)
	if err != nil {
		return "", fmt.Errorf("finding the plots from %s: %w", page, err)
	}
	return page, updatePage(page, r.markdown(plots, filepath.ToSlash(folder)))
}

// save writes a drawing to a file.
func save(drawing io.WriterTo, file string) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = drawing.WriteTo(f)
	return err
}
