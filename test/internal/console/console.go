package console

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// plainInterval is how often Status prints where there is no terminal.
const plainInterval = 10 * time.Second

// Console prints lines and keeps a live region under them.
type Console struct {
	out      io.Writer
	terminal bool
	size     func() (width, height int)
	now      func() time.Time

	mu         sync.Mutex
	drawn      int       // lines of the live region that are on the screen
	lastStatus time.Time // of the last plain status line
}

// New returns a console on w. The live region is drawn only if w is a terminal.
func New(w io.Writer) *Console {
	c := &Console{out: w, now: time.Now, lastStatus: time.Now(), size: func() (int, int) { return 80, 24 }}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		c.terminal = true
		c.size = func() (int, int) {
			width, height, err := term.GetSize(int(f.Fd()))
			if err != nil || width <= 0 || height <= 0 {
				return 80, 24
			}
			return width, height
		}
	}
	return c
}

// Discard returns a console that prints nothing.
func Discard() *Console { return New(io.Discard) }

// Terminal tells whether the live region is drawn.
func (c *Console) Terminal() bool { return c.terminal }

// Printf prints one line that stays, above the live region.
func (c *Console) Printf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erase()
	_, _ = fmt.Fprintf(c.out, format+"\n", args...)
	c.lastStatus = c.now()
}

// Status shows what is going on now: in place on a terminal, elsewhere as a
// line unless something was printed less than ten seconds ago.
func (c *Console) Status(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if c.terminal {
		c.Live(text)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now().Sub(c.lastStatus) < plainInterval {
		return
	}
	_, _ = fmt.Fprintln(c.out, text)
	c.lastStatus = c.now()
}

// Live replaces the live region by lines, cut to the terminal's size. It does
// nothing where there is no terminal.
func (c *Console) Live(lines ...string) {
	if !c.terminal {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erase()
	width, height := c.size()
	if len(lines) > height-1 {
		lines = lines[:height-1]
	}
	for _, line := range lines {
		_, _ = fmt.Fprintln(c.out, cut(line, width-1))
	}
	c.drawn = len(lines)
}

// Done removes the live region.
func (c *Console) Done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erase()
}

// erase moves back to the first line of the live region and clears from there.
func (c *Console) erase() {
	if c.drawn > 0 {
		_, _ = fmt.Fprintf(c.out, "\x1b[%dA\x1b[J", c.drawn)
		c.drawn = 0
	}
}

func cut(line string, width int) string {
	runes := []rune(line)
	if len(runes) <= width {
		return line
	}
	return string(runes[:width])
}

// Table aligns rows under header in columns, two spaces apart.
func Table(header []string, rows [][]string) []string {
	widths := make([]int, len(header))
	all := append([][]string{header}, rows...)
	for _, row := range all {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	lines := make([]string, 0, len(all))
	for _, row := range all {
		var b strings.Builder
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-len([]rune(cell))+2))
			}
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return lines
}
