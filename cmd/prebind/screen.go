package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/prebind/prebind/internal/status"
)

// What a terminal does when it is sent these.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // another screen, no cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	toTop       = "\x1b[H"
	clearRight  = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// screen draws a text in place of the last one. It takes a screen of its own, so
// that what was on the terminal is there again afterwards.
type screen struct {
	out  io.Writer
	size func() (width, height int)
	open bool
}

func newScreen(out io.Writer) *screen {
	return &screen{out: out, size: func() (width, height int) {
		file, ok := out.(*os.File)
		if !ok {
			return 80, 24
		}
		width, height, err := term.GetSize(int(file.Fd()))
		if err != nil {
			return 80, 24
		}
		return width, height
	}}
}

// show draws the instances; failed is why others are missing.
func (s *screen) show(all []status.Status, failed error) error {
	var text strings.Builder
	if failed != nil {
		fmt.Fprintf(&text, "%v\n\n", failed)
	}
	if err := status.WriteText(&text, all); err != nil {
		return err
	}
	if err := s.draw(text.String()); err != nil {
		return &runtimeError{fmt.Errorf("drawing the status: %w", err)}
	}
	return nil
}

// draw cuts the text to the terminal's size, or its lines would wrap and push
// each other out.
func (s *screen) draw(text string) error {
	width, height := s.size()
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if more := len(lines) - height; more > 0 && height > 0 {
		lines = append(lines[:height-1], fmt.Sprintf("... and %d more lines", more+1))
	}
	var frame strings.Builder
	if !s.open {
		frame.WriteString(enterScreen)
		s.open = true
	}
	frame.WriteString(toTop)
	for i, line := range lines {
		if i > 0 {
			frame.WriteString("\n")
		}
		frame.WriteString(cutLine(line, width) + clearRight)
	}
	frame.WriteString(clearBelow)
	_, err := io.WriteString(s.out, frame.String())
	return err
}

// close gives the terminal back as it was.
func (s *screen) close() {
	if s.open {
		_, _ = io.WriteString(s.out, leaveScreen) // it is the last word anyway
		s.open = false
	}
}

func cutLine(line string, width int) string {
	if runes := []rune(line); len(runes) > width {
		return string(runes[:max(width-1, 0)]) + "…"
	}
	return line
}
