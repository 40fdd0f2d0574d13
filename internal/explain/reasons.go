package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/volumes"
)

// maxNames is how many volumes are named under one reason.
const maxNames = 3

// Reasons that begin so say what is told elsewhere, too.
const (
	warningPrefix = "last warning, of "
	waitsPrefix   = "it waits for "
)

// giveReasons says what keeps the claim from being bound and used.
func (f *findings) giveReasons(i int, c *Claim, nodes *Nodes) {
	e := &f.explanation.Claims[i]
	c.Reasons = f.refusals(i, c, nodes)
	if c.SelectedNode != "" && c.SelectedNode == f.target.Gone {
		c.Reasons = append(c.Reasons, fmt.Sprintf("node %s, for which it is being provisioned (annotation selected-node), does not exist", c.SelectedNode))
	}
	switch f.codeOf(i, nodes) {
	case fault.NoVolume, fault.NoCapacity, fault.ClaimUnbound:
		c.Reasons = append(c.Reasons, c.Candidates.texts()...)
	}
	if c.State == string(volumes.StateBound) {
		return
	}
	if warning := lastWarning(c.Events); warning != nil {
		c.Reasons = append(c.Reasons, fmt.Sprintf(warningPrefix+"%s: %s: %s", warning.Last.Format(time.RFC3339), warning.Reason, oneLine(warning.Message)))
	}
	if len(c.Reasons) == 0 && c.WaitsFor != "" && e.Claim != nil {
		c.Reasons = append(c.Reasons, waitsPrefix+c.WaitsFor)
	}
}

// refusals say what the claim has against the nodes.
func (f *findings) refusals(i int, c *Claim, nodes *Nodes) []string {
	e := &f.explanation.Claims[i]
	switch {
	case f.notKnown(e) != "":
		return []string{f.notKnown(e)}
	case e.Code != "":
		return []string{e.Cause}
	case c.OnNode != nil:
		if c.OnNode.Reason == "" {
			return []string{}
		}
		return []string{c.OnNode.Reason}
	}
	counts := map[string]int{}
	for _, node := range nodes.Nodes {
		if general := node.Claims[i].general; general != "" {
			counts[general]++
		}
	}
	reasons := []string{}
	for _, count := range sortCounts(counts) {
		reasons = append(reasons, fmt.Sprintf("%d of %s: %s", count.Count, plural(nodes.Considered, "node"), count.Reason))
	}
	return reasons
}

// codeOf is what is wrong with the claim on the node, or on most nodes, if none fits.
func (f *findings) codeOf(i int, nodes *Nodes) fault.Code {
	if code := f.explanation.Claims[i].Code; code != "" {
		return code
	}
	if nodes.Fitting > 0 {
		return ""
	}
	counts := map[string]int{}
	for _, node := range nodes.Nodes {
		if code := node.Claims[i].Code; code != "" {
			counts[code]++
		}
	}
	if len(counts) == 0 {
		return ""
	}
	return fault.Code(sortCounts(counts)[0].Reason)
}

// texts say which volumes would fit, and why the others were refused.
func (c *Candidates) texts() []string {
	if c == nil {
		return nil
	}
	texts := c.refusals()
	if c.Fitting > 0 {
		texts = append([]string{fmt.Sprintf("%s would fit, where the node reaches it: %s", plural(c.Fitting, "volume"), some(c.Fit, c.Fitting))}, texts...)
	}
	return texts
}

// String is "7 in the cluster, 1 fits: pv-3".
func (c *Candidates) String() string {
	if c.Considered == 0 {
		return "there are none in the cluster"
	}
	fits := "none fits"
	switch {
	case c.Fitting == 1:
		fits = "1 fits: " + c.Fit[0]
	case c.Fitting > 1:
		fits = fmt.Sprintf("%d fit: %s", c.Fitting, some(c.Fit, c.Fitting))
	}
	return fmt.Sprintf("%d in the cluster, %s", c.Considered, fits)
}

// refusals say why volumes were refused: how many, and the nearest by name.
func (c *Candidates) refusals() []string {
	var texts []string
	for _, count := range c.Refused {
		verb := " are "
		if count.Count == 1 {
			verb = " is "
		}
		text := plural(count.Count, "volume") + verb + count.Reason
		if names := c.named(count); len(names) > 0 {
			text += ": " + strings.Join(names, "; ")
		}
		texts = append(texts, text)
	}
	return texts
}

// named are the nearest volumes that are counted under a reason, with all that is
// wrong with each.
func (c *Candidates) named(count Count) []string {
	var names []string
	for _, near := range c.Nearest {
		if !strings.HasPrefix(near.Reasons[0], count.Reason) || len(names) == maxNames {
			continue
		}
		if count.Reason == string(volumes.RefusedClass) && len(near.Reasons) > 1 {
			continue // of no interest, with its class wrong and more
		}
		details := make([]string, 0, len(near.Reasons))
		for _, detail := range near.Reasons {
			if rest := strings.TrimPrefix(detail, count.Reason); rest != "" { // it is said once for all
				details = append(details, strings.TrimPrefix(rest, ": "))
			}
		}
		if len(details) == 0 {
			names = append(names, near.Volume)
		} else {
			names = append(names, near.Volume+" ("+strings.Join(details, "; ")+")")
		}
	}
	if more := count.Count - len(names); more > 0 && len(names) > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return names
}

// some are the first names of all.
func some(names []string, all int) string {
	shown := names[:min(maxNames, len(names))]
	text := strings.Join(shown, ", ")
	if all > len(shown) {
		text += fmt.Sprintf(" and %d more", all-len(shown))
	}
	return text
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
